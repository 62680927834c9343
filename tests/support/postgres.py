"""A real PostgreSQL, started for tests: an empty cluster on a port of this machine."""

import atexit
import getpass
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path

import sqlalchemy as sa
from ports import free_port
from sqlalchemy import make_url

_SCHEMAS = Path(__file__).parents[1] / "data" / "schemas"
_NUMBERS = count()


def programs() -> Path:
    """Where PostgreSQL's own programs are; Debian keeps them out of the PATH."""
    found = shutil.which("initdb")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return Path(found).parent if found else folders[0]


def as_its_user(*command: str) -> None:
    """Run a program of PostgreSQL, which refuses to be root."""
    switch = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    subprocess.run([*switch, *command], check=True, capture_output=True, cwd="/")


def folder_of(port: int) -> Path:
    """Where the server on a port has its files."""
    return Path(f"/tmp/nbchat-postgres-{port}")


def restart(url: str) -> None:
    """End a running server as a crash does, and start it again with its settings."""
    port = make_url(url).port
    assert port is not None
    folder = folder_of(port)
    control = (str(programs() / "pg_ctl"), "-D", str(folder / "files"), "-w")
    as_its_user(*control, "-m", "immediate", "-l", str(folder / "log"), "restart")


def its_user() -> str:
    """Who runs the servers."""
    return "postgres" if os.geteuid() == 0 else getpass.getuser()


@cache
def empty_cluster() -> Path:
    """The files of a server that has never run, made once in a process.

    To copy them takes a tenth of the second that `initdb` does.
    """
    folder = Path(tempfile.mkdtemp(prefix="nbchat-postgres-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shutil.chown(folder, its_user())
    files = str(folder / "files")
    as_its_user(str(programs() / "initdb"), "-D", files, "-A", "trust", "--no-sync")
    return folder / "files"


@contextmanager
def running_server(*settings: str, is_synced: bool = False) -> Iterator[str]:
    """The URL of a server with an empty database; `settings` as name=value.

    `is_synced` keeps what was committed when the server itself is killed.
    """
    port = free_port()
    folder = folder_of(port)
    folder.mkdir()
    user = its_user()
    shutil.chown(folder, user)
    files, where = str(folder / "files"), programs()
    options = f"-p {port} -c listen_addresses=127.0.0.1 -k {folder}"
    options += " ".join(f" -c {each}" for each in settings) + " -F" * (not is_synced)
    control = (str(where / "pg_ctl"), "-D", files, "-w")
    try:
        as_its_user("cp", "-a", str(empty_cluster()), files)
        as_its_user(*control, "-o", options, "-l", str(folder / "log"), "start")
        try:
            yield f"postgresql+psycopg://{user}@127.0.0.1:{port}/postgres"
        finally:
            as_its_user(*control, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def new_database(url: str) -> str:
    """The URL of another, empty database of the same server."""
    name = f"other{next(_NUMBERS)}"
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    engine.dispose()
    return f"{url.rpartition('/')[0]}/{name}"


@contextmanager
def frozen(url: str) -> Iterator[None]:
    """Stop all processes of the server: its sockets stay open and nothing answers."""
    port = make_url(url).port
    assert port is not None
    main = (folder_of(port) / "files" / "postmaster.pid").read_text().split()[0]
    processes = [int(main)]
    try:
        os.kill(int(main), signal.SIGSTOP)  # it starts no other from now on
        found = subprocess.run(["pgrep", "-P", main], check=True, capture_output=True)
        processes += map(int, found.stdout.split())
        _signal(processes, signal.SIGSTOP)
        yield
    finally:
        _signal(processes, signal.SIGCONT)


def _signal(processes: list[int], number: signal.Signals) -> None:
    """Send a signal to those of the processes that have not ended."""
    for each in processes:
        with suppress(ProcessLookupError):
            os.kill(each, number)


def fill_server(url: str, version: str) -> sa.Engine:
    """Restore the dump of an earlier version on a PostgreSQL server."""
    engine = sa.create_engine(url)
    dump = (_SCHEMAS / f"{version}-postgresql.sql").read_text().splitlines()
    statements = [each for each in dump if not each.startswith(("\\", "--"))]
    with engine.begin() as connection:
        connection.exec_driver_sql("\n".join(statements).replace("%", "%%"))
        connection.exec_driver_sql("SET search_path TO public")
    return engine
