"""Chats in processes that are killed, on stores that fail, and what must be left of them.

A process tells what it was promised: how many entries and compactions were saved when
autosave returned without an error, and when it said that saving failed or that all
is saved again. `assert_kept` compares this with the store after the process has ended.
"""

import os
import random
import shutil
import sqlite3
import subprocess
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import chain
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from threading import Lock, Thread
from typing import NamedTuple

import sqlalchemy as sa
from forked import clean_context
from postgres import restart

import nbchat.storage.autosave
from nbchat.agent.agent import Agent
from nbchat.conversation.entries import Compaction
from nbchat.conversation.events import Compacted, EntryAdded, Event, SavingFailed
from nbchat.conversation.session import Session
from nbchat.errors import SessionNotFound, StoreError
from nbchat.storage.autosave import Autosave
from nbchat.storage.store import SessionStore
from nbchat.testing import ScriptedProvider, says

ANSWER = "The customer asks about order W100 and its parcel, which is late. " * 6
SUMMARY = (
    "<summary>The customer asked about order W100, whose parcel is late.</summary>"
)

TURNS_TO_COMPACT = 4

MADE = ("done", "degraded")


class Promise(NamedTuple):
    """What a process knew to be saved."""

    entries: int
    compactions: int
    failure: str = ""
    """Why saving fails now; nothing more is promised until it is empty again."""


class Watched:
    """Autosave that tells what it has saved."""

    def __init__(
        self, store: SessionStore, session: Session, tell: Callable[[Promise], None]
    ) -> None:
        self._autosave = Autosave(store, session, is_saved=False)
        self._session = session
        self._send = tell
        self._promise = Promise(0, 0)

    def __call__(self, event: Event) -> SavingFailed | None:
        try:
            news = self._autosave(event)
        except StoreError as error:
            self._tell(self._promise._replace(failure=str(error)))
            raise
        is_saved = not self._promise.failure or news is not None
        if is_saved and (news or isinstance(event, EntryAdded | Compacted)):
            self._tell_all()
        return news

    def finish(self) -> None:
        """Try for a minute to save what is not saved yet, and tell it."""
        end = time.monotonic() + 60
        while not self._is_saved():
            assert time.monotonic() < end, self._promise
            time.sleep(0.05)
        self._tell_all()

    def _is_saved(self) -> bool:
        try:
            self._autosave.save()
        except StoreError as error:
            self._promise = self._promise._replace(failure=str(error))
            return False
        return True

    def _tell_all(self) -> None:
        session = self._session
        self._tell(Promise(len(session.transcript), len(finished(session))))

    def _tell(self, promise: Promise) -> None:
        self._promise = promise
        self._send(promise)


def chat_on(url: str, names: Sequence[str], turns: int, told: Connection) -> None:
    """Chat in sessions at once, with a compaction every few turns."""
    # However busy the machine is, each event is saved before the next
    nbchat.storage.autosave.PATIENCE_SECONDS = 60.0
    sending = Lock()

    def tell(name: str, promise: Promise) -> None:
        with sending:
            told.send((name, promise))

    threads = [
        Thread(target=chat_in, args=(url, name, turns, partial(tell, name)))
        for name in names
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def chat_in(url: str, name: str, turns: int, tell: Callable[[Promise], None]) -> None:
    """Chat in one session."""
    session = Session(session_id=name)
    some = [*[says(ANSWER)] * TURNS_TO_COMPACT, says(SUMMARY)]
    agent = Agent(ScriptedProvider(*some * turns), session=session)
    agent.autosave = watched = Watched(SessionStore(url), session, tell)
    for number in range(turns):
        agent.ask(f"question {number}")
        if number % TURNS_TO_COMPACT == TURNS_TO_COMPACT - 1:
            list(agent.compact())
    watched.finish()


class Chats:
    """A process that chats in sessions, and what it was promised for each."""

    def __init__(self, url: str, *names: str, turns: int = 1_000) -> None:
        forking = clean_context("warm_compaction")
        self._reader, writer = forking.Pipe(duplex=False)
        self._turns = turns
        self.promises = {name: [Promise(0, 0)] for name in names}
        self._process: ForkServerProcess = forking.Process(
            target=chat_on, args=(url, names, turns, writer)
        )
        self._process.start()
        writer.close()
        self._listener = Thread(target=self._listen)
        self._listener.start()
        self._is_killed = False

    def _listen(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                name, promise = self._reader.recv()
                self.promises[name].append(promise)

    def await_promises(self) -> None:
        """Wait until something was told of each session."""
        end = time.monotonic() + 60
        while any(len(each) == 1 for each in self.promises.values()):
            assert time.monotonic() < end
            time.sleep(0.001)

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._is_killed = True
        self.wait()

    def wait(self) -> None:
        """Wait until the process has ended."""
        self._process.join()
        self._listener.join()
        self._reader.close()

    @property
    def failures(self) -> list[str]:
        """Why saving has failed, each time that it was told."""
        told = chain.from_iterable(self.promises.values())
        return [each.failure.partition("retrying: ")[2] for each in told if each[2]]

    def assert_kept(self, store: SessionStore) -> int:
        """All that was promised is stored; returns how many entries were promised."""
        for name, promises in self.promises.items():
            promised = promises[-1]
            if not self._is_killed:
                made = self._turns // TURNS_TO_COMPACT
                assert promised == Promise(2 * self._turns, made)
            assert_kept(store, name, promised)
        return sum(each[-1].entries for each in self.promises.values())


def assert_kept(store: SessionStore, name: str, promised: Promise) -> None:
    """A session has what was promised, in order, and a view that can be continued."""
    try:
        session = store.load(name)
    except SessionNotFound:
        assert promised.entries == 0
        return
    kept = [(entry.role, entry.content) for entry in session.transcript]
    expected = [
        ("user", f"question {n // 2}") if n % 2 == 0 else ("assistant", ANSWER)
        for n in range(len(kept))
    ]
    assert kept == expected
    assert len(kept) >= promised.entries
    made = finished(session)
    assert len(made) >= promised.compactions
    assert all(each.status != "running" for each in session.compactions)
    assert all(not each.reason for each in made)


def finished(session: Session) -> list[Compaction]:
    """The records of compactions that were made."""
    return [each for each in session.compactions if each.status in MADE]


def kill_chats(url: str, kills: int, chance: random.Random) -> int:
    """Kill so many chats at random moments; returns how many entries were promised."""
    store, promised = SessionStore(url), 0
    for number in range(kills):
        chats = Chats(url, f"killed-{number}")
        chats.await_promises()
        time.sleep(chance.uniform(0, 0.3))
        chats.kill()
        assert chats.failures == []
        promised += chats.assert_kept(store)
    store.close()
    return promised


class Disk(NamedTuple):
    """A small disk of its own, of which some is taken."""

    folder: Path

    def leave(self, free_bytes: int) -> None:
        """Take what is free but so many bytes."""
        self.release()
        disk = os.statvfs(self.folder)
        taken = max(disk.f_bavail * disk.f_frsize - free_bytes, 0)
        self._ballast.write_bytes(bytes(taken))

    def release(self) -> None:
        """Give back what was taken."""
        self._ballast.unlink(missing_ok=True)

    @property
    def _ballast(self) -> Path:
        return self.folder / "ballast"


@contextmanager
def small_disk(size: str = "4m") -> Iterator[Disk]:
    """Mount a disk in memory; raises OSError where that is not allowed."""
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
        done = subprocess.run(mount, check=False, capture_output=True, text=True)
        if done.returncode:
            raise OSError(f"no disk can be mounted here: {done.stderr.strip()}")
        try:
            yield Disk(Path(folder))
        finally:
            subprocess.run(["umount", folder], check=True)


def fill_disks(disk: Disk, rounds: int, chance: random.Random) -> Counter[str]:
    """Chats whose disk fills at a random moment; what happened, counted.

    Of each four, three are killed and one gets its disk back.
    """
    seen: Counter[str] = Counter()
    for number in range(rounds):
        folder = disk.folder / str(number)
        folder.mkdir()
        store = SessionStore(f"sqlite:///{folder}/sessions.db")
        disk.leave(chance.randrange(0, 600_000))
        is_killed = number % 4 > 0
        chats = Chats(store.url, "s", turns=1_000 if is_killed else 8)
        time.sleep(chance.uniform(0, 0.5 if is_killed else 1.5))
        if is_killed:
            chats.kill()
        disk.release()
        chats.wait()
        assert_sound(folder / "sessions.db")
        chats.assert_kept(store)
        store.close()
        shutil.rmtree(folder)
        seen["killed"] += is_killed
        seen.update(chats.failures)
    return seen


def assert_sound(file: Path) -> None:
    """A SQLite file, if there is one, has no damage."""
    if file.exists():
        with closing(sqlite3.connect(file)) as database:
            found = database.execute("PRAGMA integrity_check").fetchall()
        assert found == [("ok",)]


class CrowdResult(NamedTuple):
    """What a crowd on one server met."""

    entries: int
    most_connections: int
    failures: Counter[str]


def crowd(
    url: str,
    processes: int,
    sessions: int,
    turns: int,
    chance: random.Random,
    *,
    restarts: int = 2,
) -> CrowdResult:
    """Processes that chat on one server, from its first use on; nothing may be lost.

    One in four is killed in the middle, and the server is restarted as if it had
    crashed. All connections are counted meanwhile.
    """
    started = [
        Chats(url, *(f"{process}-{n}" for n in range(sessions)), turns=turns)
        for process in range(processes)
    ]
    with counted_connections(url) as counts:
        for each in started:
            each.await_promises()
        for each in started[::4]:
            time.sleep(chance.uniform(0, 0.1))
            each.kill()
        for _ in range(restarts):
            restart(url)
            time.sleep(chance.uniform(0.5, 1.5))
        for each in started:
            each.wait()
    store = SessionStore(url)
    entries = sum(each.assert_kept(store) for each in started)
    store.close()
    failures = Counter(chain.from_iterable(each.failures for each in started))
    return CrowdResult(entries, max(counts), failures)


@contextmanager
def counted_connections(url: str) -> Iterator[list[int]]:
    """How many other connections the server has for half a second, counted all the time.

    It notices a while later that a client has closed one.
    """
    counts, is_over = [0], threading.Event()
    seen: deque[set[int]] = deque(maxlen=10)
    query = (
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
        "AND pid != pg_backend_pid()"
    )

    def count() -> None:
        engine = sa.create_engine(url, pool_pre_ping=True)
        while not is_over.wait(0.05):
            with suppress(sa.exc.OperationalError), engine.connect() as connection:
                seen.append({*connection.scalars(sa.text(query))})
                if len(seen) == seen.maxlen:
                    counts.append(len(set.intersection(*seen)))
        engine.dispose()

    counter = Thread(target=count)
    counter.start()
    yield counts
    is_over.set()
    counter.join()
