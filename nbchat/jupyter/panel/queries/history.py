"""Queries about what was said: pages of the history, one message, other sessions."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.search import LONGEST_QUERY, excerpt
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError
from nbchat.jupyter.panel.protocol import (
    BranchSwitches,
    HistoryItem,
    HistoryPage,
    MessageText,
    Seen,
    SessionRow,
    SessionsList,
    SessionText,
    Switch,
)
from nbchat.rendering.banners import compaction_html
from nbchat.rendering.conversation import timeline
from nbchat.rendering.entries import beginning_html, part_end

if TYPE_CHECKING:
    from nbchat.storage.branches import Branch
    from nbchat.storage.serialization import SessionInfo

PAGE_ENTRIES = 100

PAGE_CHARACTERS = 500_000
"""Of HTML, after which a page ends early: a message of some megabytes stalls a view."""

TEXT_STEP = (100_000, 2_000)
"""Characters and lines of a long message that are shown in one step."""

EXCERPT_CHARACTERS = 1_500
"""Of a long message that a search found, the part that is shown."""

MOST_SESSIONS = 200
"""Listed at once; a search finds the others."""

LABELS = {"user": "You", "assistant": "Assistant", "thinking": "Thinking"}


class Store(Protocol):
    """A store of sessions."""

    def count_sessions(self) -> int:
        """How many sessions there are."""

    def sessions(self, *, query: str, limit: int) -> "Sequence[SessionInfo]":
        """Sessions with any word of a query, best first; or all, last used first."""

    def load(self, session_id: str) -> Session:
        """A session with all of its messages; raises NbchatError without one."""

    def family(self, session_id: str) -> "Sequence[Branch]":
        """A session and those that share messages with it; none if it is unknown."""


def history_page(
    session: Session, query: str = "", *, before: int | None = None
) -> HistoryPage:
    """The newest messages; or those with any word of a query, the best first.

    `before` is the index at which the page below begins. Without a query the
    compactions are listed where they happened. A search has one page.
    """
    if query := " ".join(query[:LONGEST_QUERY].split()):
        return _found_page(session, query)
    entries = session.transcript[:]
    matches = [index for index, entry in enumerate(entries) if _is_shown(entry)]
    end = len(entries) + 1 if before is None else before
    earlier = [index for index in matches if index < end]
    shown = _page(entries, reversed(earlier[-PAGE_ENTRIES:]))
    has_more = len(shown) < len(earlier)
    start = min(shown) if has_more else 0
    items = tuple(_items(session, shown, range(start, end)))
    return HistoryPage(items, total=len(matches), has_more=has_more)


def _found_page(session: Session, query: str) -> HistoryPage:
    """The messages that a search found, of long ones the part that matches best."""
    entries = session.transcript[:]
    found = [each for each in session.search(query) if _is_shown(entries[each])]
    shown = _page(entries, found[:PAGE_ENTRIES], query)
    items = {item.position: item for item in _items(session, shown)}
    best_first = tuple(items[index] for index in shown)
    return HistoryPage(best_first, total=len(found), has_more=False)


def message_text(
    session: Session, position: int, *, start: int | None = None
) -> MessageText:
    """The text of a message or an answer exactly as it was written.

    With `start` the part that begins there.
    """
    entries = session.transcript[position : position + 1]
    if not any(entry.is_prompt or entry.is_answer for entry in entries):
        raise NbchatError("Only messages and answers can be copied.")
    try:
        entries[0].content.encode()
    except UnicodeEncodeError:
        raise NbchatError(
            "This text has characters that the panel can't show."
        ) from None
    text = entries[0].content
    if start is None:
        return MessageText(text, end=len(text))
    end = part_end(text, start, TEXT_STEP)
    return MessageText(text[start:end], end=end)


def sessions_list(session: Session, query: str, store: Store) -> SessionsList:
    """Sessions with any word of a query, the best first; or all, last used first.

    A conversation with branches is listed once.
    """
    # Late: the store loads while the panel can be seen already.
    from nbchat.storage.branches import one_per_family  # noqa: PLC0415

    current = session.session_id
    most = 4 * MOST_SESSIONS  # of which some are branches of others
    listed = store.sessions(query=query[:LONGEST_QUERY], limit=most)
    found = one_per_family(listed, current=current)
    rows = tuple(_row(each, current) for each in found[:MOST_SESSIONS])
    is_cut = len(listed) == most and not query.strip()
    return SessionsList(rows, total=store.count_sessions() if is_cut else len(found))


def branch_switches(session: Session, store: Store) -> BranchSwitches:
    """The messages that have several versions, each in a branch."""
    from nbchat.storage.branches import switches  # noqa: PLC0415  # late, as above

    current = session.session_id
    found = switches(store.family(current), current) if current else ()
    shown = (Switch(each.position, each.number, tuple(each.sessions)) for each in found)
    return BranchSwitches(tuple(shown))


def session_text(session: Session, session_id: str, store: Store) -> SessionText:
    """A session as Markdown, to copy or to save; the current one as it is now."""
    # Late: the store loads while the panel can be seen already.
    from nbchat.storage.export import exported  # noqa: PLC0415

    is_current = session_id == session.session_id
    found = session if is_current else store.load(session_id)
    return SessionText(exported(found, "md"))


def _is_shown(entry: Entry) -> bool:
    """Whether an entry has anything to show."""
    return entry.role != "thinking" or bool(entry.content)


def _page(
    entries: Sequence[Entry], indices: Iterable[int], query: str = ""
) -> dict[int, str]:
    """The first entries that make a page: their HTML by index."""
    page: dict[int, str] = {}
    size = 0
    for index in indices:
        page[index] = beginning_html(_excerpt(entries[index], query))
        size += len(page[index])
        if size > PAGE_CHARACTERS:
            break
    return page


def _excerpt(entry: Entry, query: str) -> Entry:
    """An entry; of a long one that was searched for, the part that matches best."""
    text = entry.content
    if not query or len(text) <= EXCERPT_CHARACTERS or entry.is_attachment:
        return entry
    return entry._replace(content=excerpt(text, query, EXCERPT_CHARACTERS))


def _items(
    session: Session, shown: dict[int, str], with_compactions: Sequence[int] = ()
) -> Iterator[HistoryItem]:
    """A page, oldest first, each message with how the model sees it."""
    seen_as = _visibility(session)
    for index, part in timeline(session):
        if isinstance(part, Compaction):
            if index in with_compactions:
                yield HistoryItem(None, "", "whole", compaction_html(part))
        elif index in shown:
            yield HistoryItem(index, _label(part), seen_as(index), shown[index])


def _visibility(session: Session) -> Callable[[int], Seen]:
    """How the model sees the message at an index."""
    covered = session.compaction.stop if session.compaction else 0
    excluded, hidden = session.excluded, session.hidden_positions

    def seen_as(index: int) -> Seen:
        if index in excluded:
            return "excluded"
        if index < covered:
            return "summarized"
        return "shortened" if index in hidden else "whole"

    return seen_as


def _label(entry: Entry) -> str:
    if entry.is_call:
        return "Call"
    if entry.role == "tool":
        return f"Result of {entry.tool_name}".removesuffix(" of ")
    if entry.is_by_nbchat:
        return "nbchat to the model"
    return LABELS.get(entry.role, entry.role.capitalize())


def _row(session: "SessionInfo", current: str) -> SessionRow:
    return SessionRow(
        session=session.id,
        title=session.title,
        notebook=session.notebook,
        model=session.model,
        used_at=session.used_at,
        messages=session.messages,
        snippet=session.snippet,
        branches=session.branches,
        is_current=session.id == current,
    )
