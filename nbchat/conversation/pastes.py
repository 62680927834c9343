"""Mark the parts of a person's message that were pasted.

The panel reports the texts that were pasted into its box. The message keeps where they
are, as JSON in `tool_args`: `{"pasted": [[0, 120]]}`. A message of a cell has
`{"cell": true}`, for nothing reports what is pasted into a cell. What others may have
written is no rule of the person.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator

from nbchat.conversation.entries import Entry, Span
from nbchat.conversation.secret_masking import HIDDEN, places, secret_spans, with_hidden

SHORTEST_PART = 8
"""Characters of a line or sentence by which a changed paste is recognised."""

SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f\u0964])|\n")


def prompt_entry(
    text: str, pasted: Iterable[str] = (), *, is_cell: bool = False
) -> Entry:
    """A person's message, with where the pasted texts are in it.

    In a cell nothing tells what was pasted, which the message keeps as well.
    """
    found = [span for each in pasted for span in _found(text, each)]
    return _marked(text, _merged(found), is_cell=is_cell)


def pasted_texts(entry: Entry) -> list[str]:
    """The texts in a message that were pasted."""
    return [entry.content[start:stop] for start, stop in entry.pasted]


def parts_of(entry: Entry) -> Iterator[tuple[str, bool]]:
    """The text of a message in parts, each with whether it was pasted."""
    content, end = entry.content, 0
    for start, stop in entry.pasted:
        yield content[end:start], False
        yield content[start:stop], True
        end = stop
    yield content[end:], False


def own_text(entry: Entry) -> str:
    """A message without what was pasted; all of it if nothing else is in it."""
    own = "".join(text for text, is_pasted in parts_of(entry) if not is_pasted)
    return own if own.strip() else entry.content


def typed_text(entry: Entry) -> str:
    """The words that a person certainly typed: in a cell its first paragraph.

    Below it may stand a text that was pasted into the cell.
    """
    own = "".join(text for text, is_pasted in parts_of(entry) if not is_pasted)
    if not _is_cell(entry):
        return own
    return re.split(r"\n[ \t]*\n", own.strip(), maxsplit=1)[0]


def with_changed_text(entry: Entry, change: Callable[[str], str]) -> Entry:
    """A message whose text is changed in all places, with its pasted parts moved."""
    content = change(entry.content)
    spans = [
        (len(change(entry.content[:start])), len(change(entry.content[:stop])))
        for start, stop in entry.pasted
    ]
    spans = [(a, min(b, len(content))) for a, b in spans if a < b]
    return _marked(content, spans, is_cell=_is_cell(entry))


def with_hidden_secrets(entry: Entry) -> Entry:
    """A person's message without secrets, with its pasted parts moved.

    A secret that is pasted in part is pasted.
    """
    hidden = secret_spans(entry.content)
    if not hidden:
        return entry
    spans = (
        (_moved(start, hidden, is_start=True), _moved(stop, hidden, is_start=False))
        for start, stop in entry.pasted
    )
    content = with_hidden(entry.content, hidden)
    return _marked(content, _merged(spans), is_cell=_is_cell(entry))


def _moved(place: int, hidden: Iterable[Span], *, is_start: bool) -> int:
    """Where a place in a text is after spans of it were hidden."""
    shift = 0
    for start, stop in hidden:
        if start < place < stop:
            return start + shift + (0 if is_start else len(HIDDEN))
        if place <= start:
            break
        shift += len(HIDDEN) - (stop - start)
    return place + shift


def _marked(text: str, spans: list[Span], *, is_cell: bool) -> Entry:
    marks: dict[str, object] = {"pasted": spans} if spans else {}
    if is_cell:
        marks["cell"] = True
    return Entry("user", text, tool_args=json.dumps(marks) if marks else "")


def _is_cell(entry: Entry) -> bool:
    return entry.arguments.get("cell") is True


def _found(text: str, pasted: str) -> Iterator[Span]:
    """Where a pasted text is in a message; of one that was changed, its sentences."""
    whole = pasted.replace("\r\n", "\n").strip()
    if not whole:
        return
    if spans := list(places(text, whole)):
        yield from spans
        return
    for part in dict.fromkeys(map(str.strip, SENTENCE_END.split(whole))):
        if len(part) >= SHORTEST_PART:
            yield from places(text, part)


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Spans in order, those that touch as one."""
    merged: list[Span] = []
    for start, stop in sorted(spans):
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        else:
            merged.append((start, stop))
    return merged
