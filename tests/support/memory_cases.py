"""Sessions of nine kinds of work, cut where a compaction happens, and what comes after.

Recorded sessions of one kind are chained, oldest first, to 15,000 to 30,000 tokens and
cut within the last one; each of them is once the last. Six help-desk conversations at
once take turns. Of talk there are no later calls: what a later question and its answer
name is needed, for meetings and for ten chats in a row.
"""

import gzip
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from measures import COUNTER, cut_at, interleaved
from needed_values import has_word, needed_values, texts
from recorded_notebooks import by_our_tools
from trajectories import read_trajectories

from nbchat.conversation.entries import Entry

DATA = Path(__file__).parents[1] / "data"

LEAST_TOKENS, MOST_TOKENS = 15_000, 30_000
"""Of a chain of sessions."""

HALF, QUARTERS = (0.5,), (0.25, 0.5, 0.75)
"""Where the last session of a chain is cut: in its middle, or where a kind has few
values, three times."""

AT_ONCE, DESKS = 6, 12
"""Conversations of a desk that take turns, and how many such desks there are."""

CHATS = 10
"""Chats in one session."""

SPANS = re.compile(
    r"\b\d[\d.,]*\b%?"  # numbers
    r"|(?<=[a-z,;] )[A-Z][\w-]+"  # names, where no sentence begins
    r"|(?<=[\"“'])[^\"“”'\n]{3,40}(?=[\"”'])"  # quoted terms
)
"""Short facts in talk."""


@dataclass(frozen=True)
class Case:
    """What a compaction covers, and the values that are needed after it."""

    id: str
    covered: tuple[Entry, ...]
    needed: tuple[str, ...]


@dataclass(frozen=True)
class Recorded:
    """One recorded session."""

    entries: tuple[Entry, ...]
    known: str
    """System prompt and tools: what need not be remembered."""
    tokens: int


@dataclass(frozen=True)
class Kind:
    """A row of the benchmark."""

    title: str
    cases: Callable[[], Iterator[Case]]
    recorded: int
    """Cases for which a strong writer writes the summary."""
    decides: bool = True
    """True if the row may be the worst one."""


def cases_of(name: str) -> list[Case]:
    """The cases of a kind that need anything."""
    return [case for case in KINDS[name].cases() if case.needed]


def with_summaries(name: str) -> list[Case]:
    """The cases of a kind for which summaries are recorded, evenly spread."""
    cases, count = cases_of(name), KINDS[name].recorded
    return [cases[len(cases) * number // count] for number in range(count)]


def read(name: str) -> list[dict[str, Any]]:
    """The rows of a data file."""
    lines = gzip.decompress((DATA / f"{name}.jsonl.gz").read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


@cache
def notebook_work(source: str) -> tuple[Recorded, ...]:
    """The recorded sessions of one source."""
    rows = (row for row in read("notebook_work") if row["source"] == source)
    return tuple(_recorded(row["messages"]) for row in rows)


@cache
def by_notebook_tools(source: str) -> tuple[Recorded, ...]:
    """The same, done with nbchat's own tools for notebooks."""
    rows = (row for row in read("notebook_work") if row["source"] == source)
    return tuple(_recorded([*by_our_tools(row["messages"])]) for row in rows)


def _recorded(messages: Sequence[dict[str, Any]]) -> Recorded:
    known = "".join(m["content"] for m in messages if m["role"] == "system")
    entries = tuple(entry for message in messages for entry in _entries(message))
    return Recorded(entries, known, COUNTER.count_entries(entries))


def _entries(message: dict[str, Any]) -> Iterator[Entry]:
    match message["role"]:
        case "tool":
            result, call_id = message["tool_result"], message["tool_call_id"]
            yield Entry("tool", result, call_id, message["name"])
        case "user" | "assistant" as role:
            if message.get("content"):
                yield Entry(role, message["content"])
            for call in message.get("tool_calls") or ():
                arguments = json.dumps(call["args"], ensure_ascii=False)
                yield Entry("assistant", "", call["id"], call["name"], arguments)


@cache
def desk_conversations() -> tuple[Recorded, ...]:
    """The recorded conversations of help desks."""
    return tuple(
        Recorded(
            run.entries, run.system + run.tools, COUNTER.count_entries(run.entries)
        )
        for run in read_trajectories()
        if "openhands" not in run.name
    )


def chained(
    name: str, sessions: Sequence[Recorded], shares: Sequence[float] = HALF
) -> Iterator[Case]:
    """A case for each session and share: those before it, and a share of its tokens."""
    for last in range(len(sessions)):
        chain = chain_to(sessions, last)
        before = tuple(entry for each in chain[:-1] for entry in each.entries)
        entries = before + chain[-1].entries
        known = "\n".join(each.known for each in chain)
        for share in shares:
            cut = len(before) + cut_at(chain[-1].entries, share)
            needed = needed_values(entries, cut, known)
            name_of_cut = f"{name}-{last:02}-{share * 100:.0f}"
            yield Case(name_of_cut, entries[:cut], tuple(needed))


def chain_to(sessions: Sequence[Recorded], last: int) -> list[Recorded]:
    """A session after as many earlier ones, in a circle, as make it long enough."""
    chain = [numbered(_shortened(sessions[last]), last)]
    for back in range(1, len(sessions)):
        size, number = sum(each.tokens for each in chain), last - back
        if size >= LEAST_TOKENS:
            break
        if size + sessions[number].tokens <= MOST_TOKENS:
            chain.insert(0, numbered(sessions[number], number % len(sessions)))
    return chain


def _shortened(session: Recorded) -> Recorded:
    if session.tokens <= MOST_TOKENS:
        return session
    stop = cut_at(session.entries, MOST_TOKENS / session.tokens)
    entries = session.entries[:stop]
    return Recorded(entries, session.known, COUNTER.count_entries(entries))


def numbered(session: Recorded, number: int) -> Recorded:
    """The session with call ids of its own."""
    entries = tuple(
        entry._replace(tool_id=f"{number}_{entry.tool_id}") if entry.tool_id else entry
        for entry in session.entries
    )
    return Recorded(entries, session.known, session.tokens)


def desks_at_once() -> Iterator[Case]:
    """Six conversations that take turns, cut at half and at three quarters."""
    runs = [run for run in read_trajectories() if "openhands" not in run.name]
    for number in range(DESKS):
        chance = random.Random(number)
        chosen = chance.sample(runs, AT_ONCE)
        entries = interleaved(chosen, chance)
        known = "\n".join(run.system + run.tools for run in chosen)
        for share in (0.5, 0.75):
            cut = cut_at(entries, share)
            needed = needed_values(entries, cut, known)
            name = f"desks-{number:02}-{share * 100:.0f}"
            yield Case(name, entries[:cut], tuple(needed))


def meetings() -> Iterator[Case]:
    """Each meeting, answered so that it may be folded, with its questions."""
    for number, row in enumerate(read("meetings_qmsum")):
        asked = [f"{each['question']} {each['answer']}" for each in row["qa"]]
        said = (*_said(row["messages"]), Entry("assistant", "Noted."))
        yield Case(f"meeting-{number:02}", said, _spans(said, asked))


def chats() -> Iterator[Case]:
    """Ten chats one after the other; their last exchanges are asked afterwards."""
    rows = [row for row in read("chats_oasst") if len(row["messages"]) >= 4]
    for start in range(0, len(rows) - CHATS + 1, CHATS):
        some = rows[start : start + CHATS]
        said = tuple(e for row in some for e in _said(row["messages"][:-2]))
        asked = [message["content"] for row in some for message in row["messages"][-2:]]
        yield Case(f"chats-{start // CHATS:02}", said, _spans(said, asked))


def _said(messages: Sequence[dict[str, str]]) -> Iterator[Entry]:
    yield from (Entry(message["role"], message["content"]) for message in messages)


def _spans(said: Sequence[Entry], asked: Sequence[str]) -> tuple[str, ...]:
    """The short facts that are asked for and had been said."""
    before = texts(said)
    found = (span.strip(" .,") for text in asked for span in SPANS.findall(text))
    spans = dict.fromkeys(span for span in found if len(span) > 1)
    return tuple(span for span in spans if has_word(before, span))


KINDS = {
    "insight": Kind(
        "notebooks: insight-bench",
        lambda: chained("insight", notebook_work("insight-bench")),
        recorded=6,
    ),
    "dseval": Kind(
        "notebooks: dseval",
        lambda: chained("dseval", notebook_work("dseval"), QUARTERS),
        recorded=5,
    ),
    "insight-tools": Kind(
        "insight-bench by our tools",
        lambda: chained("insight-tools", by_notebook_tools("insight-bench")),
        recorded=0,
        decides=False,
    ),
    "dseval-tools": Kind(
        "dseval by our tools",
        lambda: chained("dseval-tools", by_notebook_tools("dseval"), QUARTERS),
        recorded=0,
        decides=False,
    ),
    "sql": Kind(
        "SQL", lambda: chained("sql", notebook_work("intercode-sql")), recorded=5
    ),
    "coding": Kind(
        "scientific coding",
        lambda: chained("coding", notebook_work("mini-swe-agent")),
        recorded=6,
    ),
    "assistant": Kind(
        "assistant with Python",
        lambda: chained("assistant", notebook_work("who&when"), QUARTERS),
        recorded=5,
    ),
    "desk": Kind(
        "help desk, one at a time",
        lambda: chained("desk", desk_conversations()),
        recorded=5,
    ),
    "desks": Kind("help desk, six at once", desks_at_once, recorded=4),
    "meeting": Kind("meetings", meetings, recorded=2, decides=False),
    "chats": Kind("chats", chats, recorded=2),
}
"""The rows by the names of their cases."""
