"""For tests and demos: scripted models and recorded conversations."""

from nbchat.testing.replay import Replay, recorded_coding, recorded_desk
from nbchat.testing.scripted_provider import (
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
    "recorded_coding",
    "recorded_desk",
    "says",
]
