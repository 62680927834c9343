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
            cells[name] = asked["source"]
        return {"cells": [described(cells, name)]}


def described(cells: dict[str, str], name: str) -> dict[str, Any]:
    made = {"id": name, "short": name, "number": 1, "kind": "code", "count": None}
    return {**made, "source": cells[name], "states": [], "outputs": []}


def kept(cells: dict[str, str], name: str) -> dict[str, Any]:
    number = [*cells].index(name) + 1
    made = {"id": name, "number": number, "kind": "code", "source": cells[name]}
    made |= {"metadata": "{}", "attachments": "{}", "outputs": "[]"}
    return {**made, "above": "", "left_out": 0}
