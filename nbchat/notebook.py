"""The chat of one kernel: settings, store, agent and panel, each made at first need."""

import threading
from typing import Any

from nbchat.agent import Agent
from nbchat.build import build_agent, newest_session
from nbchat.cell import show
from nbchat.commands import Commands
from nbchat.config import NbChat
from nbchat.store import SessionStore
from nbchat.ui.chat_ui import ChatUI


class NotebookChat:
    """What `%chat` and `%%chat` talk to; panel and cells share one conversation."""

    def __init__(self, config: NbChat) -> None:
        """Nothing is opened or loaded yet."""
        self.config = config
        self.store = SessionStore(config.store_url)
        self.commands = Commands(self.store)
        self._agent: Agent | None = None
        self._built_from: dict[str, Any] = {}
        self._panel: ChatUI | None = None
        self._building = threading.Lock()

    def agent(self) -> Agent:
        """The agent as set now; changed settings keep the conversation."""
        with self._building:
            wanted = self.config.trait_values(config=True)
            if self._agent is None or wanted != self._built_from:
                session = self._agent and self._agent.session
                self._agent = build_agent(
                    self.config,
                    session=session or newest_session(self.store),
                    store=self.store,
                )
                self._built_from = wanted
            return self._agent

    def panel(self) -> ChatUI:
        """The panel, on the one conversation of this kernel."""
        if self._panel is None:
            self._panel = ChatUI(build=self.agent, commands=self.commands)
        return self._panel

    def say(self, text: str) -> None:
        """One turn in the cell that called it."""
        stop = threading.Event()
        show(self.agent().run(text, stop=stop), stop)

    def command(self, line: str) -> None:
        """A command, its answer printed."""
        result = self.commands(self.agent(), line)
        if result.text:
            print(result.text)
        show(result.events)

    def close(self) -> None:
        """End the panel's thread and let the database go."""
        if self._panel is not None:
            self._panel.close()
        self.store.close()
