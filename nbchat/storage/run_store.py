"""A store that also keeps the results of runs of many agents.

store = Store("sqlite:///triage.db")
map_agents(make_agent, tickets, ..., store=store)
"""

import json
import os
import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import asdict
from functools import cache, cached_property, partial
from hashlib import sha256
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from nbchat.agent.map_rows import Result, result_from_json
from nbchat.conversation.entries import now
from nbchat.conversation.events import (
    Compacted,
    CompactionFailed,
    Event,
    SavingFailed,
)
from nbchat.conversation.session import Session
from nbchat.errors import SessionNotFound, SessionTaken, StoreError
from nbchat.providers.retries import Pace
from nbchat.storage.autosave import (
    BROKEN_STORE_SECONDS,
    FLUSH_SECONDS,
    IDLE_SECONDS,
    Autosave,
    Progress,
)
from nbchat.storage.database import busy_seconds
from nbchat.storage.schema import request_paces, run_batches, run_results
from nbchat.storage.serialization import OwnedRows, storable
from nbchat.storage.store import Origin, SessionStore

ROWS_READ = 1_000
"""Results that are read at once."""

MOST_TOGETHER = 100
"""Rows whose saves are one transaction."""

PACE_SECONDS = 1.0
"""How long a request waits for a SQLite file to learn when it may start."""

LONGEST_PAUSE = 5.0
"""Seconds in which a database that did not answer is not asked for sessions. Less after
an error that came at once."""


class Store(SessionStore):
    """Sessions, settings and results of runs; can be sent to other processes."""

    def __init__(self, url: str = "", *, owner: str = "") -> None:
        super().__init__(url, owner=owner)
        self._asked_again_at = 0.0

    def load(self, session_id: str) -> Session:
        """Load a session; raises at once soon after a database that did not answer.

        Else each row of a run would wait for a connection of its own.
        """
        began = time.monotonic()
        if began < self._asked_again_at:
            rest = self._asked_again_at - began
            raise StoreError(
                f"The database doesn't answer. nbchat tries again in {rest:.0f} s."
            )
        try:
            return super().load(session_id)
        except SessionNotFound:
            raise
        except StoreError:
            waited = time.monotonic() - began
            self._asked_again_at = time.monotonic() + min(waited, LONGEST_PAUSE)
            raise

    def __reduce__(self) -> Any:
        """Send the address; all rows of a process share one store."""
        return _store_of_process, (self.url, self.owner)

    def results(self, run: str) -> "RunResults":
        """The results of the run of this name."""
        return RunResults(self._connection, self._mine, run)

    def autosave(self, session: Session, *, session_id: str, model: str) -> Autosave:
        """The autosave of a session; one without an id is new and gets this one."""
        is_saved = bool(session.session_id)
        session.session_id = session_id
        return Autosave(self, session, Origin(model=model), is_saved=is_saved)

    def row_saver(self, session: Session, *, session_id: str, model: str) -> "RowSaver":
        """Autosave of a row's session; one without an id is new and gets this one."""
        is_saved = bool(session.session_id)
        session.session_id = session_id
        return RowSaver(self, session, Origin(model=model), is_saved=is_saved)

    def shared_pace(self, address: str) -> "StoredPace":
        """The pace at which all processes of this store ask a server."""
        return StoredPace(self._connection, self._mine, address)

    @cached_property
    def writer(self) -> "Writer":
        """The saver of the rows of all threads of this process."""
        return Writer(self)


class Writer:
    """Saves what threads ask for on one thread, all of a moment in one transaction.

    A commit costs more than what it saves. Where one of them cannot be saved, each is
    saved for itself.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._wanted: queue.SimpleQueue[Future[None]] = queue.SimpleQueue()
        self._steps: dict[Future[None], Callable[[], object]] = {}
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._wake = threading.Event()

    def save(self, step: Callable[[], object], wait_seconds: float) -> None:
        """Run a step that saves; raises its error, or StoreError if it takes longer."""
        future: Future[None] = Future()
        self._steps[future] = step
        with self._starting:
            self._wanted.put(future)
            self._wake.set()
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._work, name="nbchat-rows", daemon=True
                )
                self._thread.start()
        try:
            future.result(wait_seconds)
        except TimeoutError:
            raise StoreError("the session store does not answer") from None

    def _work(self) -> None:
        while self._has_more():
            self._save_all()

    def _has_more(self) -> bool:
        """Wait for something to save; False when there is nothing for a while."""
        end = time.monotonic() + IDLE_SECONDS
        while self._wanted.empty():
            with self._starting:
                if time.monotonic() > end and self._wanted.empty():
                    self._thread = None
                    return False
            self._wake.wait(IDLE_SECONDS)
            self._wake.clear()
        return True

    def _save_all(self) -> None:
        """Save what waits now."""
        together: list[Future[None]] = []
        with suppress(queue.Empty):
            while len(together) < MOST_TOGETHER:
                together.append(self._wanted.get_nowait())
        steps = [self._steps.pop(each) for each in together]
        if self._are_saved(steps):
            for future in together:
                future.set_result(None)
            return
        for future, step in zip(together, steps, strict=True):
            _settle(future, step)

    def _are_saved(self, steps: Sequence[Callable[[], object]]) -> bool:
        if len(steps) == 1:
            return False
        try:
            with ExitStack() as stack:
                stack.enter_context(self._store.together())
                for step in steps:
                    step()
        except Exception:  # noqa: BLE001  # raised again by the step that fails alone
            return False
        return True


def _settle(future: "Future[None]", step: Callable[[], object]) -> None:
    try:
        _repeated(step)
    except Exception as error:  # noqa: BLE001  # raised by the thread that waits
        future.set_exception(error)
    else:
        future.set_result(None)


def _repeated(step: Callable[[], object]) -> None:
    """Run a step that saves, once more where the store failed."""
    try:
        step()
    except SessionTaken:
        raise
    except StoreError:
        step()


class RowSaver:
    """Saves the session of a row where `save` or `finish` ask for it, not each event.

    That is before a tool runs and when the row is over: what a kill loses of a row is a
    request that the next run sends again.
    """

    def __init__(
        self, store: Store, session: Session, origin: Origin, *, is_saved: bool
    ) -> None:
        """`is_saved` says that the session was loaded from `store`."""
        self._store, self._session = store, session
        self._progress = Progress(store, session, origin, is_saved=is_saved)

    def __call__(self, event: Event) -> None:
        """Note a change of what the model sees."""
        if isinstance(event, Compacted | CompactionFailed):
            self._progress.note_all()

    def save(self) -> None:
        """Save everything that is not saved yet; raises StoreError."""
        self._progress.note_all()
        if not self._progress.has_all:
            self._save(self._progress.save_pending)

    def finish(self, run: str, result: Result) -> None:
        """Save the rest and the result of a row in one transaction; raises StoreError.

        A result without its session would be a decision without its answer.
        """
        self._progress.note_all()
        results = self._store.results(run)

        def step() -> None:
            try:
                with self._progress.undone_by_errors(), self._store.together():
                    self._progress.save_pending()
                    results.put(result)
            except SessionTaken:  # by ourselves, if a confirmation was lost
                self._progress.save_pending()
                results.put(result)

        self._save(step)

    def _save(self, step: Callable[[], object]) -> None:
        response, began = self._store.response, time.monotonic()
        patience = FLUSH_SECONDS if response.is_expected else BROKEN_STORE_SECONDS
        try:
            self._store.writer.save(partial(self._undone, step), patience)
        except SessionTaken:
            raise
        except StoreError:
            seconds = time.monotonic() - began
            response.note(is_answered=seconds < patience, seconds=seconds)
            raise

    def _undone(self, step: Callable[[], object]) -> None:
        with self._progress.undone_by_errors():
            step()

    def __reduce__(self) -> Any:
        """Pickled with its session; continues from what the store has then."""
        made = partial(RowSaver, is_saved=self._progress.is_begun)
        return made, (self._store, self._session, self._progress.origin)

    def of_branch(self, branch: Session) -> Autosave:
        """The autosave of a branch of the session in the same store; it gets an id."""
        branch.session_id = uuid.uuid4().hex[:12]
        return Autosave(self._store, branch, self._progress.origin, is_saved=False)

    def listen(self, listener: Callable[[SavingFailed], object] | None) -> None:
        """Tell nothing: a row's result says what is not saved."""

    def identify_notebook(self, notebook_id: str) -> None:
        """Rows belong to no notebook."""

    def write_log_to(self, folder: str) -> None:
        """Rows have no logs."""


class StoredPace:
    """The pace of requests to one server, in a database."""

    def __init__(
        self,
        connection: Callable[..., AbstractContextManager[sa.Connection]],
        mine: OwnedRows,
        address: str,
    ) -> None:
        """`connection` opens a transaction."""
        self._connection, self._mine = connection, mine
        self._hash = sha256(address.encode()).hexdigest()

    def change(self, change: Callable[[Pace], Pace]) -> Pace:
        """Replace the pace in one transaction; raises StoreError."""
        token = busy_seconds.set(PACE_SECONDS)
        try:
            return self._changed(change)
        except SessionTaken:  # another process has just added the row
            return self._changed(change)
        finally:
            busy_seconds.reset(token)

    def _changed(self, change: Callable[[Pace], Pace]) -> Pace:
        is_it = request_paces.c.address_hash == self._hash
        query = self._mine.select(request_paces, request_paces.c.pace_json)
        with self._connection() as connection:
            known = connection.scalar(query.where(is_it).with_for_update())
            pace = change(Pace(**json.loads(known)) if known else Pace())
            row = {"pace_json": json.dumps(asdict(pace))}
            if known:
                its_own = self._mine.update(request_paces).where(is_it)
                connection.execute(its_own.values(row))
            else:
                row["address_hash"] = self._hash
                connection.execute(self._mine.insert(request_paces).values(row))
        return pace


class RunResults:
    """The results of one run, in a database."""

    def __init__(
        self,
        connection: Callable[..., AbstractContextManager[sa.Connection]],
        mine: OwnedRows,
        run: str,
    ) -> None:
        """`connection` opens a transaction; without `writes`, one that only reads."""
        self._connection = connection
        self._mine = mine
        self._run = storable(run)

    def put(self, result: Result) -> None:
        """Keep a result, in place of an earlier one for its key; raises StoreError."""
        row = {
            "number": result.number,
            "is_failed": bool(result.error),
            "result_json": json.dumps(result.as_json()),
            "created_at": now(),
        }
        named = {"run": self._run, "key": storable(result.key)}
        named["owner"] = self._mine.owner
        with self._connection() as connection:
            if (upsert := _upsert(connection.dialect.name)) is not None:
                connection.execute(upsert, {**named, **row})
                return
            is_it = (run_results.c[name] == value for name, value in named.items())
            change = sa.update(run_results).where(*is_it).values(row)
            if not connection.execute(change).rowcount:
                connection.execute(sa.insert(run_results), {**named, **row})

    def find(self, keys: Sequence[str]) -> dict[str, Result]:
        """The results for keys, by key."""
        wanted = run_results.c.key.in_([storable(each) for each in keys])
        query = self._mine.select(run_results, run_results.c.result_json).where(
            run_results.c.run == self._run, wanted
        )
        with self._connection(writes=False) as connection:
            found = [
                result_from_json(json.loads(row[0]))
                for row in connection.execute(query)
            ]
        return {each.key: each for each in found}

    def __iter__(self) -> Iterator[Result]:
        """All results in the order of the rows, some at a time."""
        last = (-1, "")
        while rows := self._rows_after(*last):
            for row in rows:
                yield result_from_json(json.loads(row.result_json))
            last = (rows[-1].number, rows[-1].key)

    def batches(self) -> dict[str, frozenset[str]]:
        """The batches that are open, with the ids of their requests."""
        is_its_own = run_batches.c.run == self._run
        query = self._mine.select(run_batches).where(is_its_own)
        with self._connection(writes=False) as connection:
            rows = connection.execute(query).all()
        return {row.batch_id: frozenset(json.loads(row.names_json)) for row in rows}

    def add_batch(self, batch_id: str, names: frozenset[str]) -> None:
        """Remember a batch that was sent; raises StoreError."""
        row = {
            "run": self._run,
            "batch_id": batch_id,
            "names_json": json.dumps(sorted(names)),
            "created_at": now(),
        }
        with self._connection() as connection:
            connection.execute(self._mine.insert(run_batches).values(row))

    def remove_batch(self, batch_id: str) -> None:
        """Forget a batch whose replies are in the sessions."""
        is_it = (run_batches.c.run == self._run) & (run_batches.c.batch_id == batch_id)
        with self._connection() as connection:
            connection.execute(self._mine.delete(run_batches).where(is_it))

    def _rows_after(self, number: int, key: str) -> Sequence[Any]:
        table = run_results.c
        later = sa.or_(
            table.number > number, sa.and_(table.number == number, table.key > key)
        )
        query = (
            self._mine.select(run_results)
            .where(table.run == self._run, later)
            .order_by(table.number, table.key)
            .limit(ROWS_READ)
        )
        with self._connection(writes=False) as connection:
            return connection.execute(query).all()


@cache
def _upsert(dialect: str) -> Any:
    """The statement that adds a result or replaces it; None where there is none."""
    inserts: dict[str, Any] = {
        "sqlite": sqlite.insert,
        "postgresql": postgresql.insert,
    }
    if dialect not in inserts:
        return None
    added = inserts[dialect](run_results)
    changed = {
        name: added.excluded[name]
        for name in ("number", "is_failed", "result_json", "created_at")
    }
    key = ["owner", "run", "key"]
    return added.on_conflict_do_update(index_elements=key, set_=changed)


def _store_of_process(url: str, owner: str) -> Store:
    return _shared(url, owner, os.getpid())


@cache
def _shared(url: str, owner: str, _process: int) -> Store:
    return Store(url, owner=owner)
