"""Saving a session to a store, event by event."""

import time
from collections.abc import Callable
from functools import partial

from nbchat.conversation.entries import Compaction
from nbchat.conversation.events import (
    Compacted,
    CompactionChanged,
    CompactionFailed,
    CompactionStarted,
    CompactionUndone,
    EntryAdded,
    Event,
    PinsChanged,
    TextDelta,
    TurnFailed,
    TurnFinished,
)
from nbchat.conversation.session import Session
from nbchat.errors import SessionTaken, StoreError
from nbchat.storage.export import MarkdownLog
from nbchat.storage.store import PinKind, SessionStore

DRAFT_SECONDS = 1.0
"""Time between two saves of a streaming answer: what a killed kernel loses at most."""

LOGGED = (TurnFinished, TurnFailed, Compacted, CompactionUndone, CompactionChanged)
"""Events after which the Markdown log is written again."""


def save_session(
    store: SessionStore, session: Session, *, notebook: str = "", model: str = ""
) -> None:
    """Save a whole session that is in no store yet; raises StoreError.

    A session without entries is not saved.
    """
    Recorder(store, session, notebook, model, is_saved=False).save()


class Recorder:
    """Saves the events of one session.

    Each event saves everything that is not saved yet, so a temporary failure of the
    store leaves no gap.
    """

    def __init__(
        self,
        store: SessionStore,
        session: Session,
        notebook: str,
        model: str,
        *,
        is_saved: bool = True,
        log_folder: str = "",
    ) -> None:
        """`is_saved` says that the session was loaded from `store`.

        With a `log_folder` the session is also kept there as Markdown.
        """
        self._log = MarkdownLog(log_folder)
        self._store = store
        self._session = session
        self._origin = {"notebook": notebook, "model": model}
        self._saved_entries = _unchanged_entries(session) if is_saved else 0
        self._saved_compactions = len(session.compactions) if is_saved else 0
        self._saved_pins = session.pins if is_saved else ()
        self._may_move = is_saved and bool(notebook)
        if not self._saved_entries and session.newest_snapshot is None:
            session.newest_snapshot = 0  # a new session has none yet
        self._reported = ""
        self._draft: list[str] = []
        self._draft_saved_at = 0.0

    def __call__(self, event: Event) -> None:
        """Save an event; raises StoreError, but only once for the same reason."""
        try:
            self._save_event(event)
        except StoreError as error:
            if str(error) != self._reported:
                self._reported = str(error)
                raise
        if isinstance(event, LOGGED):
            self._log.write(self._session)

    def save(self) -> None:
        """Save everything that is not saved yet; raises StoreError."""
        self._draft.clear()
        # Entries first: the first one creates the session that all else refers to
        for position in range(self._saved_entries, len(self._session.transcript)):
            self._store.add_entry(self._session, position, **self._origin)
            self._saved_entries = position + 1
        if not self._saved_entries:
            return
        for record in self._session.compactions[self._saved_compactions :]:
            self._add_compaction(record)
            self._saved_compactions += 1
        self._save_pins(self._session.pins)
        self._reported = ""

    def write_log_to(self, folder: str) -> None:
        """Keep a Markdown log in this folder from now on; empty for none."""
        self._log.folder = folder

    def _save_event(self, event: Event) -> None:
        match event:
            case TextDelta(text):
                self._save_draft(text)
            case CompactionStarted(compaction=Compaction() as running):
                self.save()
                self._add_compaction(running)
            case EntryAdded():
                self.save()
                self._move()
            case (
                Compacted()
                | CompactionFailed()
                | CompactionUndone()
                | CompactionChanged()
                | PinsChanged()
            ):
                self.save()

    def _move(self) -> None:
        """Assign a loaded session to this notebook, once it has a new entry."""
        if self._may_move:
            self._store.move(self._session.session_id, self._origin["notebook"])
            self._may_move = False

    def _save_draft(self, text: str) -> None:
        """Save a streaming answer once a second, in case the kernel is killed."""
        if not self._draft:
            self._draft_saved_at = time.monotonic()
        self._draft.append(text)
        is_due = time.monotonic() - self._draft_saved_at >= DRAFT_SECONDS
        if not is_due or not self._saved_entries:
            return
        position, draft = len(self._session.transcript), "".join(self._draft)
        self._store.save_draft(self._session.session_id, position, draft)
        self._draft_saved_at = time.monotonic()

    def _save_pins(self, pins: tuple[str, ...]) -> None:
        if pins != self._saved_pins:
            kind: PinKind = "pin" if len(pins) >= len(self._saved_pins) else "unpin"
            self._add(partial(self._store.add_pins, self._session, pins, kind=kind))
            self._saved_pins = pins

    def _add_compaction(self, record: Compaction) -> None:
        self._add(partial(self._store.add_compaction, self._session, record))

    def _add(self, add: Callable[[], int]) -> None:
        """Add a snapshot and remember its number as the newest."""
        try:
            self._session.newest_snapshot = add()
        except SessionTaken:
            raise
        except BaseException:
            # An interrupt or a lost connection may come after the commit.
            self._session.newest_snapshot = None
            raise


def _unchanged_entries(session: Session) -> int:
    """Count the entries of a loaded session that the store holds in their final form.

    An incomplete answer at the end may be a draft; saving it again changes nothing.
    """
    count = len(session.transcript)
    is_draft = count and session.transcript[count - 1].is_incomplete
    return count - 1 if is_draft else count
