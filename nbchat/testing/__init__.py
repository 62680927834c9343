"""For tests and demos: scripted models, recorded conversations, simulated desks."""

from nbchat.testing.replay import (
    Replay,
    recorded_coding,
    recorded_decisions,
    recorded_desk,
)
from nbchat.testing.retail_desk import RetailDesk, Scenario, retail_scenarios
from nbchat.testing.scripted_provider import (
    Line,
    ScriptedProvider,
    ScriptedReply,
    calls,
    fails,
    says,
)
from nbchat.testing.ticket_desk import (
    ROUTES,
    Category,
    GuidedDesk,
    SolvedTickets,
    TicketDesk,
    chosen_category,
    read_articles,
    read_tickets,
)

__all__ = [
    "ROUTES",
    "Category",
    "GuidedDesk",
    "Line",
    "Replay",
    "RetailDesk",
    "Scenario",
    "ScriptedProvider",
    "ScriptedReply",
    "SolvedTickets",
    "TicketDesk",
    "calls",
    "chosen_category",
    "fails",
    "read_articles",
    "read_tickets",
    "recorded_coding",
    "recorded_decisions",
    "recorded_desk",
    "retail_scenarios",
    "says",
]
