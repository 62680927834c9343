"""How a session comes into a store: event by event, each thing once."""

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
from nbchat.storage.session_log import AutomaticLog
from nbchat.storage.store import PinKind, SessionStore

DRAFT_SECONDS = 1.0
"""Of an answer under way, the most that a killed kernel loses."""

LOGGED = (TurnFinished, TurnFailed, Compacted, CompactionUndone, CompactionChanged)
"""After which the log that people read is written anew."""


def save_session(
    store: SessionStore, session: Session, *, notebook: str = "", model: str = ""
) -> None:
    """Save a whole session that is in no store yet; raises StoreError.

    One in which nothing was said cannot be kept, and is none to miss.
    """
    Recorder(store, session, notebook, model, is_saved=False).save()


class Recorder:
    """Saves one session, event by event.

    It saves whatever is not saved yet, so a fault that passes leaves no hole.
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
        """What the session holds already came from the store, if it `is_saved`.

        In a `log_folder` it is kept as Markdown, too.
        """
        self.log = AutomaticLog(log_folder)
        self._store = store
        self._session = session
        self._origin = {"notebook": notebook, "model": model}
        self._entries = _kept(session) if is_saved else 0
        self._loaded = len(session.transcript)
        self._is_moved = not (is_saved and notebook)
        self._records = len(session.compactions) if is_saved else 0
        self._pins = session.pins if is_saved else ()
        if not self._entries and session.newest_snapshot is None:
            session.newest_snapshot = 0  # a new session has none yet
        self._reported = ""
        self._draft: list[str] = []
        self._drafted_at = 0.0

    def __call__(self, event: Event) -> None:
        """Save an event; raises StoreError, once for as long as the reason stays."""
        self._keep(event)
        if isinstance(event, LOGGED):
            self.log.write(self._session)

    def write_log_to(self, folder: str) -> None:
        """Keep a Markdown log in this folder from now on; empty for none."""
        self.log.folder = folder

    def _keep(self, event: Event) -> None:
        try:
            match event:
                case TextDelta(text):
                    self._keep_draft(text)
                    return
                case CompactionStarted(compaction=Compaction() as running):
                    self.save()
                    self._add_compaction(running)
                case (
                    EntryAdded()
                    | Compacted()
                    | CompactionFailed()
                    | CompactionUndone()
                    | CompactionChanged()
                    | PinsChanged()
                ):
                    self.save()
                case _:
                    return
        except StoreError as error:
            if str(error) != self._reported:
                self._reported = str(error)
                raise
        else:
            self._reported = ""

    def save(self) -> None:
        """Save all that is not yet; entries first: one without any is not saved."""
        self._draft.clear()
        for position in range(self._entries, len(self._session.transcript)):
            self._store.add_entry(self._session, position, **self._origin)
            self._entries = position + 1
        if not self._entries:
            return
        self._move()
        for record in self._session.compactions[self._records :]:
            self._add_compaction(record)
            self._records += 1
        self._save_pins(self._session.pins)

    def _move(self) -> None:
        """Once something was said, let a loaded session belong to this notebook."""
        if self._is_moved or len(self._session.transcript) == self._loaded:
            return
        self._store.move(self._session.session_id, self._origin["notebook"])
        self._is_moved = True

    def _keep_draft(self, text: str) -> None:
        """Keep an answer under way, once a second: its kernel may be killed."""
        if not self._draft:
            self._drafted_at = time.monotonic()
        self._draft.append(text)
        if time.monotonic() - self._drafted_at < DRAFT_SECONDS or not self._entries:
            return
        position = len(self._session.transcript)
        said = "".join(self._draft)
        self._store.keep_draft(self._session.session_id, position, said)
        self._drafted_at = time.monotonic()

    def _save_pins(self, pins: tuple[str, ...]) -> None:
        if pins != self._pins:
            kind: PinKind = "pin" if len(pins) >= len(self._pins) else "unpin"
            self._add(partial(self._store.add_pins, self._session, pins, kind=kind))
            self._pins = pins

    def _add_compaction(self, record: Compaction) -> None:
        self._add(partial(self._store.add_compaction, self._session, record))

    def _add(self, add: Callable[[], int]) -> None:
        """Add a snapshot, and know from then on which one is the newest."""
        try:
            self._session.newest_snapshot = add()
        except SessionTaken:
            raise
        except BaseException:
            # An interrupt, or a line that broke, may come after the commit.
            self._session.newest_snapshot = None
            raise


def _kept(session: Session) -> int:
    """How many entries of a loaded session are saved as they are.

    An answer cut short may be a draft still; to save it once more changes nothing.
    """
    said = len(session.transcript)
    return said - 1 if said and session.transcript[said - 1].is_incomplete else said
