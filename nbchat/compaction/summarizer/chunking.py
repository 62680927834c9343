"""How a conversation too long for one request goes into several, whole units in order.

Every unit stands in exactly one part. What must be shortened, because it alone is
longer than a part or because there would be too many parts, is counted in characters.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from nbchat.compaction.markup import transcript
from nbchat.compaction.truncation import shorten
from nbchat.conversation.entries import Entry
from nbchat.conversation.turns import safe_cuts
from nbchat.providers.tokens import TokenCounter

MOST_PARTS = 24
"""Four minutes of an embedded model on one core, which reads a part in ten seconds; a
chat that fills the window of its own model needs two."""

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
"""Characters a tool's call or output and any other text may keep, tried until it fits:
what people and the model said is shortened last."""

SHORTEST = 40
"""Characters; the note on what is missing is as long, so nothing shorter is cut."""


@dataclass(frozen=True, slots=True)
class Part:
    """A run of entries, written down as data for one request."""

    text: str
    tokens: int
    entries: int
    left_out: int = 0
    """Characters of the entries that are not in `text`, a little under-counted."""


def split(
    entries: Sequence[Entry],
    room_tokens: int | None,
    counter: TokenCounter,
    *,
    most: int = MOST_PARTS,
) -> list[Part]:
    """The entries in at most `most` parts of at most `room_tokens`, as few as can be.

    Without a limit, and of nothing, it is one part.
    """
    if not entries:
        return [Part("", 0, 0)]
    parts: list[Part] = []
    for place in range(len(LIMITS)):
        pieces = [_piece(u, room_tokens, counter, place) for u in _units(entries)]
        parts = _packed(pieces, room_tokens)
        if len(parts) <= most:
            return parts
    return _without_middle(parts, most)


def shortened(text: str, room_tokens: int, counter: TokenCounter) -> str:
    """At most about `room_tokens` of a text: its head and tail, the gap counted."""
    short, limit = text, len(text)
    while limit > SHORTEST and (tokens := counter.count(short)) > room_tokens:
        limit = max(SHORTEST, min(limit * 3 // 4, limit * room_tokens // tokens))
        short = shorten(text, limit)
    return short


def _units(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    edges = sorted({0, *safe_cuts(entries), len(entries)})
    for start, stop in pairwise(edges):
        yield entries[start:stop]


def _piece(
    unit: Sequence[Entry], room_tokens: int | None, counter: TokenCounter, place: int
) -> Part:
    """A unit as a part of its own, shortened as far as it must be and no further."""
    left_out, text, tokens = 0, "", 0
    for limits in LIMITS[place:]:
        kept = [_limited(entry, *limits) for entry in unit]
        text = transcript(kept)
        left_out = len(transcript(unit)) - len(text)
        tokens = counter.count(text) + 1
        if room_tokens is None or tokens <= room_tokens:
            return Part(text, tokens, len(unit), left_out)
    short = shortened(text, (room_tokens or 0) - 1, counter)
    left_out += len(text) - len(short)
    return Part(short, counter.count(short) + 1, len(unit), left_out)


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


def _packed(pieces: Sequence[Part], room_tokens: int | None) -> list[Part]:
    """Each part as full as it can be, which makes them as few as can be."""
    groups: list[list[Part]] = []
    used = 0
    for piece in pieces:
        is_full = room_tokens is not None and used + piece.tokens > room_tokens
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
        sum(piece.left_out for piece in pieces),
    )


def _without_middle(parts: Sequence[Part], most: int) -> list[Part]:
    """The first and the last parts; the newest count twice as much as the oldest."""
    head = most // 3
    tail = len(parts) - (most - head)
    gap = _joined(parts[head:tail])
    note = f"[{gap.entries:,} entries are left out before this]\n"
    first = parts[tail]
    after = Part(
        note + first.text,
        first.tokens,
        gap.entries + first.entries,
        gap.left_out + len(gap.text) + first.left_out,
    )
    return [*parts[:head], after, *parts[tail + 1 :]]
