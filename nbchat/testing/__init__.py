"""For tests and demos: scripted models, and recorded conversations to replay."""

from nbchat.testing.scripted import (
    Answer,
    Line,
    ScriptedProvider,
    calls,
    fails,
    says,
)

__all__ = ["Answer", "Line", "ScriptedProvider", "calls", "fails", "says"]
