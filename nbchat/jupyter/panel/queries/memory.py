"""Query about the memory: what the model sees now, and where each value is from."""

import re
from collections.abc import Sequence
from functools import cached_property

from nbchat.agent.agent import Agent
from nbchat.compaction.summarizer.unsupported_marks import is_marked
from nbchat.compaction.summarizer.value_extraction import Value, values
from nbchat.compaction.summary_format import summary_facts, summary_text
from nbchat.conversation.entries import Entry
from nbchat.errors import NbchatError
from nbchat.jupyter.panel.answers import MemoryValue, MemoryView
from nbchat.rendering.entries import summary_text_html
from nbchat.rendering.facts import facts_html

_OMITTED = re.compile(r"\s*\[…\]\s*|…")
"""What a quote contains where words were omitted."""


def memory_view(agent: Agent) -> MemoryView:
    """The summary, the facts and the messages they come from.

    The position of a value is that of the first covered message that holds it, in any
    way of writing it; null where none does.
    """
    session, record = agent.session, agent.session.compaction
    if record is None:
        raise NbchatError("nothing is compacted: the model sees all messages")
    story = summary_text(record.summary)
    found = [each for each in values(story) if not is_marked(story, each.stop)]
    covered = session.transcript[: record.stop]
    positions = _positions(found, covered)
    return MemoryView(
        html=summary_text_html(story),
        values=tuple(
            MemoryValue(value.text, position)
            for value, position in zip(found, positions, strict=True)
        ),
        facts=facts_html(
            "\n".join(summary_facts(record.summary)),
            record.facts,
            Quotes(covered).find,
        ),
        covered=record.stop,
        kept=len(session.transcript) - record.stop,
    )


def _positions(wanted: Sequence[Value], entries: Sequence[Entry]) -> list[int | None]:
    """The first entry that holds each value."""
    missing = set().union(*(value.keys for value in wanted))
    places: dict[str, int] = {}
    for position, entry in enumerate(entries):
        if not missing:
            break
        is_text = entry.is_prompt or entry.is_by_nbchat
        given = "" if is_text else entry.tool_args
        text = f"{entry.attachment_text}\n{given}"
        for value in values(text):
            for key in (value.known | value.related) & missing:
                places[key] = position
                missing.discard(key)
    return [
        min((places[key] for key in value.keys if key in places), default=None)
        for value in wanted
    ]


class Quotes:
    """Finds the messages that lines of the facts quote; reads each message once."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        """`entries` are those that a compaction covers."""
        self._entries = entries

    def find(self, line: str) -> int | None:
        """The newest message that says what a line quotes, if it does."""
        _, mark, rest = line.partition('"')
        quote, end, _ = rest.rpartition('"')
        pieces = [_plain(piece) for piece in _OMITTED.split(quote) if _plain(piece)]
        if not (mark and end and pieces):
            return None
        texts = self._texts
        for position in range(len(texts) - 1, -1, -1):
            if all(piece in texts[position] for piece in pieces):
                return position
        return None

    @cached_property
    def _texts(self) -> list[str]:
        return [_plain(entry.content) for entry in self._entries]


def _plain(text: str) -> str:
    return " ".join(text.split())
