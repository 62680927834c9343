"""Split a conversation that is too long for one request into parts of whole units.

Every unit is in exactly one part. A unit is shortened when it is longer than a part, or
when there would be too many parts; the missing characters are counted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from nbchat.compaction.shortening import SHORTEST, shorten, shorten_to_tokens
from nbchat.compaction.summarizer.prompts import transcript
from nbchat.conversation.entries import Entry
from nbchat.conversation.turns import safe_cuts
from nbchat.providers.tokens import TokenCounter

MAX_PARTS = 24
"""Takes an embedded model four minutes on one core, ten seconds a part; a chat that
fills the window of its own model needs two parts."""

LIMITS = (
    (8_000, None),
    (2_000, 8_000),
    (500, 4_000),
    (160, 2_000),
    (160, 1_000),
    (160, 500),
    (80, 250),
    (80, 80),
)
"""Characters kept of a tool call or output, and of any other text, tried in order until
it fits: messages are shortened last."""


@dataclass(frozen=True, slots=True)
class Part:
    """Entries as data for one request."""

    text: str
    tokens: int
    entries: int
    omitted: int = 0
    """Characters of the entries that are not in `text`, slightly under-counted."""


def split(
    entries: Sequence[Entry],
    budget_tokens: int | None,
    counter: TokenCounter,
    *,
    most: int = MAX_PARTS,
) -> list[Part]:
    """Split entries into as few parts of `budget_tokens` as possible, at most `most`.

    There is one part when there is no limit or no entry.
    """
    if not entries:
        return [Part("", 0, 0)]
    parts: list[Part] = []
    for step in range(len(LIMITS)):
        pieces = [_piece(u, budget_tokens, counter, step) for u in _units(entries)]
        parts = _packed(pieces, budget_tokens)
        if len(parts) <= most:
            return parts
    return _without_middle(parts, most)


def _units(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    edges = sorted({0, *safe_cuts(entries), len(entries)})
    for start, stop in pairwise(edges):
        yield entries[start:stop]


def _piece(
    unit: Sequence[Entry], budget_tokens: int | None, counter: TokenCounter, step: int
) -> Part:
    """A unit as a part of its own, shortened as little as possible."""
    omitted, text, tokens, whole = 0, "", 0, transcript(unit)
    for limits in LIMITS[step:]:
        kept = [_limited(entry, *limits) for entry in unit]
        text = whole if kept == list(unit) else transcript(kept)
        omitted = len(whole) - len(text)
        tokens = counter.count(text) + 1
        if budget_tokens is None or tokens <= budget_tokens:
            return Part(text, tokens, len(unit), omitted)
    short = shorten_to_tokens(text, (budget_tokens or 0) - 1, counter.count)
    omitted += len(text) - len(short)
    return Part(short, counter.count(short) + 1, len(unit), omitted)


def _limited(entry: Entry, output_limit: int, text_limit: int | None) -> Entry:
    is_tools = entry.is_call or entry.role == "tool"
    limit = output_limit if is_tools else text_limit
    if limit is None:
        return entry
    arguments = _cut(entry.tool_args, limit) if entry.is_call else entry.tool_args
    return entry._replace(content=_cut(entry.content, limit), tool_args=arguments)


def _cut(text: str, limit: int) -> str:
    """At most `limit` characters, unless the note on what is missing costs as much."""
    return shorten(text, limit) if len(text) > limit + SHORTEST else text


def _packed(pieces: Sequence[Part], budget_tokens: int | None) -> list[Part]:
    """Fill each part, so that there are as few as possible."""
    groups: list[list[Part]] = []
    used = 0
    for piece in pieces:
        is_full = budget_tokens is not None and used + piece.tokens > budget_tokens
        if is_full or not groups:
            groups.append([])
            used = 0
        groups[-1].append(piece)
        used += piece.tokens
    return [_joined(group) for group in groups]


def _joined(pieces: Sequence[Part]) -> Part:
    return Part(
        "\n".join(piece.text for piece in pieces),
        sum(piece.tokens for piece in pieces),
        sum(piece.entries for piece in pieces),
        sum(piece.omitted for piece in pieces),
    )


def _without_middle(parts: Sequence[Part], most: int) -> list[Part]:
    """The first and the last parts; the newest count twice as much as the oldest."""
    head = most // 3
    tail = len(parts) - (most - head)
    gap = _joined(parts[head:tail])
    note = f"[{gap.entries:,} entries before this are omitted]\n"
    first = parts[tail]
    after = Part(
        note + first.text,
        first.tokens,
        gap.entries + first.entries,
        gap.omitted + len(gap.text) + first.omitted,
    )
    return [*parts[:head], after, *parts[tail + 1 :]]
