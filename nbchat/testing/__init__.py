"""For tests and demos: scripted models, recorded conversations, a desk of tickets."""

from nbchat.testing.replay import (
    Replay,
    recorded_coding,
    recorded_decisions,
    recorded_desk,
)
from nbchat.testing.scripted import (
    Line,
    ScriptedProvider,
    ScriptedReply,
    calls,
    fails,
    says,
)
from nbchat.testing.ticket_desk import (
    GuidedDesk,
    SolvedTickets,
    TicketDesk,
    chosen_category,
    read_tickets,
)

__all__ = [
    "GuidedDesk",
    "Line",
    "Replay",
    "ScriptedProvider",
    "ScriptedReply",
    "SolvedTickets",
    "TicketDesk",
    "calls",
    "chosen_category",
    "fails",
    "read_tickets",
    "recorded_coding",
    "recorded_decisions",
    "recorded_desk",
    "says",
]
