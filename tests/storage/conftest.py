"""One PostgreSQL for all tests of a process, with a database for each file."""

from collections.abc import Iterator

import pytest
from postgres import new_database, running_server


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """The URL of a server that runs until the last test."""
    with running_server("max_connections=60", is_synced=True) as url:
        yield url


@pytest.fixture(scope="module")
def server(cluster: str) -> str:
    """The URL of an empty database for all tests of a file."""
    return new_database(cluster)
