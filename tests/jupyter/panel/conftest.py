"""Fixtures of the panel's tests."""

from collections.abc import Iterator
from typing import Any

import pytest
from panel_views import MakePanel, Panel

from nbchat.agent.agent import Agent
from nbchat.testing import ScriptedProvider, ScriptedReply


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
