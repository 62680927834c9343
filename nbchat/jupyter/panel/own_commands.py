"""The commands of a panel that is given none: the notebook's, on its own store."""

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nbchat.agent.agent import Agent
from nbchat.chat.runner import CommandOutcome

if TYPE_CHECKING:
    from nbchat.chat.commands import Commands
    from nbchat.storage.store import SessionStore


class OwnCommands:
    """What the notebook's chat knows, on the sessions of the settings' store."""

    def __init__(self) -> None:
        """Nothing is loaded or opened before somebody asks."""
        self._opening = threading.Lock()
        self._store: SessionStore | None = None

    def __call__(
        self, agent: Agent, line: str, *, stop: threading.Event | None = None
    ) -> CommandOutcome:
        """The outcome of a command; setting `stop` ends what it does."""
        return self._known()(agent, line, stop=stop)

    def branch(
        self, agent: Agent, place: int, text: str, **details: Any
    ) -> CommandOutcome:
        """Go on from an earlier message with other words."""
        return self._known().branch(agent, place, text, **details)

    def lines(self) -> Mapping[str, str]:
        """What each command takes and does."""
        return self._known().help_lines

    def store(self) -> "SessionStore":
        """Where the sessions are; one for the panel's whole life."""
        # Late: settings and store load while the panel can be seen already.
        from nbchat.config.settings import settings  # noqa: PLC0415
        from nbchat.storage.store import SessionStore  # noqa: PLC0415

        with self._opening:
            if self._store is None:
                self._store = SessionStore(settings().store_url)
            return self._store

    def _known(self) -> "Commands":
        # Late, as above.
        from nbchat.chat.commands import Commands  # noqa: PLC0415

        return Commands(self.store())
