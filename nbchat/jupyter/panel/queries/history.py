"""All that was said, in order and in pages, to be read and searched by a person.

`session.recall` answers with the best matches, for a model's context; here every match
stands in its place.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.search import LONGEST_QUERY, entry_text
from nbchat.conversation.session import Session
from nbchat.rendering.banners import compaction_html
from nbchat.rendering.conversation import timeline
from nbchat.rendering.entries import entry_html
from nbchat.rendering.markdown import displayable

PAGE_ENTRIES = 100

PAGE_CHARACTERS = 500_000
"""Of HTML, after which a page ends early: a message of some megabytes stalls a view."""

LABELS = {"user": "You", "assistant": "Assistant", "thinking": "Thinking"}


def history_page(
    session: Session, query: str = "", *, before: int | None = None
) -> dict[str, Any]:
    """The newest entries that hold all words of a query, wherever case.

    `before` is the place in the transcript where the next page began. Without a query
    the compactions stand where they happened.
    """
    words = query[:LONGEST_QUERY].casefold().split()
    entries = session.transcript[:]
    matches = [place for place, entry in enumerate(entries) if _holds(entry, words)]
    end = len(entries) + 1 if before is None else before
    earlier = [place for place in matches if place < end]
    shown = _newest(entries, earlier)
    has_more = len(shown) < len(earlier)
    start = min(shown) if has_more else 0
    return {
        "type": "history_page",
        "items": list(_items(session, shown, () if words else range(start, end))),
        "total": len(matches),
        "has_more": has_more,
    }


def _holds(entry: Entry, words: Sequence[str]) -> bool:
    """Whether an entry has all the words, and anything to show."""
    if entry.role == "thinking" and not entry.content:
        return False
    text = f"{entry.tool_name} {entry_text(entry)}".casefold()
    return all(word in text for word in words)


def _newest(entries: Sequence[Entry], places: Sequence[int]) -> dict[int, str]:
    """As many of the newest as make a page: their HTML by their places."""
    page: dict[int, str] = {}
    size = 0
    for place in reversed(places[-PAGE_ENTRIES:]):
        page[place] = entry_html(entries[place])
        size += len(page[place])
        if size > PAGE_CHARACTERS:
            break
    return page


def _items(
    session: Session, shown: dict[int, str], with_compactions: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """A page, oldest first, each entry with what the model sees of it."""
    seen_as = _marks(session)
    for place, part in timeline(session):
        if isinstance(part, Compaction):
            if place in with_compactions:
                yield _item(None, "", compaction_html(part))
        elif place in shown:
            yield _item(place, _label(part), shown[place], seen_as(place))


def _marks(session: Session) -> Callable[[int], str]:
    """What the model sees of each place."""
    covered = session.compaction.stop if session.compaction else 0
    left_out, hidden = session.excluded, session.hidden_positions

    def mark(place: int) -> str:
        if place in left_out:
            return "left out"
        if place < covered:
            return "summarized"
        return "shortened" if place in hidden else "whole"

    return mark


def _item(
    place: int | None, label: str, html: str, seen: str = "whole"
) -> dict[str, Any]:
    return {"place": place, "label": label, "seen": seen, "html": html}


def _label(entry: Entry) -> str:
    if entry.is_call:
        return "Call"
    if entry.role == "tool":
        return displayable(f"Result of {entry.tool_name}".removesuffix(" of "))
    return LABELS.get(entry.role, entry.role.capitalize())
