"""Two hundred tickets in one session: which rows hold a ticket and its decisions."""

import random
from collections.abc import Sequence

from ticket_desk import Ticket, TicketDesk, read_tickets

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import TurnFailed
from nbchat.providers.base import Request
from nbchat.testing import ScriptedProvider, calls, says
from nbchat.testing.scripted_provider import Line

COUNT = 200
CHECKPOINTS = (17, 33, 49, 81, 193)
"""Closed tickets at which the rows are counted."""

WINDOW = 24_000
PRIORITIES, TEAMS = ("low", "normal", "high"), ("accounts", "cards", "payments")


def right_rows(engine: CompactionEngine, *, count: int = COUNT) -> dict[int, int]:
    """Work through the tickets; of each checkpoint the number of right rows.

    A row is a line of the summary, or the entries of a ticket that are still kept.
    """
    desk = TicketDesk(_tickets(count))
    counts: dict[int, int] = {}
    decided: dict[str, tuple[str, str, str]] = {}

    def answer(request: Request) -> Line:
        if request.answer_tag:
            return says("<summary>(no story was written)</summary>")
        ticket = desk._open
        closed = sum(each.is_closed for each in desk.tickets)
        if closed in CHECKPOINTS and closed not in counts:
            counts[closed] = _right(request.history, decided)
        return _step(request, ticket, decided)

    agent = Agent(
        ScriptedProvider(*[answer] * (10 * count), window=WINDOW),
        tools=desk.tools,
        system=desk.system,
        engine=engine,
        tool_choice=desk.next_tool,
        max_steps=10 * count,
    )
    for event in agent.run(desk.task):
        if isinstance(event, TurnFailed):
            raise event.error
    return counts


def _tickets(count: int) -> list[Ticket]:
    known = read_tickets(count=30)
    return [
        Ticket(f"T{number:04}", each.text, each.true_category)
        for number in range(1, count + 1)
        for each in [known[(number - 1) % len(known)]]
    ]


def _step(
    request: Request, ticket: Ticket | None, decided: dict[str, tuple[str, str, str]]
) -> Line:
    """The call that the desk asks for, with decisions that depend on the ticket."""
    tool = request.tool_choice
    if tool == "none" or (ticket is None and tool != "get_next_ticket"):
        return says("All tickets are closed.")
    if ticket is None:
        return calls(tool)
    chance = random.Random(ticket.id)
    priority, team = chance.choice(PRIORITIES), chance.choice(TEAMS)
    decided[ticket.id] = (ticket.true_category, priority, team)
    arguments = {
        "search_help_articles": {"query": " ".join(ticket.text.split()[:6])},
        "set_category": {"category": ticket.true_category},
        "set_priority": {"priority": priority},
        "assign_team": {"team": team},
        "reply_draft": {"text": "We are looking into it and will write soon."},
    }
    return calls(tool, **arguments.get(tool, {}))


def _right(history: Sequence[Entry], decided: dict[str, tuple[str, str, str]]) -> int:
    """Tickets whose id and category stand in one line of the history."""
    lines = "\n".join(entry.content for entry in history).splitlines()
    return sum(
        any(ticket in line and category in line for line in lines)
        for ticket, (category, _, _) in decided.items()
    )
