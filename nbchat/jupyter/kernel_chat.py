"""The chat of one kernel: settings, store, agent and panel, each made at first need."""

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from nbchat.agent.agent import Agent
from nbchat.agent.approvals import Approvals, approvals_of
from nbchat.chat.attachments.attachments import attachments
from nbchat.chat.commands import Commands
from nbchat.chat.control_socket import ControlSocket
from nbchat.config.factory import build_agent, newest_session
from nbchat.config.live_changes import LiveSettings
from nbchat.config.settings import NbChat
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError
from nbchat.jupyter.cell_output import Conversation, announcing, show
from nbchat.jupyter.panel.chat_ui import ChatUI
from nbchat.jupyter.shell import ShellContents, own_variables
from nbchat.storage.store import SessionStore


class NotebookChat:
    """What `%chat` and `%%chat` talk to; panel and cells share one conversation."""

    def __init__(self, config: NbChat, shell: InteractiveShell | None = None) -> None:
        """Nothing is opened or loaded yet; of `shell` the variables are read."""
        self.config = config
        self._shell = shell
        self.store = SessionStore(config.store_url)
        self.live_settings = LiveSettings(
            self.store,
            config,
            namespace=self._namespace,
            changed=self._show_notifications,
        )
        self.commands = Commands(self.store, self.live_settings)
        self._agent: Agent | None = None
        self._panel: ChatUI | None = None
        self._building = threading.Lock()
        self._stop = threading.Event()
        self._control_socket = ControlSocket(self._stop_cell, self._approvals)
        config.observe(self._apply_settings, names=list(config.traits(config=True)))

    def agent(self) -> Agent:
        """The agent; the first call loads what it needs."""
        with self._building:
            if self._agent is None:
                self._agent = self._built(newest_session(self.store))
            return self._agent

    def panel(self) -> ChatUI:
        """The panel, on the one conversation of this kernel."""
        if self._panel is None:
            self._panel = ChatUI(
                build=self.agent,
                commands=self.commands,
                command_list=lambda: self.commands.help_lines,
                settings=lambda agent: self.live_settings.listed(agent.provider.name),
                branch=self.commands.branch,
                store=self.store,
                resolver=ShellContents(self._shell) if self._shell else None,
                notifies=self._notifies(),
            )
        return self._panel

    def conversation(self) -> Conversation:
        """All that was said, for a cell's output."""
        return Conversation(self.agent().session)

    def say(self, text: str) -> None:
        """One turn in the cell that called it; what it points at is told first."""
        stop = self._begin()
        contents = ShellContents(self._shell) if self._shell else None
        brought = attachments(text, contents) if contents else []
        agent = self.agent()
        for each in brought:
            size = agent.engine.tracker.counter.count_entry(each.entry)
            print(f"attached {each.mention.text}: {size:,} tokens")
        attached = [each.entry for each in brought]
        try:
            with announcing(self._approvals(), has_panel=self._panel is not None):
                show(agent.run(text, stop=stop, attached=attached), stop)
        finally:
            self._refresh_panel()

    def command(self, line: str) -> None:
        """A command, its answer printed."""
        stop = self._begin()
        try:
            result = self.commands(self.agent(), line, stop=stop)
            if result.text:
                print(result.text)
            show(result.events, stop)
        finally:  # what fails may have gone to another session before
            self._refresh_panel()

    def _notifies(self) -> bool:
        model = self._agent.provider.name if self._agent else ""
        return self.live_settings.in_force(model).notifications

    def _show_notifications(self, config: NbChat) -> None:
        if self._panel is not None:
            self._panel.notifies = config.notifications

    def _begin(self) -> threading.Event:
        """What ends the turn of the cell that runs: its interrupt, or the server."""
        self._refresh_panel()  # it shows what waits, and code may have set who asks
        self._stop = threading.Event()
        self._control_socket.open()
        return self._stop

    def _stop_cell(self, _token: str) -> None:
        self._stop.set()
        if (approvals := self._approvals()) is not None:
            approvals.wake()

    def _approvals(self) -> Approvals | None:
        return approvals_of(self._agent.approve) if self._agent is not None else None

    def _built(self, session: Session) -> Agent:
        return build_agent(
            self.config,
            session=session,
            store=self.store,
            namespace=self._namespace,
        )

    def _apply_settings(self, change: Mapping[str, Any]) -> None:
        """Follow a changed setting; `%config` shows the UsageError as one line."""
        with self._building:  # an agent that is being built has read the old settings
            agent = self._agent
        try:
            self.live_settings.follow(agent, change)
        except NbchatError as error:
            raise UsageError(str(error)) from None
        self._refresh_panel()

    @property
    def _namespace(self) -> Callable[[], Mapping[str, object]] | None:
        """The variables that a person has made."""
        return partial(own_variables, self._shell) if self._shell else None

    def _refresh_panel(self) -> None:
        """Let the panel show what a cell has changed."""
        if self._panel is not None and self._agent is not None:
            self._panel.refresh(self._agent)

    def close(self) -> None:
        """End the panel's thread and let the database go."""
        if self._panel is not None:
            self._panel.close()
        self._control_socket.close()
        self.config.unobserve_all()
        self.store.close()
