"""The support desk of the demo: real tickets, help articles, and tools for an agent.

The desk decides which tool is next; the model decides the category, the priority, the
team and the reply. So every decision is valid, even from a very small model.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Literal

from nbchat.conversation.session import Session
from nbchat.errors import NbchatError

Category = Literal[
    "age_limit",
    "automatic_top_up",
    "card_payment_not_recognised",
    "card_swallowed",
    "cash_withdrawal_not_recognised",
    "compromised_card",
    "country_support",
    "extra_charge_on_statement",
    "supported_cards_and_currencies",
    "top_up_by_cash_or_cheque",
    "top_up_limits",
    "transfer_fee_charged",
    "verify_top_up",
    "virtual_card_not_working",
    "wrong_amount_of_cash_received",
]
Priority = Literal["low", "normal", "high"]
Team = Literal["accounts", "cards", "payments", "top-ups"]

SNIPPET_LENGTH = 160
"""Characters of an article that a search returns."""


@dataclass(slots=True)
class Ticket:
    """A customer's message and the decisions about it."""

    id: str
    text: str
    true_category: str
    category: str = ""
    priority: str = ""
    team: str = ""
    reply: str = ""
    is_closed: bool = False

    @property
    def is_decided(self) -> bool:
        """Whether the ticket is closed with every decision made."""
        fields = (self.category, self.priority, self.team, self.reply)
        return self.is_closed and all(fields)


@dataclass
class TicketDesk:
    """The tickets, the open one among them, and the tools that work on it."""

    system: ClassVar = (
        "You triage tickets of an online bank, one at a time: read the ticket, search "
        "the help articles, set category and priority, assign a team, draft a reply, "
        "close it."
    )
    """The system prompt for an agent at this desk."""
    task: ClassVar = (
        "Work through all tickets until none is left, then say what was done."
    )
    """The prompt with which the agent begins."""
    tickets: list[Ticket]
    articles: list[dict[str, str]] = field(default_factory=lambda: read_articles(None))
    _current: Ticket | None = None
    _searched: bool = False

    @property
    def tools(self) -> list[Callable[..., object]]:
        """The tools of the agent, in the order of the work."""
        return [
            self.get_next_ticket,
            self.search_help_articles,
            self.set_category,
            self.set_priority,
            self.assign_team,
            self.reply_draft,
            self.close_ticket,
        ]

    def next_tool(self, _session: Session) -> str:
        """The tool to call next; `none` if every ticket is closed."""
        ticket = self._open
        if ticket is None:
            return "get_next_ticket" if self._waiting else "none"
        steps = {
            "search_help_articles": self._searched,
            "set_category": ticket.category,
            "set_priority": ticket.priority,
            "assign_team": ticket.team,
            "reply_draft": ticket.reply,
        }
        return next((tool for tool, done in steps.items() if not done), "close_ticket")

    def get_next_ticket(self) -> str:
        """Open the next ticket and read it."""
        if self._open is not None:
            return f"{self._open.id} is still open: {self._open.text}"
        if not self._waiting:
            return "no ticket is left"
        ticket = self._waiting[0]
        self._current, self._searched = ticket, False
        return f"{ticket.id}: {ticket.text}"

    def search_help_articles(self, query: str) -> str:
        """Find the help article that fits the open ticket best."""
        self._searched = True
        wanted = set(_words(query))
        best = max(
            self.articles,
            key=lambda a: len(wanted & set(_words(a["title"] + a["content"]))),
        )
        found = f"{best['title']}: {' '.join(best['content'].split())[:SNIPPET_LENGTH]}"
        # The ticket is repeated: a small model attends most to what it read last.
        return (
            f"{found}\n{self._open.id} says: {self._open.text}" if self._open else found
        )

    def set_category(self, category: Category) -> str:
        """Say what the open ticket is about."""
        return self._decide("category", category)

    def set_priority(self, priority: Priority) -> str:
        """Say how urgent the open ticket is."""
        return self._decide("priority", priority)

    def assign_team(self, team: Team) -> str:
        """Give the open ticket to a team."""
        return self._decide("team", team)

    def reply_draft(self, text: str) -> str:
        """Draft a short reply to the customer who wrote the open ticket."""
        return self._decide("reply", text or "-")

    def close_ticket(self) -> str:
        """Close the open ticket."""
        ticket = self._need_open()
        ticket.is_closed = True
        left = len(self._waiting)
        return f"{ticket.id} is closed, {left} left"

    def table(self) -> list[dict[str, Any]]:
        """One row per ticket: the decisions, and the true category."""
        return [
            {
                "ticket": ticket.id,
                "text": ticket.text,
                "category": ticket.category,
                "true category": ticket.true_category,
                "right": ticket.category == ticket.true_category,
                "priority": ticket.priority,
                "team": ticket.team,
                "reply": ticket.reply,
            }
            for ticket in self.tickets
        ]

    @property
    def _open(self) -> Ticket | None:
        current = self._current
        return current if current is not None and not current.is_closed else None

    @property
    def _waiting(self) -> list[Ticket]:
        return [ticket for ticket in self.tickets if not ticket.is_closed]

    def _need_open(self) -> Ticket:
        if self._open is None:
            raise NbchatError("no ticket is open; call get_next_ticket")
        return self._open

    def _decide(self, name: str, value: str) -> str:
        ticket = self._need_open()
        setattr(ticket, name, value)
        return (
            f"{ticket.id}: {name} {value}" if name != "reply" else f"{ticket.id}: saved"
        )


def read_tickets(file: Path | None = None, *, count: int | None = None) -> list[Ticket]:
    """Read tickets from a JSON-lines file with `text` and `category`, or packaged ones.

    Raises NbchatError with the number of the first line that is not a ticket.
    """
    rows = _read_rows(file, "tickets.jsonl", ("text", "category"))[:count]
    return [
        Ticket(f"T{number}", row["text"], row["category"])
        for number, row in enumerate(rows, 1)
    ]


def read_articles(file: Path | None = None) -> list[dict[str, str]]:
    """Read help articles from a JSON-lines file with `title` and `content`."""
    return _read_rows(file, "help_articles.jsonl", ("title", "content"))


def _read_rows(
    file: Path | None, packaged: str, fields: tuple[str, ...]
) -> list[dict[str, str]]:
    source = file or files("nbchat.testing") / "data" / packaged
    try:
        text = source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NbchatError(f"{source} cannot be read: {error}") from None
    lines = enumerate(text.splitlines(), 1)
    return [
        _read_row(line, f"{source}, line {n}", fields)
        for n, line in lines
        if line.strip()
    ]


def _read_row(line: str, source: str, fields: tuple[str, ...]) -> dict[str, str]:
    wanted = " and ".join(map(repr, fields))
    try:
        row = json.loads(line)
    except ValueError:
        raise NbchatError(
            f"{source} is not JSON: {line[:40]!r}; each line is an object with {wanted}"
        ) from None
    if not isinstance(row, dict) or not all(
        isinstance(row.get(f), str) for f in fields
    ):
        raise NbchatError(f"{source} needs {wanted} as strings, not {line[:40]!r}")
    return row


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]{4,}", text.lower())
