"""How a session comes into a store: event by event, each thing once."""

from nbchat.errors import StoreError
from nbchat.events import (
    Compacted,
    CompactionChanged,
    CompactionFailed,
    CompactionStarted,
    CompactionUndone,
    EntryAdded,
    Event,
    PinsChanged,
)
from nbchat.history import Compaction
from nbchat.session import Session
from nbchat.storage.store import PinKind, SessionStore


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
    ) -> None:
        """What the session holds already came from the store, if it `is_saved`."""
        self._store = store
        self._session = session
        self._origin = {"notebook": notebook, "model": model}
        self._entries = len(session.transcript) if is_saved else 0
        self._records = len(session.compactions) if is_saved else 0
        self._pins = session.pins if is_saved else ()
        self._reported = ""

    def __call__(self, event: Event) -> None:
        """Save an event; raises StoreError, once for as long as the reason stays."""
        try:
            match event:
                case CompactionStarted(compaction=Compaction() as running):
                    self.save()
                    self._store.add_compaction(self._session.session_id, running)
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
        for position in range(self._entries, len(self._session.transcript)):
            self._store.add_entry(self._session, position, **self._origin)
            self._entries = position + 1
        if not self._entries:
            return
        for record in self._session.compactions[self._records :]:
            self._store.add_compaction(self._session.session_id, record)
            self._records += 1
        self._save_pins(self._session.pins)

    def _save_pins(self, pins: tuple[str, ...]) -> None:
        if pins != self._pins:
            kind: PinKind = "pin" if len(pins) >= len(self._pins) else "unpin"
            self._store.add_pins(self._session.session_id, pins, kind=kind)
            self._pins = pins
