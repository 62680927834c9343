"""*Try again* below a cell whose turn has failed.

The button and the answer are displays of that cell, which a click updates: no other
cell has to run. Where no page draws widgets, a line says how to try again.
"""

import sys
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from nbchat.agent.live_output import NotebookOutput
from nbchat.errors import NbchatError
from nbchat.rendering.entries import escaped

LABEL = "Try again"

HOW = "To try again, run the cell again."
"""Shown where no page draws the button, and in a notebook that is opened later."""

# Hidden for three seconds, until the button is drawn. Where it cannot be drawn, the
# page's own line about a missing model is hidden.
HOW_HTML = f"""<style>
.nbc-unused {{ animation: nbc-unused 3s step-end backwards; }}
@keyframes nbc-unused {{ from {{ visibility: hidden; }} }}
.jp-OutputArea-child:has(> .jp-OutputArea-output > .jupyter-button)
  + .jp-OutputArea-child:has(> .jp-OutputArea-output > .nbc-unused),
.jp-OutputArea-child:not(:has(> .jp-OutputArea-output > .jupyter-button)):has(
  + .jp-OutputArea-child > .jp-OutputArea-output > .nbc-unused) {{
  display: none;
}}
</style><div class="nbc-unused">{HOW}</div>"""

ANSWERED = "The answer after Try again:"
"""Shown instead of the button by then; the error above it stays in the cell."""

Answer = Callable[[NotebookOutput], object]
"""Continues the turn and shows it; raises UsageError when it fails again."""


class RetryButton:
    """A button that continues a failed turn and shows the answer below it."""

    def __init__(self, shell: InteractiveShell, answer: Answer) -> None:
        """Show nothing yet."""
        self._shell = shell
        self._answer = answer
        self._button_id = uuid4().hex
        self._button: Any = None
        self._below: Any = None

    def show_after_cell(self) -> None:
        """Show the button once the cell has ended, which is below its error."""
        self._shell.events.register("post_run_cell", self._show)

    def _show(self, _result: object) -> None:
        self._shell.events.unregister("post_run_cell", self._show)
        kernel = getattr(self._shell, "kernel", None)
        if kernel is None:
            sys.stdout.write(f"{HOW}\n")
            return
        # A run that takes no input is not watched: nbconvert, nbval, papermill.
        if not getattr(kernel, "_allow_stdin", True):
            self._publish({"text/plain": HOW}, is_update=False)
            return
        button = self._made()._repr_mimebundle_()
        self._publish({**button, "text/plain": ""}, is_update=False)
        how = {"text/plain": HOW, "text/html": HOW_HTML}
        self._below = _OneDisplay(self._shell.display_pub, how)

    def _made(self) -> Any:
        # Not at the top: it takes a tenth of a second, and few turns fail.
        from ipywidgets import Button  # noqa: PLC0415

        self._button = Button(description=LABEL, tooltip="Ask the model again")
        self._button.on_click(self.click)
        return self._button

    def click(self, _button: object = None) -> None:
        """Continue the turn; the button stays if it fails again."""
        self._button.disabled = True
        output = NotebookOutput(self._below.emptied())
        try:
            self._answer(output)
        except (UsageError, NbchatError) as error:
            output.line(str(error))
            self._button.disabled = False
        else:
            self._publish({"text/plain": ANSWERED}, is_update=True)
            self._button.close()

    def _publish(self, shown: dict[str, Any], *, is_update: bool) -> None:
        self._shell.display_pub.publish(
            shown, transient={"display_id": self._button_id}, update=is_update
        )


class _OneDisplay:
    """A publisher that puts all displays of a turn into one, made beforehand.

    A display that is new after its cell has ended would have no place in the page.
    """

    def __init__(self, publisher: Any, first: dict[str, str]) -> None:
        """Publish the display with what it shows at first."""
        self._publisher = publisher
        self._id = uuid4().hex
        self._parts: dict[str, dict[str, str]] = {}
        self._send(first, is_update=False)

    def emptied(self) -> "_OneDisplay":
        """Forget what an earlier turn has shown."""
        self._parts.clear()
        return self

    def publish(
        self, data: dict[str, str], *, transient: dict[str, str], update: bool
    ) -> None:
        """Show a part in its place; `update` is known by its id."""
        del update
        self._parts[transient["display_id"]] = data
        parts = [each for each in self._parts.values() if each["text/plain"]]
        shown = {"text/plain": "\n\n".join(each["text/plain"] for each in parts)}
        if parts:
            shown["text/html"] = "".join(map(_html, parts))
        self._send(shown, is_update=True)

    def _send(self, shown: dict[str, str], *, is_update: bool) -> None:
        self._publisher.publish(
            shown, transient={"display_id": self._id}, update=is_update
        )


def _html(part: dict[str, str]) -> str:
    line = f"<div>{escaped(part['text/plain'])}</div>"
    return part.get("text/html", line)
