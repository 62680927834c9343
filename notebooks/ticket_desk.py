"""The support desk of the demo: real tickets, help articles, and tools for an agent.

The desk decides which tool is next. At a `TicketDesk` the model decides the category,
the priority and the team, and writes the reply. At a `GuidedDesk`, for a very small
model, similar solved tickets narrow the choice to three categories, the model chooses
one of them, and the rest follows from the category.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from nbchat.conversation.entries import Entry, Usage
from nbchat.conversation.search_index import SearchIndex
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError
from nbchat.providers.base import Provider, Reply, ReplyStream, Request

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

DATA = Path(__file__).parent / "data"

TICKET = ("text", "category")
"""Fields of a ticket in a file."""

SNIPPET_LENGTH = 160
"""Characters of an article that a search returns."""

SIMILAR = 8
"""Solved tickets that vote for the categories of a new one."""

CHOICES = 3
"""Categories among which a small model chooses."""

CHOICE_TOKENS = 200
"""Tokens of a choice at most: a call with one category, and any thinking before it."""

QUOTED_LINES = 3
"""Lines of an article's section in a reply."""


@dataclass(frozen=True, slots=True)
class Route:
    """What follows from a category: the team, the priority, the article for the reply.

    `section` is the heading in the article whose lines are quoted.
    """

    team: Team
    priority: Priority
    article: str = ""
    section: str = ""


_DISPUTE = ("Disputing a payment", "How to start a dispute")
_NEW_CARD = "Credit Card Replacement Shipping Options and Fees"

ROUTES: dict[str, Route] = {
    "age_limit": Route(
        "accounts", "low", "Who can open a Light Green Account?", "Age criteria"
    ),
    "automatic_top_up": Route(
        "top-ups", "low", "Direct deposits — setup and timing", "Set up direct deposit"
    ),
    "card_payment_not_recognised": Route("payments", "high", *_DISPUTE),
    "card_swallowed": Route("cards", "high", _NEW_CARD, "Delivery timeframes"),
    "cash_withdrawal_not_recognised": Route("payments", "high", *_DISPUTE),
    "compromised_card": Route(
        "cards", "high", _NEW_CARD, "When to choose expedited shipping"
    ),
    "country_support": Route("accounts", "low"),
    "extra_charge_on_statement": Route(
        "payments", "normal", "Eligibility and fees", "Standard fees"
    ),
    "supported_cards_and_currencies": Route(
        "top-ups",
        "low",
        "Navigating Currency Conversions on World Blue",
        "Before you convert",
    ),
    "top_up_by_cash_or_cheque": Route(
        "top-ups", "low", "Adding funds to your teen's account", "Check deposits"
    ),
    "top_up_limits": Route(
        "top-ups",
        "low",
        "Bronze Saver Account: Mobile banking and deposit limits",
        "Mobile check deposit",
    ),
    "transfer_fee_charged": Route(
        "payments",
        "normal",
        "Why was I charged a transfer fee on my Gold Account?",
        "Possible reasons you see a fee",
    ),
    "verify_top_up": Route("top-ups", "normal"),
    "virtual_card_not_working": Route(
        "cards",
        "normal",
        "Virtual Card Management: How to Issue a Virtual Card in Seconds",
        "Expected timing",
    ),
    "wrong_amount_of_cash_received": Route("payments", "high", *_DISPUTE),
}
"""The routing table of the desk, by category."""


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
        steps = self._steps(ticket)
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
        texts = [Entry("user", f"{a['title']}\n{a['content']}") for a in self.articles]
        best = SearchIndex().search(texts, query)
        if not best:
            return f"no article has a word of {query!r}"
        article = self.articles[best[0].position]
        content = " ".join(article["content"].split())[:SNIPPET_LENGTH]
        return f"{article['title']}: {content}"

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

    def _steps(self, ticket: Ticket) -> dict[str, object]:
        """The tools in the order of the work, and whether each has done its part."""
        return {
            "search_help_articles": self._searched,
            "set_category": ticket.category,
            "set_priority": ticket.priority,
            "assign_team": ticket.team,
            "reply_draft": ticket.reply,
        }

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


@dataclass
class GuidedDesk(TicketDesk):
    """A desk for a very small model, which cannot tell 15 categories apart.

    Solved tickets narrow the choice to three categories, and `model` chooses one of
    them in a short request of its own; priority, team and reply follow from it.
    """

    model: Provider | None = None
    """The model that chooses; set it before the first ticket."""
    solved: "SolvedTickets" = field(
        default_factory=lambda: SolvedTickets.packaged()  # noqa: PLW0108  # it is below
    )
    system: ClassVar = (
        "You triage tickets of an online bank, one at a time: read the ticket, choose "
        "a category, draft the reply, close the ticket."
    )

    @property
    def tools(self) -> list[Callable[..., object]]:
        """The tools of the agent, in the order of the work."""
        return [
            self.get_next_ticket,
            self.choose_category,
            self.draft_reply,
            self.close_ticket,
        ]

    def choose_category(self) -> str:
        """Choose the category of the open ticket among those of similar tickets."""
        ticket = self._need_open()
        if self.model is None:
            raise NbchatError("the desk has no model; set desk.model = agent.provider")
        category = chosen_category(self.model, ticket.text, self.solved)
        route = ROUTES[category]
        ticket.category = category
        ticket.priority, ticket.team = route.priority, route.team
        return f"{ticket.id}: {category}, for team {route.team}, {route.priority}"

    def draft_reply(self) -> str:
        """Draft the reply, from the help article of the ticket's category."""
        ticket = self._need_open()
        ticket.reply = composed_reply(ROUTES[ticket.category], self.articles)
        return f"{ticket.id}: {ticket.reply}"

    def close_ticket(self) -> str:
        """Close the open ticket."""
        closed = super().close_ticket()
        if self._waiting:
            return closed
        return f"{closed}. Now say: All {len(self.tickets)} tickets are closed."

    def _steps(self, ticket: Ticket) -> dict[str, object]:
        return {"choose_category": ticket.category, "draft_reply": ticket.reply}


def chosen_category(model: Provider, text: str, solved: "SolvedTickets") -> str:
    """The category that a model chooses among those of similar solved tickets.

    It sees the most similar tickets of each category as if it had answered them itself,
    the likeliest last: a small model repeats what it did before. Without a similar
    ticket it may choose any category. Raises NbchatError for an answer that is none.
    """
    likely = solved.likely_categories(text)[::-1]
    examples = solved.examples(text, likely)
    answered = [entry for ticket in examples for entry in _answered(ticket)]
    choices = likely or tuple(ROUTES)
    schema = {
        "type": "object",
        "properties": {"category": {"type": "string", "enum": list(choices)}},
        "required": ["category"],
        "additionalProperties": False,
    }
    request = Request(
        (*answered, Entry("user", text or "(empty)")),
        "Name the category of each ticket of an online bank, as JSON.",
        max_output_tokens=CHOICE_TOKENS,
        output_schema=schema,
    )
    answer = reply_of(model.stream(request)).text
    chosen = next((each for each in choices if f'"{each}"' in answer), "")
    if not chosen:
        raise NbchatError(f"the model named no category, but {answer[:60]!r}")
    return chosen


def reply_of(stream: ReplyStream) -> Reply:
    """The reply at the end of a stream."""
    while True:
        try:
            next(stream)
        except StopIteration as finished:
            reply: Reply = finished.value
            return reply


def _answered(ticket: Ticket) -> list[Entry]:
    answer = json.dumps({"category": ticket.true_category})
    return [Entry("user", ticket.text), Entry("assistant", answer)]


class SolvedTickets:
    """Solved tickets with their categories, ranked by BM25 for a new one.

    A ticket with the same text is never found: its category is what is asked for.
    """

    def __init__(self, tickets: Iterable[Ticket]) -> None:
        """Index the texts at the first search."""
        self.tickets = list(tickets)
        self._entries = [Entry("user", ticket.text) for ticket in self.tickets]
        self._index = SearchIndex()

    @classmethod
    def packaged(cls) -> "SolvedTickets":
        """The 100 solved tickets beside this file; no desk has them as open tickets."""
        return cls(_as_tickets(_read_rows(None, "solved_tickets.jsonl", TICKET)))

    def likely_categories(self, text: str) -> tuple[str, ...]:
        """Up to three categories, the likeliest first: similar tickets vote."""
        votes: dict[str, float] = {}
        for ticket, score in self._ranked(text)[:SIMILAR]:
            category = ticket.true_category
            votes[category] = votes.get(category, 0) + score
        return tuple(sorted(votes, key=lambda each: -votes[each])[:CHOICES])

    def examples(self, text: str, categories: Sequence[str]) -> list[Ticket]:
        """The most similar solved ticket of each category, and of the last one two."""
        ranked = [ticket for ticket, _ in self._ranked(text)]
        found: list[Ticket] = []
        for category in categories:
            same = [each for each in ranked if each.true_category == category]
            found += same[1::-1] if category == categories[-1] else same[:1]
        return found

    def _ranked(self, text: str) -> list[tuple[Ticket, float]]:
        found = self._index.search(self._entries, text)
        pairs = [(self.tickets[match.position], match.score) for match in found]
        return [pair for pair in pairs if pair[0].text != text]


def composed_reply(route: Route, articles: Iterable[dict[str, str]]) -> str:
    """A reply that quotes the article of a route; without one the team will write."""
    team = f"Our {route.team} team"
    lines = next(
        (
            section_lines(article["content"], route.section)
            for article in articles
            if article["title"] == route.article
        ),
        [],
    )
    if not lines:
        return f"Thank you for your message. {team} will look into it and write to you."
    return (
        f"Thank you for your message. {' '.join(lines[:QUOTED_LINES])} "
        f"{team} is glad to help if a question is left."
    )


def section_lines(content: str, heading: str) -> list[str]:
    """The listed lines below a heading of a Markdown text, each a sentence."""
    _, _, below = content.partition(f"# {heading}\n")
    section = below.partition("\n#")[0]
    lines = re.findall(r"^\s*(?:-|\d+\.) (.+)$", section, re.MULTILINE)
    return [line.replace("**", "").rstrip(".:") + "." for line in lines]


def read_tickets(file: Path | None = None, *, count: int | None = None) -> list[Ticket]:
    """Read tickets from a JSON-lines file with `text` and `category`, by default our own.

    Raises NbchatError with the number of the first line that is not a ticket.
    """
    return _as_tickets(_read_rows(file, "tickets.jsonl", TICKET)[:count])


def read_articles(file: Path | None = None) -> list[dict[str, str]]:
    """Read help articles from a JSON-lines file with `title` and `content`."""
    return _read_rows(file, "help_articles.jsonl", ("title", "content"))


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """What the embedded model decided about a ticket, and the tokens it took."""

    ticket: Ticket
    category: str
    usage: Usage


def recorded_decisions() -> list[RecordedDecision]:
    """The embedded model's choices for all 150 tickets, T001 to T150.

    Each was made as `chosen_category` does it, with the ticket itself held out.
    """
    text = (DATA / "decisions.jsonl").read_text(encoding="utf-8")
    rows = map(json.loads, text.splitlines())
    made = {row["text"]: row for row in rows}
    tickets = [*read_tickets(), *SolvedTickets.packaged().tickets]
    return [
        _decision(replace(ticket, id=f"T{number:03}"), made[ticket.text])
        for number, ticket in enumerate(tickets, 1)
    ]


def _decision(ticket: Ticket, made: dict[str, Any]) -> RecordedDecision:
    usage = Usage(made["input_tokens"], made["output_tokens"])
    return RecordedDecision(ticket, made["category"], usage)


def _as_tickets(rows: Iterable[dict[str, str]]) -> list[Ticket]:
    return [
        Ticket(f"T{number}", row["text"], row["category"])
        for number, row in enumerate(rows, 1)
    ]


def _read_rows(
    file: Path | None, packaged: str, fields: tuple[str, ...]
) -> list[dict[str, str]]:
    source = file or DATA / packaged
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
