"""For tests and demos: scripted models, and recorded conversations to replay."""

from nbchat.testing.replay import Replay, recorded_desk
from nbchat.testing.scripted import (
    Line,
    ScriptedProvider,
    ScriptedReply,
    calls,
    fails,
    says,
)

__all__ = [
    "Line",
    "Replay",
    "ScriptedProvider",
    "ScriptedReply",
    "calls",
    "fails",
    "recorded_desk",
    "says",
]
