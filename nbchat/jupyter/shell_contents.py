"""What a message can attach from the notebook: variables, cells, the last traceback."""

import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from IPython import get_ipython
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from nbchat.chat.attachments.mentions import Cell
from nbchat.chat.attachments.short_repr import short_repr


def contents_of_notebook() -> "ShellContents | None":
    """What the notebook that this runs in has; None outside of IPython."""
    shell = get_ipython()
    return None if shell is None else ShellContents(shell)


class ShellContents:
    """Looks up what a message mentions in a shell; runs no code."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    @property
    def folder(self) -> Path:
        """The kernel's working folder, by default that of the notebook."""
        return Path.cwd()

    def variables(self) -> Mapping[str, object]:
        """The user's variables as they are now."""
        return own_variables(self._shell)

    def cell(self, number: int | None) -> Cell | None:
        """A cell by its number, or the last one that was not for the chat."""
        history = self._shell.history_manager
        sources = history.input_hist_raw[:] if history is not None else []
        if number is None:
            numbers = range(len(sources) - 1, 0, -1)
            number = next((n for n in numbers if not _is_for_chat(sources[n])), 0)
        if not 0 < number < len(sources):
            return None
        return Cell(number, sources[number], _output(history, number))

    def error(self) -> str:
        """The last traceback; one-line errors of magics have none."""
        known = getattr(self._shell.history_manager, "exceptions", {})
        for failed in reversed(list(known.values())):
            if failed["ename"] != "UsageError":
                return "\n".join(failed["traceback"])
        last = getattr(sys, "last_value", None)  # IPython before 9 keeps no tracebacks
        is_new = last is not None and not isinstance(last, UsageError)
        return "".join(traceback.format_exception(last)) if is_new else ""


def _output(history: Any, number: int) -> str:
    """The text output of a cell: printed, displayed, or its value."""
    if not hasattr(history, "outputs"):  # IPython before 9 keeps only the value
        values = history.output_hist
        return short_repr(values[number]) if number in values else ""
    shown = []
    for each in list(history.outputs.get(number, ())):
        text = each.bundle.get("stream", each.bundle.get("text/plain", ""))
        shown.append(text if isinstance(text, str) else "".join(text))
    return "\n".join(text.rstrip("\n") for text in shown if text)


def _is_for_chat(source: str) -> bool:
    """Whether a cell sent a message, or only showed the panel."""
    lines = source.strip().splitlines()
    is_message = bool(lines) and lines[0].startswith("%%chat")
    return (
        not lines or is_message or any(line.split()[:1] == ["%chat"] for line in lines)
    )


def own_variables(shell: InteractiveShell) -> Mapping[str, object]:
    """The user's variables, without those that IPython defines."""
    hidden, names = shell.user_ns_hidden, dict(shell.user_ns)
    return {k: v for k, v in names.items() if k not in hidden or hidden[k] is not v}
