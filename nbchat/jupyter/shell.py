"""What stands in an IPython shell: variables, cells that ran, the last traceback."""

import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from nbchat.chat.attachments.mentions import Cell
from nbchat.chat.attachments.value_preview import brief


class ShellContents:
    """What names stand for in a shell; reads, and never runs anything."""

    def __init__(self, shell: InteractiveShell) -> None:
        """Look at `shell` anew whenever something is asked."""
        self._shell = shell

    @property
    def folder(self) -> Path:
        """The kernel's folder, which is the notebook's unless somebody changed it."""
        return Path.cwd()

    def variables(self) -> Mapping[str, object]:
        """The person's variables as they are now."""
        return own_variables(self._shell)

    def cell(self, number: int | None) -> Cell | None:
        """A cell by its number, or the last one that did not talk to the chat."""
        history = self._shell.history_manager
        sources = history.input_hist_raw[:] if history is not None else []
        if number is None:
            places = range(len(sources) - 1, 0, -1)
            number = next((n for n in places if not _is_talk(sources[n])), 0)
        if not 0 < number < len(sources):
            return None
        return Cell(number, sources[number], _output(history, number))

    def error(self) -> str:
        """The last traceback; what a magic said in one line is none."""
        known = getattr(self._shell.history_manager, "exceptions", {})
        for failed in reversed(list(known.values())):
            if failed["ename"] != "UsageError":
                return "\n".join(failed["traceback"])
        last = getattr(sys, "last_value", None)  # IPython before 9 keeps no texts
        is_new = last is not None and not isinstance(last, UsageError)
        return "".join(traceback.format_exception(last)) if is_new else ""


def _output(history: Any, number: int) -> str:
    """What a cell has shown as text: printed, displayed, or as its value."""
    if not hasattr(history, "outputs"):  # IPython before 9 keeps the value alone
        values = history.output_hist
        return brief(values[number]) if number in values else ""
    shown = []
    for each in list(history.outputs.get(number, ())):
        text = each.bundle.get("stream", each.bundle.get("text/plain", ""))
        shown.append(text if isinstance(text, str) else "".join(text))
    return "\n".join(text.rstrip("\n") for text in shown if text)


def _is_talk(source: str) -> bool:
    """Whether a cell speaks to the chat, or has only shown its panel."""
    lines = source.strip().splitlines()
    is_said = bool(lines) and lines[0].startswith("%%chat")
    return not lines or is_said or any(line.split()[:1] == ["%chat"] for line in lines)


def own_variables(shell: InteractiveShell) -> Mapping[str, object]:
    """The user's variables, without what IPython put there itself."""
    given, own = shell.user_ns_hidden, dict(shell.user_ns)
    return {k: own[k] for k in own if k not in given or given[k] is not own[k]}
