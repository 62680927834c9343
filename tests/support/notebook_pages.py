"""A notebook's page that is no browser: its cells are sources by id."""

from typing import Any

from panel_protocol import check

from nbchat.jupyter.notebook_page import PageRequests
from nbchat.jupyter.panel.protocol import NotebookAnswer, received


class Page:
    """Tabs that show a notebook, each with sources of its own, by cell id."""

    def __init__(self, *tabs: str, **cells: str) -> None:
        self.tabs = {name: dict(cells) for name in tabs or ("tab",)}
        self.requests = PageRequests(self.hear, find_seconds=0.05)
        self.is_deaf = False

    @property
    def cells(self) -> dict[str, str]:
        """The cells of the first tab."""
        return next(iter(self.tabs.values()))

    def hear(self, asked: dict[str, Any]) -> None:
        check(asked, "notebook")
        for name, cells in self.tabs.items():
            if asked["action"] == "find" or asked["view"] == name:
                problem, found = "", dict[str, Any]()
                try:
                    found = self.act(cells, asked)
                except ValueError as error:
                    problem = str(error)
                answer = {
                    "type": "notebook_answer",
                    "token": asked["token"],
                    "view": name,
                    "problem": problem,
                    "cells": [],
                    "total": len(cells),
                    **found,
                }
                check(answer, "notebook_answer")
                heard = received(answer)
                assert isinstance(heard, NotebookAnswer)
                self.requests.receive(heard)

    def act(self, cells: dict[str, str], asked: dict[str, Any]) -> dict[str, Any]:
        name, change = asked.get("cell", ""), asked.get("change")
        if asked["action"] == "keep":
            if self.is_deaf:
                raise ValueError("the page is busy")
            return {"kept": [kept(cells, name)] if name in cells else []}
        if asked["action"] == "outline":
            return {"cells": [described(cells, each) for each in cells]}
        is_trial = asked.get("is_trial", asked["action"] == "read")
        if asked["action"] == "find" or (change == "insert" and is_trial):
            return {}
        is_undo = asked["action"] == "restore"
        if is_undo and cells.get(name) != asked["expected"]:
            raise ValueError("The cell has changed meanwhile. Try again.")
        name = "new" if change == "insert" and not is_undo else name
        return self.changed(cells, asked, name, is_trial=is_trial)

    def changed(
        self, cells: dict[str, str], asked: dict[str, Any], name: str, *, is_trial: bool
    ) -> dict[str, Any]:
        before = described(cells, name) if name in cells else None
        if not is_trial:
            change = asked["change"]
            if change == "delete":
                del cells[name]
                return {"cells": [before]}
            if change != "move":
                cells[name] = asked["source"]
            if change == "move" or (asked["action"] == "restore" and "after" in asked):
                place(cells, name, asked["after"])
        return {"cells": [described(cells, name)], "below": beside(cells, name)[1]}


def described(cells: dict[str, str], name: str) -> dict[str, Any]:
    made = {"id": name, "short": name, "number": 1, "kind": "code", "count": None}
    return {**made, "source": cells[name], "states": [], "outputs": []}


def kept(cells: dict[str, str], name: str) -> dict[str, Any]:
    number = [*cells].index(name) + 1
    made = {"id": name, "number": number, "kind": "code", "source": cells[name]}
    made |= {"metadata": "{}", "attachments": "{}", "outputs": "[]"}
    above, below = beside(cells, name)
    return {**made, "above": above, "below": below, "left_out": 0}


def beside(cells: dict[str, str], name: str) -> tuple[str, str]:
    """The cells above and below one; empty where there is none."""
    names = ["", *cells, ""]
    at = names.index(name)
    return names[at - 1], names[at + 1]


def place(cells: dict[str, str], name: str, above: str) -> None:
    """Move a cell below another, or to the top."""
    source, others = cells.pop(name), [*cells.items()]
    at = [*cells].index(above) + 1 if above else 0
    cells.clear()
    cells.update([*others[:at], (name, source), *others[at:]])
