"""The shell of the notebook: variables, cells, the last error, what runs now."""

import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from IPython import get_ipython
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from nbchat.chat.attachments.error_report import error_report
from nbchat.chat.attachments.failures import Failure, failure_in, failure_of, is_of
from nbchat.chat.attachments.mentions import Cell
from nbchat.chat.attachments.short_repr import short_repr

_FOR_CHAT = re.compile(r"\A\s*%%chat|^\s*%chat(?!\S)", re.MULTILINE)


def contents_of_notebook() -> "ShellContents | None":
    """Variables, cells and errors of this notebook; None outside of IPython."""
    shell = get_ipython()
    return None if shell is None else ShellContents(shell)


class ShellContents:
    """Looks up what a message mentions in a shell; runs no code."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self.cell_at: Callable[[int], Cell | None] = lambda _position: None
        """A cell by its position, if the notebook's page reports it."""

    @property
    def folder(self) -> Path:
        """The kernel's working folder, by default that of the notebook."""
        return Path.cwd()

    def variables(self) -> Mapping[str, object]:
        """The user's variables as they are now."""
        return own_variables(self._shell)

    def cell(self, number: int | None) -> Cell | None:
        """A cell by its run's number, or the last one that was not for the chat."""
        history = self._shell.history_manager
        sources = history.input_hist_raw[:] if history is not None else []
        if number is None:
            number = next((n for n, _ in self.runs()), 0)
        if not 0 < number < len(sources):
            return None
        return Cell(number, sources[number], _output(history, number))

    def runs(self) -> Iterator[tuple[int, str]]:
        """Number and source of the cells that were run, the newest first.

        Without those that were for the chat.
        """
        history = self._shell.history_manager
        sources = history.input_hist_raw[:] if history is not None else []
        for number in range(len(sources) - 1, 0, -1):
            if not _is_for_chat(sources[number]):
                yield number, sources[number]

    def failed(self) -> tuple[int, str] | None:
        """Number and message of the last failed cell, unless it ran well since."""
        number, source, text = self._last_traceback()
        if not text:
            return None
        known = getattr(self._shell.history_manager, "exceptions", {})
        since = (each for each in self.runs() if each[0] > number)
        if any(each == source and n not in known for n, each in since):
            return None
        return number, failure_in(text).message

    def error(self, shown: str = "", source: str = "") -> str:
        """The last error with what is needed to fix it; empty if no cell has failed.

        `shown` is the traceback of an output to report instead, that of a cell with
        this `source`.
        """
        failure = self._failure(shown, source)
        if failure is None:
            return ""
        return error_report(failure, self.variables(), self.folder)

    def _failure(self, shown: str, source: str) -> Failure | None:
        """From the exception, which has most details, if the kernel still has it."""
        number, cell, told = self._last_traceback()
        error: BaseException | None = getattr(sys, "last_value", None)
        if isinstance(error, UsageError):
            error = None
        text = shown or told
        if error is not None and (not text or is_of(text, error)):
            return failure_of(error, self._cell_name)
        if not text:
            return None
        if shown:
            return failure_in(text, source=source)
        return failure_in(text, source=cell, number=number)

    def _last_traceback(self) -> tuple[int, str, str]:
        """The number of its cell, the source, the text; magics' errors have none.

        IPython before 9 keeps no tracebacks.
        """
        history: Any = self._shell.history_manager
        known = getattr(history, "exceptions", {})
        for number, failed in reversed(list(known.items())):
            if failed["ename"] != "UsageError":
                source = history.input_hist_raw[number]
                return number, source, "\n".join(failed["traceback"])
        return 0, "", ""

    def _cell_name(self, path: str) -> str:
        """The name of the cell whose code has this file name; empty for others."""
        named = getattr(self._shell.compile, "format_code_name", lambda _: None)(path)
        if named is not None:
            return f"cell {str(named[1]).removeprefix('In')}"
        is_cell = "ipykernel_" in path or path.startswith("<ipython-input")
        return "cell" if is_cell else ""


class RunningCell:
    """The cell that the kernel runs, as its shell reports it."""

    def __init__(self, shell: InteractiveShell) -> None:
        """Follow the shell until it is closed."""
        self._shell = shell
        self._changed = threading.Condition()
        self._began: float | None = None
        self.id = ""
        """Id of the cell; empty for code outside of cells."""
        shell.events.register("pre_run_cell", self._begin)
        shell.events.register("post_run_cell", self._end)

    @property
    def seconds(self) -> float | None:
        """Seconds that it has run; None if no cell runs."""
        began = self._began
        return None if began is None else time.monotonic() - began

    def wait(self, seconds: float) -> bool:
        """Wait for its end; True if no cell runs now."""
        with self._changed:
            return self._changed.wait_for(lambda: self._began is None, seconds)

    def close(self) -> None:
        """Stop following the shell."""
        self._shell.events.unregister("pre_run_cell", self._begin)
        self._shell.events.unregister("post_run_cell", self._end)

    def _begin(self, info: Any) -> None:
        self.id, self._began = getattr(info, "cell_id", None) or "", time.monotonic()

    def _end(self, _result: object) -> None:
        with self._changed:
            self._began = None
            self._changed.notify_all()


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
    """True if a cell sent a message or only showed the panel."""
    return not source.strip() or _FOR_CHAT.search(source) is not None


def own_variables(shell: InteractiveShell) -> Mapping[str, object]:
    """The user's variables, without those that IPython defines."""
    hidden, names = shell.user_ns_hidden, dict(shell.user_ns)
    return {k: v for k, v in names.items() if k not in hidden or hidden[k] is not v}
