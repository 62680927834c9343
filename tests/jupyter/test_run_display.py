"""A run of many agents in its cell: followed to its end, again when it continues."""

import threading

import pytest

from nbchat.agent.agent import Agent
from nbchat.agent.map_agents import MapRun, map_agents
from nbchat.errors import RequestRefused
from nbchat.jupyter.run_display import RunDisplay
from nbchat.providers.base import Request
from nbchat.testing import Line, ScriptedProvider, fails, says


class Publisher:
    """Keeps what a cell shows, by the id of its display."""

    def __init__(self) -> None:
        self.shown: dict[str, list[dict]] = {}
        self.cells = 0

    def publish(self, data: dict, *, transient: dict, update: bool) -> None:
        self.cells += not update
        self.shown.setdefault(transient["display_id"], []).append(data)

    @property
    def table(self) -> str:
        return next(iter(self.shown.values()))[-1]["text/html"]

    @property
    def button(self) -> dict:
        return list(self.shown.values())[1][-1]


def shown(run: MapRun) -> tuple[RunDisplay, Publisher]:
    publisher = Publisher()
    display = RunDisplay(run, publisher)
    display.show()
    return display, publisher


@pytest.mark.slow
def test_a_display_follows_a_run_to_its_end_and_again_after_it_is_resumed():
    goes_on = threading.Event()

    def answer(_request: Request) -> Line:
        goes_on.wait(10)
        return says("Hello.")

    run = map_agents(lambda: Agent(ScriptedProvider(answer)), ["a", "b"], workers=1)
    display, publisher = shown(run)
    assert publisher.table.count("running") == 2  # its state, and the row of one worker
    assert f"{'░' * 20} · 0 of 2 rows · 1 running<" in publisher.table
    run.stop()
    goes_on.set()
    run.wait()
    display.wait()
    assert "stopped" in publisher.table
    run.resume().wait()
    display.wait()
    assert "finished" in publisher.table
    assert "2 of 2 rows" in publisher.table
    assert publisher.cells == 3


def test_a_run_that_ends_before_its_display_looks_is_shown_as_finished():
    run = map_agents(lambda: Agent(ScriptedProvider(says("Hello."))), ["a"]).wait()
    display, publisher = shown(run)
    display.wait()
    assert "finished" in publisher.table
    assert publisher.button == {"text/plain": ""}


def test_a_click_on_the_button_tries_the_failed_rows_again():
    refused = fails(RequestRefused("no such model"))
    provider = ScriptedProvider(refused, refused, says("Hello."), says("Hello."))
    run = map_agents(lambda: Agent(provider), ["a", "b"], workers=1).wait()
    display, publisher = shown(run)
    display.wait()
    assert run.failed == ("0", "1")
    assert "application/vnd.jupyter.widget-view+json" in publisher.button
    assert display._button.description == "Retry 2 failed"
    display._button.click()
    run.wait()
    display.wait()
    assert run.failed == ()
    assert "2 of 2 rows" in publisher.table
    assert publisher.button == {"text/plain": ""}
