"""Databases in files, changed behind a store's back."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


@contextmanager
def sqlite_file(file: Path | str) -> Iterator[sqlite3.Connection]:
    """A connection whose changes are kept, and which is closed: sqlite3 leaves it open."""
    with closing(sqlite3.connect(file)) as database, database:
        yield database
