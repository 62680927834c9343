"""The facts: what code carries over a compaction, word for word, beside the story.

They are read from the transcript itself at every compaction, never from an earlier
summary, so nothing is retold and nothing decays.
"""

from collections.abc import Iterable, Sequence

from nbchat.compaction.facts.actions import LOOKED_UP_TITLE, call_rows, tally
from nbchat.compaction.facts.entities import spoken_names, thing_rows
from nbchat.compaction.facts.row_packing import Cell, Row, block_within
from nbchat.compaction.facts.salience import Scale
from nbchat.compaction.facts.tool_results import Record, records
from nbchat.compaction.truncation import shorten
from nbchat.conversation.entries import Entry
from nbchat.conversation.search import TOOL_NAME
from nbchat.conversation.turns import last_prompt
from nbchat.providers.tokens import TokenCounter

LAST_SHARE, CHARACTERS_PER_TOKEN = 0.15, 4
"""Of the room for facts, what the last request may take, and the last answer."""

TITLE_TOKENS, SHORTEST_LAST = 15, 200
"""Tokens of a title and of a note on what is left out, and the characters below which
a last word would be no more than a shred: then it is left to the story."""

OPEN_TITLE = "Open request, word for word:"
ASKED_TITLE = "Last request, word for word:"
ANSWERED_TITLE = "Last answer, word for word:"

NAMED = 1.0
"""How much the row of other names counts; as much as one of things done."""

NAMED_LABEL = "Also named:"
NO_TITLE = ""

NOTE_SLACK = 2
"""Tokens by which the note on what is not shown may grow."""


def facts(
    transcript: Sequence[Entry],
    *,
    last: Iterable[tuple[str, str]] = (),
    budget_tokens: int,
    counter: TokenCounter,
) -> list[str]:
    """The lines of a facts block; none when there is nothing to keep.

    It holds the last exchange; a tally of the calls; one row for each thing that tools
    told of, one for each thing that something was done to; and what else was named.
    What was only recalled is known already.
    """
    calls = [each for each in records(transcript) if each.tool != TOOL_NAME]
    told = _word_for_word(last, budget_tokens)
    told += [f"Calls made: {tally(calls)}"] if calls else []
    room = budget_tokens - counter.count("\n".join([*told, ""]))
    return [*told, *_told(transcript, calls, room, counter)]


def last_exchange(transcript: Sequence[Entry], stop: int) -> list[tuple[str, str]]:
    """The last request and its answer, titled, when a cut at `stop` folds them away."""
    asked = last_prompt(transcript)
    if asked is None or asked >= stop:
        return []
    is_open = transcript[-1].role == "tool"
    last = [(OPEN_TITLE if is_open else ASKED_TITLE, transcript[asked].content)]
    answers = (e.content for e in transcript[asked:stop] if e.role == "assistant")
    if answer := next(filter(None, reversed(list(answers))), ""):
        last.append((ANSWERED_TITLE, answer))
    return last


def _word_for_word(last: Iterable[tuple[str, str]], budget_tokens: int) -> list[str]:
    """The last exchange within a cap; in a short conversation the open request only."""
    limit = int((budget_tokens * LAST_SHARE - TITLE_TOKENS) * CHARACTERS_PER_TOKEN)
    return [
        line
        for title, text in last
        if limit >= SHORTEST_LAST or title == OPEN_TITLE
        for line in (title, shorten(text, max(limit, SHORTEST_LAST)))
    ]


def _told(
    transcript: Sequence[Entry],
    calls: Sequence[Record],
    budget_tokens: int,
    counter: TokenCounter,
) -> list[str]:
    """Rows within a budget; what found no room is counted, with places to recall."""
    scale = Scale(transcript, calls)
    things = thing_rows(calls, transcript, scale)
    made = call_rows(calls, scale, len(transcript))
    named = _named_row(spoken_names(transcript, used=scale.used))
    rows = [*things, *made, named]
    block = block_within(rows, budget_tokens, counter)
    if not (note := _rolled_up(block.missing)):
        return list(block.lines)
    room = budget_tokens - counter.count(f"\n{note}") - NOTE_SLACK
    block = block_within(rows, room, counter)
    return [*block.lines, _rolled_up(block.missing)] if block.lines else []


def _rolled_up(missing: Iterable[Row]) -> str:
    """One line for rows that found no room, but for what was only looked up."""
    optional = (LOOKED_UP_TITLE, NO_TITLE)
    places = [row.place for row in missing if row.title not in optional]
    if not places:
        return ""
    first, last = min(places), max(places)
    span = f"{first} to {last}" if first < last else f"{first}"
    return f"{len(places)} more not shown; recall {span}"


def _named_row(named: dict[str, float]) -> Row:
    row = Row(NAMED_LABEL, NAMED, NO_TITLE, limit_tokens=None)
    row.cells = [Cell((name,), weight) for name, weight in named.items()]
    row.breaks = set(range(len(row.cells)))
    return row
