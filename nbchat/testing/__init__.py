"""For tests and demos: scripted models, and recorded conversations to replay."""

from nbchat.testing.scripted import (
    Line,
    ScriptedProvider,
    calls,
    fails,
    says,
)

__all__ = ["Line", "ScriptedProvider", "calls", "fails", "says"]
