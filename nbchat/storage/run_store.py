"""A store that also keeps the results of runs of many agents.

store = Store("sqlite:///triage.db")
map_agents(make_agent, tickets, ..., store=store)
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import sqlalchemy as sa

from nbchat.agent.map_results import Result, result_from_json
from nbchat.conversation.entries import now
from nbchat.conversation.session import Session
from nbchat.errors import SessionNotFound, StoreError
from nbchat.storage.autosave import Autosave
from nbchat.storage.owners import OwnedRows
from nbchat.storage.schema import run_batches, run_results
from nbchat.storage.serialization import storable
from nbchat.storage.store import Origin, SessionStore

ROWS_READ = 1_000
"""Results that are read at once."""

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
        """What saves a session; one without an id is new and gets this one."""
        is_saved = bool(session.session_id)
        session.session_id = session_id
        return Autosave(self, session, Origin(model=model), is_saved=is_saved)


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
        is_it = (run_results.c.run == self._run) & (
            run_results.c.key == storable(result.key)
        )
        row = {
            "number": result.number,
            "is_failed": bool(result.error),
            "result_json": json.dumps(result.as_json()),
            "created_at": now(),
        }
        with self._connection() as connection:
            changed = connection.execute(
                self._mine.update(run_results).where(is_it).values(row)
            )
            if not changed.rowcount:
                named = {"run": self._run, "key": storable(result.key)}
                values = {**named, **row}
                connection.execute(self._mine.insert(run_results).values(values))

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


def _store_of_process(url: str, owner: str) -> Store:
    return _shared(url, owner, os.getpid())


@cache
def _shared(url: str, owner: str, _process: int) -> Store:
    return Store(url, owner=owner)
