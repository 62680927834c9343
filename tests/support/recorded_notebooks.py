"""Recorded analyses as a model does them with nbchat's own tools for notebooks.

Each cell that was run becomes a call of edit_notebook, which inserts it below the last
one and runs it. Its result is what the real tool returns of the recorded output: the
place and the id of the cell, and what fits of the output.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from nbchat.jupyter.notebook_page import PageRequests
from nbchat.jupyter.notebook_tools import NotebookTools
from nbchat.jupyter.panel.protocol import CellOutput, NotebookAnswer, NotebookCell


class RecordedPage:
    """A notebook's page that puts out what was recorded."""

    def __init__(self) -> None:
        self.requests = PageRequests(self.hear)
        self.cells: list[NotebookCell] = []
        self.output: CellOutput | None = None
        """Of the cell that runs next."""

    @property
    def last(self) -> str:
        """The id of the last cell; empty without one."""
        return self.cells[-1].id if self.cells else ""

    def hear(self, asked: dict[str, Any]) -> None:
        answered = NotebookAnswer(
            asked["token"], "page", "", tuple(self.act(asked)), total=len(self.cells)
        )
        self.requests.receive(answered)

    def act(self, asked: dict[str, Any]) -> Sequence[NotebookCell]:
        """Insert a cell at the end, or run it: the tool asks for no more here."""
        if asked["action"] == "edit" and not asked["is_trial"]:
            self.cells.append(self.cell(asked["source"], None))
        elif asked["action"] == "run":
            self.cells[-1] = self.cell(self.cells[-1].source, self.output)
        return self.cells[-1:]

    def cell(self, source: str, output: CellOutput | None) -> NotebookCell:
        number = len(self.cells) + (output is None)
        name = f"{number * 2654435761 % 2**32:08x}"  # as random as a notebook's ids
        count, outputs = (number, (output,)) if output else (None, ())
        return NotebookCell(
            name, name, number, "code", source, count, states=(), outputs=outputs
        )


def by_our_tools(messages: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The messages of an analysis, with our calls and their results."""
    page = RecordedPage()
    edit = NotebookTools(lambda: page.requests).edit_notebook
    results = {e["tool_call_id"]: e for e in messages if e["role"] == "tool"}
    made = dict[str, object]()
    for message in messages:
        calls = []
        for call in message.get("tool_calls") or ():
            recorded = results[call["id"]]
            kind = "error" if recorded["is_error"] else "text"
            page.output = CellOutput(kind, recorded["tool_result"])
            args = {"change": "insert", "after": page.last}
            args |= {"source": call["args"]["code"], "run": True}
            made[call["id"]] = edit(**args)
            calls.append({**call, "name": "edit_notebook", "args": args})
        if message["role"] == "tool":
            made_now = str(made[message["tool_call_id"]])
            yield {**message, "name": "edit_notebook", "tool_result": made_now}
        else:
            yield {**message, "tool_calls": calls}
