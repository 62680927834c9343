"""Questions about recorded conversations, and whether a search finds the answers."""

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbchat.conversation.entries import Entry
from nbchat.conversation.search import SearchResults
from nbchat.conversation.session import Session

DATA = Path(__file__).parents[1] / "data"

FIRST = 5
"""Results of which one must hold a turn of the answer."""


@dataclass(frozen=True)
class Question:
    """A question, and the indices of the entries that answer it."""

    text: str
    evidence: tuple[range, ...]

    def is_answered(self, found: SearchResults, *, first: int = FIRST) -> bool:
        """True if one of the first results has an entry of the evidence."""
        passages = [result.passage for result in found.results[:first]]
        return any(
            passage.start < turns.stop and turns.start < passage.stop
            for passage in passages
            for turns in self.evidence
        )


@dataclass(frozen=True)
class Asked:
    """A session and questions about it."""

    session: Session
    questions: tuple[Question, ...]


def read_rows(name: str) -> list[dict[str, Any]]:
    """The rows of a data file."""
    lines = gzip.decompress((DATA / f"{name}.jsonl.gz").read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


def meetings() -> list[Asked]:
    """Each meeting with questions whose answers are marked."""
    return [
        Asked(Session(_said(row)), tuple(_questions(row)))
        for row in read_rows("meetings_retrieval")
    ]


def all_meetings() -> Asked:
    """All meetings after each other in one session, with all questions."""
    said: list[Entry] = []
    questions: list[Question] = []
    for row in read_rows("meetings_retrieval"):
        questions += _questions(row, offset=len(said))
        said += _said(row)
    return Asked(Session(said), tuple(questions))


def follow_ups(name: str) -> Asked:
    """Conversations after each other in one session.

    The last message of each person is omitted and used as the question; any other
    entry of its conversation answers it.
    """
    said: list[Entry] = []
    questions: list[Question] = []
    for row in read_rows(name):
        begin, entries = len(said), [e for e in _said(row) if e.role != "system"]
        asked = [index for index, entry in enumerate(entries) if entry.role == "user"]
        if len(asked) < 2:
            said += entries
            continue
        text = entries.pop(asked[-1]).content
        said += entries
        questions.append(Question(text, (range(begin, len(said)),)))
    return Asked(Session(said), tuple(questions))


def _said(row: dict[str, Any]) -> list[Entry]:
    return [
        Entry(
            each["role"], each["content"], tool_name="tool" * (each["role"] == "tool")
        )
        for each in row["messages"]
        if each["content"]
    ]


def _questions(row: dict[str, Any], *, offset: int = 0) -> Iterator[Question]:
    for each in row["qa"]:
        spans: Sequence[Sequence[str]] = each["evidence"]
        turns = (range(offset + int(a), offset + int(b) + 1) for a, b in spans)
        yield Question(each["question"], tuple(turns))
