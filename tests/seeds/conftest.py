"""What several documents need: a store of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nbchat.storage.store import SessionStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    """A database of its own for each test."""
    opened = SessionStore(f"sqlite:///{tmp_path / 'sessions.db'}")
    yield opened
    opened.close()
