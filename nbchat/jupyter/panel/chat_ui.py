"""The chat panel of a notebook: `ChatUI`, a widget that streams one conversation.

    ui = ChatUI()      # shows itself as a cell's last line
    ui.ask("Hello")    # the same as typing it; returns at once
    ui.wait()          # until the answer is there; interrupting the kernel stops it

Nothing of the conversation is in the widget's state, which notebooks save: it travels
in messages only, as `protocol.json` describes.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import anywidget
from traitlets import Bool, Enum, Int, Unicode, observe

from nbchat.agent.agent import Agent
from nbchat.chat.attachments.mentions import Resolver
from nbchat.chat.control_socket import new_chat_id
from nbchat.chat.runner import ChatRunner, Commands, LoadAttachments
from nbchat.conversation.session import Session
from nbchat.jupyter.panel.frontend import script, style
from nbchat.jupyter.panel.own_commands import OwnCommands
from nbchat.jupyter.panel.queries.answers import Answers
from nbchat.jupyter.panel.queries.branching import Branch, other_way
from nbchat.jupyter.panel.queries.completing import CommandList
from nbchat.jupyter.panel.queries.previews import Previews
from nbchat.jupyter.panel.queries.questions import Questions, amount
from nbchat.jupyter.panel.queries.sessions import Store
from nbchat.jupyter.panel.queries.settings import Settings
from nbchat.jupyter.panel.static_fallback import show
from nbchat.jupyter.panel.view_model.screen import Screen
from nbchat.jupyter.panel.view_sync import Feed

PROTOCOL = 1
"""Version of the messages between kernel and view; a view refuses another one."""

STOP_SECONDS = 5.0
"""How long an interrupted `wait` gives a turn to end."""


class ChatUI(anywidget.AnyWidget):
    """A chat in a notebook; one conversation, shown in as many views as you like."""

    _esm = script()
    _css = style()

    height = Unicode("480px", help="Height of the panel, a CSS length.").tag(sync=True)
    theme = Enum(
        ["auto", "light", "dark"],
        "auto",
        help="Colours of the panel; auto follows the notebook's.",
    ).tag(sync=True)
    protocol = Int(PROTOCOL, help="Version of the panel's messages.").tag(sync=True)
    notifies = Bool(
        default_value=True,
        help="Whether automatic compactions have a banner; one that fails always has.",
    )

    def __init__(
        self,
        agent: Agent | None = None,
        *,
        build: Callable[[], Agent] | None = None,
        commands: Commands | None = None,
        command_list: CommandList | None = None,
        settings: Settings | None = None,
        resolver: Resolver | None = None,
        branch: Branch | None = None,
        store: Store | None = None,
        height: str = "480px",
        theme: str = "auto",
        notifies: bool = True,
    ) -> None:
        """Without an agent `build` makes one when the panel is first seen or asked.

        `commands` obeys messages that begin with a slash; without it those that the
        notebook's chat knows, on the sessions of the settings' store. `command_list`
        tells which those are, `settings` what the gear offers; without it there is no
        gear. `resolver` knows what `@name` stands for; without it nothing. `branch`
        goes on from an earlier message and `store` has the sessions to go back to;
        without both there are those of the settings' store, unless there are
        `commands`.
        """
        super().__init__(height=height, theme=theme)
        self._previews = Previews(resolver)
        own = OwnCommands()
        self._branch = branch or (None if commands else own.branch)
        self._questions = Questions(
            self._previews,
            command_list or (dict if commands else own.lines),
            settings,
            _store_of(store, None if commands else own.store),
            resolver,
        )
        build = (lambda: agent) if agent is not None else build or _default_agent
        self._connect(build, commands or own)
        self.notifies = notifies

    def _connect(self, build: Callable[[], Agent], commands: Commands) -> None:
        """Join what works to what shows it, under a name that nothing else has."""
        chat_id = new_chat_id()
        screen = Screen(
            chat_id=chat_id,
            settings=self._questions.settings is not None,
            sessions=self._questions.store is not None,
            branches=self._branch is not None,
        )
        self._feed = Feed(screen, self.send)
        self._runner = ChatRunner(
            build, self._feed.put, commands=commands, chat_id=chat_id
        )
        self._answers = Answers(lambda: self.agent, self.send)
        self.on_msg(_receive)
        _hear_where_sent(self.comm)

    def __repr__(self) -> str:
        """The same in every run, so that saved notebooks compare equal."""
        return "ChatUI()"

    def _ipython_display_(self) -> None:
        """Show the panel, and the line that stands for it where none can be."""
        bundle, _metadata = self._repr_mimebundle_() or ({"text/plain": repr(self)}, {})
        show(bundle)

    @property
    def agent(self) -> Agent:
        """What answers here; built now if nobody needed it before."""
        return self._runner.agent

    @property
    def session(self) -> Session:
        """The conversation."""
        return self.agent.session

    @property
    def is_busy(self) -> bool:
        """Whether an answer is under way or a message waits."""
        return self._runner.is_busy

    def ask(self, text: str) -> None:
        """Say something; the answer streams into the panel while this returns."""
        self._submit(text, [])

    def compact(self, focus: str = "", keep: int | None = None) -> None:
        """Compact the conversation; `focus` names what matters most.

        `keep` is how many tokens of the newest messages stay word for word; None leaves
        that to the policy.
        """
        self._runner.compact(focus, keep)

    def stop(self) -> None:
        """End the answer under way; what has arrived is kept."""
        self._runner.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the answer is there; False after `timeout` seconds without.

        Interrupting the kernel here is the same as pressing Stop.
        """
        try:
            return self._runner.wait(timeout)
        except KeyboardInterrupt:
            self._runner.stop()
            return self._runner.wait(STOP_SECONDS)

    def refresh(self, agent: Agent | None = None) -> None:
        """Show the conversation as it is now, after something else changed it.

        Another `agent` takes over from the next message on.
        """
        self._runner.refresh(agent)

    def close(self) -> None:
        """End the answer, the threads and every view."""
        self._runner.close()
        self._feed.close()
        super().close()

    def receive(self, content: dict[str, Any]) -> None:
        """Do what a view asks; anything the protocol does not know is ignored.

        This may run while a cell does, so it only hands things over.
        """
        self._feed.answer_here()
        match content:
            case {"type": "hello"}:
                self._feed.show()
                self._runner.warm_up()
            case {"type": "resync", "seq": int(known)}:
                self._feed.show(known=known)
            case {"type": "stop"}:
                self._runner.stop(_text(content.get("token")))
            case {"type": "approve" | "deny", "ticket": str(ticket)}:
                self._decide(ticket, content)
            case {"type": str(name), "token": str(token)}:
                self._take_question(token, name, content)
            case _:
                self._take_work(content)

    def _take_work(self, content: dict[str, Any]) -> None:
        """Let something wait in line for its turn."""
        match content:
            case {"type": "send", "text": str(text)} if text.strip():
                self._submit(text, content.get("previews"))
            case {"type": "branch", "place": int(place), "text": str(text)}:
                self._go_on_from(place, text, content.get("previews"))
            case {"type": "compact", **details}:
                self._runner.compact(*_wish(details))

    def _go_on_from(self, place: int, text: str, previews: object) -> None:
        """Say something else at a place that was said before."""
        if text.strip() and self._branch is not None:
            attach = self._attaching(text, previews)
            self._runner.do(text, other_way(self._branch, place, text, attach))

    def _decide(self, ticket: str, content: dict[str, Any]) -> None:
        """Let a call run, or not; nothing if it was decided before."""
        if content["type"] == "deny":
            self._runner.approvals.deny(ticket)
        else:
            is_always = content.get("always") is True
            self._runner.approvals.approve(ticket, always=is_always)

    def _take_question(self, token: str, name: str, content: dict[str, Any]) -> None:
        match name, content:
            case "earlier", {"before": int(before)}:
                self._feed.show_earlier(token, before)
            case _ if question := self._questions.asked(name, content):
                self._answers.ask(token, question)

    def _submit(self, text: str, previews: object) -> None:
        """Say something, with what its author has seen of what it brings along."""
        self._runner.submit(text, self._attaching(text, previews))

    def _attaching(self, text: str, previews: object) -> LoadAttachments:
        keys = previews if isinstance(previews, list) else []
        return partial(self._previews.entries, text, keys)

    @observe("notifies")
    def _tell_notifies(self, _change: object) -> None:
        self._feed.change(lambda screen: screen.set_notifies(notifies=self.notifies))


def _wish(details: dict[str, Any]) -> tuple[str, int | None]:
    """Focus and tokens to keep, as far as a view has said them."""
    return _text(details.get("focus")), amount(details.get("keep"))


def _text(value: object) -> str:
    """What a view gave as a text, if it is one."""
    return value if isinstance(value, str) else ""


def _receive(panel: ChatUI, content: dict[str, Any], _buffers: object) -> None:
    panel.receive(content)


def _hear_where_sent(comm: Any) -> None:
    """Have ipykernel 7.4 deliver a click where its page sends it.

    By itself it chooses the subshell that the panel's last message answered to. That
    one ends with its tab, and no click would be heard any more; a cell that changes the
    panel answers to none, and clicks would wait for its end.
    """
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda _data, sent_to: sent_to  # noqa: SLF001


def _default_agent() -> Agent:
    # Late: settings, store and providers load while the panel can be seen already.
    from nbchat.config.factory import build_agent  # noqa: PLC0415

    return build_agent()


def _store_of(
    store: Store | None, own: Callable[[], Store] | None
) -> Callable[[], Store] | None:
    """Where the sessions are that can be gone back to; None where there are none."""
    return own if store is None else lambda: store
