"""Fixtures of the panel's tests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from notebook_desk import Desk
from panel_views import MakePanel, Panel

from nbchat.agent.agent import Agent
from nbchat.chat.commands import Commands
from nbchat.storage.store import SessionStore
from nbchat.testing import ScriptedProvider, ScriptedReply, says


@pytest.fixture
def panel_with() -> Iterator[MakePanel]:
    """Make a panel on a script, and close it when the test is over."""
    made: list[Panel] = []

    def make(*script: ScriptedReply, **options: Any) -> Panel:
        panel = Panel(Agent(ScriptedProvider(*script), **options))
        made.append(panel)
        return panel

    yield make
    for panel in made:
        panel.close()


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(f"sqlite:///{tmp_path / 'sessions.db'}")


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def panel(store: SessionStore, desk: Desk) -> Iterator[Panel]:
    """A panel on four answers, the first two messages said."""
    agent = Agent(ScriptedProvider(*map(says, ("One.", "Two.", "Three.", "Four."))))
    panel = Panel(agent, commands=Commands(store), resolver=desk)
    for text in ("first", "second"):
        panel.ask(text)
        assert panel.wait(60)
    yield panel
    panel.close()
