"""What can be set from the panel: the settings somebody else knows, as a view's form.

The panel only shows them; a change is the command `/set`, which has the last word.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from nbchat.agent.agent import Agent
from nbchat.rendering.markdown import displayable


class Setting(Protocol):
    """Something a person can set, and what it is now."""

    @property
    def name(self) -> str:
        """What `/set` calls it."""

    @property
    def value(self) -> str:
        """What counts now; of a bool "true" or "false"."""

    @property
    def help(self) -> str:
        """What it does, in a sentence."""

    @property
    def kind(self) -> str:
        """One of choice, bool, int, float and text."""

    @property
    def origin(self) -> str:
        """Where the value comes from."""

    @property
    def choices(self) -> Sequence[str]:
        """What a choice is made of; empty for other kinds."""

    @property
    def scope(self) -> str | None:
        """For whom it was set, if it was: what `/set name default for` takes back."""


Settings = Callable[[Agent], Iterable[Setting]]
"""Tells what can be set, for the model an agent has now."""


def settings_list(agent: Agent, settings: Settings) -> dict[str, Any]:
    """The settings, and the names of the scopes a change can have."""
    model = displayable(agent.provider.name)
    return {
        "type": "settings_list",
        "settings": [_row(setting) for setting in settings(agent)],
        "provider": model.partition(":")[0],
        "model": model,
    }


def _row(setting: Setting) -> dict[str, Any]:
    texts = ("name", "value", "help", "kind", "origin")
    row: dict[str, Any] = {name: displayable(getattr(setting, name)) for name in texts}
    scope = None if setting.scope is None else displayable(setting.scope)
    return {**row, "choices": list(map(displayable, setting.choices)), "scope": scope}
