"""Saving a session to a store, event by event, on a thread of its own.

A turn waits a moment for its save, so that what was shown is stored; it never waits for
a slow or broken store. Then the thread tries again until everything is saved. What is
not saved yet is bounded by the conversation: it is read from there.
"""

import atexit
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from nbchat.conversation.cell_changes import CellChange
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
    SavingFailed,
    TextDelta,
    TurnFailed,
    TurnFinished,
    UsageReported,
)
from nbchat.conversation.session import Session
from nbchat.errors import LogNotWritten, SessionTaken, StoreError, with_details
from nbchat.storage.database import busy_seconds
from nbchat.storage.export import MarkdownLog
from nbchat.storage.store import Origin, PinKind, SessionStore

DRAFT_SECONDS = 1.0
"""Time between two saves of a streaming answer: what a killed kernel loses at most."""

PATIENCE_SECONDS = 2.0
"""How long an event waits for its save, once: not while saving is late."""

RETRY_SECONDS = 1.0
"""From one try to the next, which is also as long as a try waits for a lock."""

FLUSH_SECONDS = 5.0
"""How long /new, /resume and the end of the process wait for what is not saved yet."""

BROKEN_STORE_SECONDS = 0.05
"""How long saves wait soon after one that was not answered: all sessions share it."""

IDLE_SECONDS = 1.0
"""Until a thread without work ends: a run of many agents saves many sessions."""

SLOW_SECONDS = 5.0
"""Duration of a save after which it is reported as late."""

MOST_STARTS = 100
"""Records of compactions that began, kept while the store is out of order."""

LOGGED = (TurnFinished, TurnFailed, Compacted, CompactionUndone, CompactionChanged)
"""Events after which the Markdown log is written again."""

SAVED = (
    EntryAdded
    | Compacted
    | CompactionFailed
    | CompactionUndone
    | CompactionChanged
    | PinsChanged
)
"""Events after which all that is new is saved."""

SAVED_AGAIN = SavingFailed("Everything is saved again.", is_resolved=True)
LOG_WRITTEN_AGAIN = SavingFailed(
    "The log of this chat is up to date again.", is_log=True, is_resolved=True
)


def save_session(
    store: SessionStore, session: Session, origin: Origin | None = None
) -> None:
    """Save a whole session that is in no store yet; raises StoreError.

    A session without entries is not saved.
    """
    progress = Progress(store, session, origin or Origin(), is_saved=False)
    progress.note_all()
    progress.save_pending()


class Autosave:
    """Saves the events of one session.

    Each event saves everything that is not saved yet, so a temporary failure of the
    store leaves no gap.
    """

    def __init__(
        self,
        store: SessionStore,
        session: Session,
        origin: Origin | None = None,
        *,
        is_saved: bool = True,
        log_folder: str = "",
    ) -> None:
        """`is_saved` says that the session was loaded from `store`.

        With a `log_folder` the session is also kept there as Markdown.
        """
        origin = origin or Origin()
        self._session = session
        self._log = MarkdownLog(log_folder)
        self._progress = Progress(store, session, origin, is_saved=is_saved)
        self._may_move = is_saved and bool(origin.notebook)
        self._writer = _Writer(self._progress.save_pending, note=store.response.note)
        self._log_writer = _Writer(
            lambda: self._log.write(self._session), LOG_WRITTEN_AGAIN
        )
        self._draft: list[str] = []
        self._draft_saved_at = 0.0

    def __call__(self, event: Event) -> SavingFailed | None:
        """Save an event; raises StoreError, but only once for the same reason.

        Returns the news that it is saved or logged again, once, unless it came to the
        listener before.
        """
        if isinstance(event, UsageReported):
            self._log.window = event.window
        news = None
        try:
            if self._note(event):
                news = self._writer.run(wait_seconds=self._patience(PATIENCE_SECONDS))
        finally:
            if isinstance(event, LOGGED) and self._log.folder:
                logged = self._log_writer.run(wait_seconds=PATIENCE_SECONDS)
                news = news or logged
        return news

    def save(self) -> None:
        """Save everything that is not saved yet; raises StoreError.

        If that takes long, the chat continues and so does the saving.
        """
        self._draft.clear()
        self._progress.note_all()
        self._writer.run(wait_seconds=self._patience(FLUSH_SECONDS), repeats=True)
        if self._log.folder:
            with suppress(LogNotWritten):  # it was reported by an event
                self._log_writer.run(wait_seconds=FLUSH_SECONDS, repeats=True)

    def _patience(self, seconds: float) -> float:
        """How long to wait for the store; another session may know that it hangs."""
        return (
            seconds
            if self._progress.store.response.is_expected
            else BROKEN_STORE_SECONDS
        )

    def listen(self, listener: Callable[[SavingFailed], object] | None) -> None:
        """Tell a listener that everything is saved again, as soon as it is.

        It is called on the thread that saves.
        """
        self._writer.listener = self._log_writer.listener = listener

    def identify_notebook(self, notebook_id: str) -> None:
        """Save the session with the id of its notebook, soon."""
        self._progress.identify_notebook(notebook_id)
        with suppress(StoreError):  # it is reported by an event
            self._writer.run(wait_seconds=0)

    def of_branch(self, branch: Session) -> "Autosave":
        """The autosave of a branch of the session in the same store; it gets an id."""
        branch.session_id = uuid.uuid4().hex[:12]
        progress = self._progress
        return Autosave(progress.store, branch, progress.origin, is_saved=False)

    def __reduce__(self) -> Any:
        """Pickled with its session; continues from what the store has then."""
        made, progress = partial(Autosave, log_folder=self._log.folder), self._progress
        made.keywords["is_saved"] = progress.is_begun
        return made, (progress.store, self._session, progress.origin)

    def write_log_to(self, folder: str) -> None:
        """Keep a Markdown log in this folder from now on; empty for none."""
        self._log.folder = folder

    def _note(self, event: Event) -> bool:
        """Note what an event adds; whether it is worth a save now."""
        match event:
            case TextDelta(text):
                return self._note_draft(text)
            case CompactionStarted(compaction=Compaction() as running):
                self._progress.note_all(running)
            case EntryAdded():
                self._draft.clear()
                self._progress.note_all(moves=self._may_move)
                self._may_move = False
            case _ if isinstance(event, SAVED):
                self._progress.note_all()
            case _:
                return False
        return True

    def _note_draft(self, text: str) -> bool:
        """Save a streaming answer once a second, in case the kernel is killed."""
        if not self._draft:
            self._draft_saved_at = time.monotonic()
        self._draft.append(text)
        if time.monotonic() - self._draft_saved_at < DRAFT_SECONDS:
            return False
        self._draft_saved_at = time.monotonic()
        self._progress.note_draft("".join(self._draft))
        return True


class Progress:
    """The parts of a session that are stored, and those still to be."""

    def __init__(
        self, store: SessionStore, session: Session, origin: Origin, *, is_saved: bool
    ) -> None:
        self.store, self._session, self.origin = store, session, origin
        self._saved_entries = _unchanged_entries(session) if is_saved else 0
        self._noted_compactions = len(session.compactions) if is_saved else 0
        self._saved_pins = session.pins if is_saved else ()
        self._saved_dropped = session.dropped_rules if is_saved else ()
        self._noted_changes = session.cell_changes.count if is_saved else 0
        self._changes: deque[CellChange] = deque()
        self._entries = self._saved_entries
        """How many entries have to be in the store: with them their usages exist."""
        self._pins, self._dropped = self._saved_pins, self._saved_dropped
        self._records: deque[Compaction] = deque()
        self._moves = False
        # No lock: an interrupt as it is released would leave it held for ever
        self._draft: deque[tuple[int, str]] = deque(maxlen=1)
        if not self._saved_entries and session.newest_snapshot is None:
            session.newest_snapshot = 0  # a new session has none yet

    @property
    def is_begun(self) -> bool:
        """True if the store has the session."""
        return bool(self._saved_entries)

    def note_all(
        self, running: Compaction | None = None, *, moves: bool = False
    ) -> None:
        """Note what is to be saved now, on the thread that changes the session."""
        session = self._session
        self._entries = len(session.transcript)
        self._records += session.compactions[self._noted_compactions :]
        self._noted_compactions = len(session.compactions)
        if running is not None and len(self._records) < MOST_STARTS:
            self._records.append(running)
        self._pins, self._dropped = session.pins, session.dropped_rules
        self._changes += session.cell_changes.since(self._noted_changes)
        self._noted_changes = session.cell_changes.count
        self._moves = self._moves or moves
        self._draft.clear()

    @property
    def has_all(self) -> bool:
        """True if the store has all that was noted."""
        is_same = (
            self._pins == self._saved_pins and self._dropped == self._saved_dropped
        )
        return self._saved_entries == self._entries and is_same and not self._records

    @contextmanager
    def undone_by_errors(self) -> Iterator[None]:
        """Take what is saved meanwhile as not saved, if it ends in an error."""
        before = {**vars(self), "_records": self._records.copy()}
        try:
            yield
        except BaseException:
            vars(self).update(before)
            raise

    def identify_notebook(self, notebook_id: str) -> None:
        """Note the notebook's id; what the session holds is noted by events."""
        self.origin = replace(self.origin, notebook_id=notebook_id)
        self._moves = True

    def note_draft(self, text: str) -> None:
        """Note the part of an answer that has arrived."""
        self._draft.append((len(self._session.transcript), text))

    def save_pending(self) -> None:
        """Save what was noted; raises StoreError."""
        # Entries first: the first one creates the session that all else refers to
        start, stop = self._saved_entries, self._entries
        if start < stop:
            self.store.add_entries(self._session, start, stop, self.origin)
            self._saved_entries = stop
        if not self._saved_entries:
            return
        while self._records:
            self._add(
                partial(self.store.add_compaction, self._session, self._records[0])
            )
            self._records.popleft()
        self._save_cell_changes()
        self._save_pins(self._pins, self._dropped)
        if self._moves:
            self.store.move(self._session.session_id, self.origin)
            self._moves = False
        self._save_draft()

    def _save_cell_changes(self) -> None:
        if new := tuple(self._changes):
            first = min(self._session.cell_changes.turns, default=0)
            name = self._session.session_id
            self.store.add_cell_changes(name, new, first_turn=first)
            for _ in new:
                self._changes.popleft()

    def _save_draft(self) -> None:
        try:
            draft = self._draft.pop()
        except IndexError:
            return
        self.store.save_draft(self._session.session_id, *draft)

    def _save_pins(self, pins: tuple[str, ...], dropped: tuple[str, ...]) -> None:
        kind: PinKind
        if pins != self._saved_pins:
            kind = "pin" if len(pins) >= len(self._saved_pins) else "unpin"
            self._add(partial(self.store.add_pins, self._session, pins, kind=kind))
            self._saved_pins = pins
        if dropped != self._saved_dropped:
            kind = "drop" if len(dropped) >= len(self._saved_dropped) else "keep"
            self._add(partial(self.store.add_pins, self._session, dropped, kind=kind))
            self._saved_dropped = dropped

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


class _Writer:
    """A thread that runs a step until it succeeds, and says when it does not."""

    def __init__(
        self,
        step: Callable[[], None],
        recovered: SavingFailed = SAVED_AGAIN,
        *,
        note: Callable[..., object] | None = None,
    ) -> None:
        self._recovered = recovered
        self._note_try = note
        """Called with whether the store answered in time, and after how long."""
        self.listener: Callable[[SavingFailed], object] | None = None
        """Called when the step succeeds again, if no caller waits for that."""
        self._changed = threading.Condition()
        self._step = step
        self._waiting = 0
        self._thread: threading.Thread | None = None
        self._is_due = False
        self._is_running = False
        self._is_urgent = False
        """True if a caller waits for the next try, which then comes at once."""
        self._tries = 0
        self._began_at = 0.0
        self._failure: BaseException | None = None
        self._failed_since = ""
        self._reported = ""
        self._is_late = False

    def run(self, *, wait_seconds: float, repeats: bool = False) -> SavingFailed | None:
        """Run the step soon; wait a moment for its end, unless it was late before.

        Raises its error, once for the same reason. With `repeats` it raises it always,
        and the wait is for one more try.
        """
        with self._changed:
            if not self._is_due and not self._is_running and self._failure is None:
                self._is_late = False
            self._is_due, self._is_urgent = True, repeats
            self._start()
            self._changed.notify_all()
            if not self._is_late or repeats:
                tries = self._tries + self._is_running
                has_ended = partial(self._has_ended, tries if repeats else None)
                is_over = self._wait(has_ended, wait_seconds)
                self._is_late = not is_over or self._failure is not None
                if not is_over:
                    self._tell(is_answered=False, seconds=wait_seconds)
                if not is_over and repeats and self._failure is None:
                    raise StoreError("The database doesn't answer.")
            return self._report(repeats=repeats)

    def _tell(self, *, is_answered: bool, seconds: float) -> None:
        if self._note_try is not None:
            self._note_try(is_answered=is_answered, seconds=seconds)

    def _wait(self, has_ended: Callable[[], bool], seconds: float) -> bool:
        self._waiting += 1
        try:
            return self._changed.wait_for(has_ended, seconds)
        finally:
            self._waiting -= 1

    def _has_ended(self, tries: int | None = None) -> bool:
        """True if all is saved, or a try has failed: one after so many `tries`."""
        if not self._is_due and not self._is_running:
            return True
        if tries is not None and self._tries <= tries:
            return False
        return self._failure is not None

    def _report(self, *, repeats: bool) -> SavingFailed | None:
        failure = self._failure or self._slowness()
        if failure is None:
            is_news, self._reported = bool(self._reported), ""
            return self._recovered if is_news else None
        if not isinstance(failure, StoreError):
            self._failure, self._is_late = None, False
            raise failure
        if str(failure) == self._reported and not repeats:
            return None
        self._reported = str(failure)
        raise type(failure)(self._line(failure)) from failure

    def _slowness(self) -> StoreError | None:
        """A save that takes long is as good as none."""
        if not self._is_running or time.monotonic() < self._began_at + SLOW_SECONDS:
            return None
        self._failed_since = self._failed_since or _clock()
        return StoreError("The database doesn't answer.")

    def _line(self, failure: StoreError) -> str:
        if isinstance(failure, SessionTaken | LogNotWritten):
            return str(failure)
        line, *details = str(failure).splitlines()
        since = f"Not saved since {self._failed_since}. nbchat keeps trying."
        return with_details(line, since, *details)

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(
                target=self._work, name="nbchat-autosave", daemon=True
            )
            self._thread.start()
            atexit.register(self._finish)

    def _finish(self) -> None:
        """Wait for what is not saved yet, at the end of the process."""
        with self._changed:
            self._changed.wait_for(self._has_ended, FLUSH_SECONDS)

    def _work(self) -> None:
        busy_seconds.set(RETRY_SECONDS)  # for this thread
        while self._next():
            failure = _error_of(self._step)
            is_taken = isinstance(failure, SessionTaken)
            self._tell(
                is_answered=is_taken or not isinstance(failure, StoreError),
                seconds=time.monotonic() - self._began_at,
            )
            with self._changed:
                self._is_running = False
                self._tries += 1
                self._note(failure)
                self._changed.notify_all()
                if isinstance(failure, StoreError):
                    pause = max(self._began_at + RETRY_SECONDS - time.monotonic(), 0)
                    self._changed.wait_for(lambda: self._is_urgent, pause)
                listener = self._who_hears_of_the_end()
            if listener is not None:
                listener(self._recovered)
        atexit.unregister(self._finish)

    def _who_hears_of_the_end(self) -> Callable[[SavingFailed], object] | None:
        """The listener, if a reported failure is over and no caller will report it."""
        is_over = self._reported and not (self._failure or self._is_due)
        if not is_over or self._waiting or self.listener is None:
            return None
        self._reported = ""
        return self.listener

    def _next(self) -> bool:
        """Wait for something to save; False when there is nothing for a while."""
        with self._changed:
            is_due = self._changed.wait_for(lambda: self._is_due, IDLE_SECONDS)
            if not is_due:
                self._thread = None
                return False
            self._is_due, self._is_urgent, self._is_running = False, False, True
            self._began_at = time.monotonic()
            return True

    def _note(self, failure: BaseException | None) -> None:
        """Remember a failure; one that may pass is tried again."""
        if failure is None:
            self._failed_since = ""
        else:
            self._failed_since = self._failed_since or _clock()
        self._failure = failure
        if isinstance(failure, StoreError) and not isinstance(failure, SessionTaken):
            self._is_due = True


def _clock() -> str:
    return f"{datetime.now().astimezone():%H:%M}"


def _error_of(step: Callable[[], None]) -> BaseException | None:
    """The error of a step; also an interrupt, for the thread that waits."""
    try:
        step()
    except BaseException as error:  # noqa: BLE001  # raised by `_Writer.run`
        return error
    return None


def _unchanged_entries(session: Session) -> int:
    """Count the entries of a loaded session that the store holds in their final form.

    An incomplete answer at the end may be a draft; saving it again changes nothing.
    """
    count = len(session.transcript)
    is_draft = count and session.transcript[count - 1].is_incomplete
    return count - 1 if is_draft else count
