"""A run of many agents in the cell whose last line it is: progress, and *Retry failed*.

    run = map_agents(...)
    run                  # followed until it ends, and again when it continues

Nothing is followed in a notebook that runs without a page (nbconvert, papermill).
"""

import sys
import threading
import uuid
from typing import Any
from weakref import WeakKeyDictionary

from nbchat.agent.live_output import is_watched
from nbchat.agent.map_agents import MapRun

UPDATE_SECONDS = 1.0
"""Time between two updates."""

NO_BUTTON = {"text/plain": ""}

# The page draws an empty output, or a line about a missing model where a saved notebook
# is opened later. The button is drawn only where it works.
ONLY_BUTTON_HTML = """<style>
.jp-OutputArea-child:has(> .jp-OutputArea-output > .nbc-retry-end),
.jp-OutputArea-child:not(:has(> .jp-OutputArea-output > .jupyter-button)):has(
  + .jp-OutputArea-child > .jp-OutputArea-output > .nbc-retry-end) {
  display: none;
}
</style><div class="nbc-retry-end"></div>"""


def follow_runs() -> None:
    """Have the running IPython follow runs in cells; does nothing outside of it."""
    shell = sys.modules["IPython"].get_ipython()
    if getattr(shell, "kernel", None) is not None:
        formatter = shell.display_formatter.ipython_display_formatter
        if MapRun not in formatter.type_printers:
            formatter.for_type(MapRun, RunDisplays(shell.display_pub).show)


class RunDisplays:
    """The displays of all runs of a kernel."""

    def __init__(self, publisher: Any) -> None:
        self._publisher = publisher
        self._displays: WeakKeyDictionary[MapRun, RunDisplay] = WeakKeyDictionary()

    def show(self, run: MapRun) -> None:
        """Show a run in the cell that runs; once where nothing can happen any more."""
        is_known = run in self._displays
        if not is_watched() or not (run.is_running or run.failed or is_known):
            raise NotImplementedError  # IPython continues with _repr_html_
        if not is_known:
            self._displays[run] = RunDisplay(run, self._publisher)
        self._displays[run].show()


class RunDisplay:
    """One run in its cell, or in several: all are updated."""

    def __init__(self, run: MapRun, publisher: Any) -> None:
        self._run = run
        self._publisher = publisher
        self._table_id, self._button_id = uuid.uuid4().hex, uuid.uuid4().hex
        self._button: Any = None
        self._thread: threading.Thread | None = None
        run.on_resume = self._follow

    def show(self) -> None:
        """Show the run in the cell that runs, and follow it; returns at once."""
        self._show_table(is_update=False)
        self._send(self._button_id, NO_BUTTON, is_update=False)
        self._send(
            uuid.uuid4().hex,
            {"text/html": ONLY_BUTTON_HTML, "text/plain": ""},
            is_update=False,
        )
        self._follow()

    def wait(self) -> None:
        """Block until the end of the run is shown."""
        if self._thread is not None:
            self._thread.join()

    def retry(self, _button: object = None) -> None:
        """Try the failed rows again, as a click does."""
        self._run.retry_failed()

    def _follow(self) -> None:
        self._thread = threading.Thread(
            target=self._update,
            args=(self._thread,),
            name="nbchat-run-display",
            daemon=True,
        )
        self._thread.start()

    def _update(self, earlier: threading.Thread | None) -> None:
        if earlier is not None:
            earlier.join()
        self._remove_button()
        is_over = False
        while not is_over:
            self._run.wait(UPDATE_SECONDS)
            is_over = not self._run.is_running  # looked at before it is shown
            self._show_table(is_update=True)
        if self._run.failed:
            self._offer_retry()

    def _offer_retry(self) -> None:
        # Not at the top: it takes a tenth of a second, and few runs have failed rows.
        from ipywidgets import Button  # noqa: PLC0415

        self._button = Button(
            description=f"Retry {len(self._run.failed):,} failed",
            tooltip="Continue each failed row from where it stopped",
        )
        self._button.on_click(self.retry)
        drawn = self._button._repr_mimebundle_()
        self._send(self._button_id, {**drawn, "text/plain": ""}, is_update=True)

    def _remove_button(self) -> None:
        if self._button is not None:
            self._send(self._button_id, NO_BUTTON, is_update=True)
            self._button.close()
            self._button = None

    def _show_table(self, *, is_update: bool) -> None:
        shown = {"text/html": self._run._repr_html_(), "text/plain": repr(self._run)}
        self._send(self._table_id, shown, is_update=is_update)

    def _send(self, display_id: str, shown: Any, *, is_update: bool) -> None:
        self._publisher.publish(
            shown, transient={"display_id": display_id}, update=is_update
        )
