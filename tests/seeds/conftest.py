"""What several documents need: a store of its own, and a model's server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_server import FaultServer

from nbchat.storage.store import SessionStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    """A database of its own for each test."""
    opened = SessionStore(f"sqlite:///{tmp_path / 'sessions.db'}")
    yield opened
    opened.close()


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A server on a real socket that says what a test tells it."""
    server = FaultServer()
    yield server
    server.close()
