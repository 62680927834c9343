"""For tests and demos: scripted models, recorded conversations, a desk of tickets."""

from nbchat.testing.replay import Replay, recorded_coding, recorded_desk
from nbchat.testing.scripted import (
    Line,
    ScriptedProvider,
    ScriptedReply,
    calls,
    fails,
    says,
)
from nbchat.testing.ticket_desk import TicketDesk, read_tickets

__all__ = [
    "Line",
    "Replay",
    "ScriptedProvider",
    "ScriptedReply",
    "TicketDesk",
    "calls",
    "fails",
    "read_tickets",
    "recorded_coding",
    "recorded_desk",
    "says",
]
