"""The chat panel of a notebook: `ChatUI`, a widget that streams one conversation.

    ui = ChatUI()      # shows itself as a cell's last line
    ui.ask("Hello")    # the same as typing it; returns at once
    ui.wait()          # until the answer is complete; interrupting the kernel stops it

Nothing of the conversation is in the widget's state, which notebooks save: it travels
in messages only, as the module `protocol` describes.
"""

import threading
from collections.abc import Callable, Collection, Iterable
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never, get_args

import anywidget
from IPython.display import display
from traitlets import Bool, Enum, Int, Unicode, observe

from nbchat.agent.agent import Agent
from nbchat.chat.attachments.mentions import Resolver
from nbchat.chat.chat_events import CellsUndone, ChatEvent
from nbchat.chat.chat_runner import ChatRunner, LoadAttachments
from nbchat.chat.commands import Commands
from nbchat.config.layers import settings
from nbchat.conversation.cell_changes import LeftCell
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError
from nbchat.jupyter.notebook_page import PageRequests
from nbchat.jupyter.panel import protocol
from nbchat.jupyter.panel.frontend import script, style
from nbchat.jupyter.panel.panel_state import PanelState, ViewSync
from nbchat.jupyter.panel.previews import Previews
from nbchat.jupyter.panel.protocol import (
    Allowed,
    Approve,
    AskAgain,
    Deny,
    Request,
    Said,
    UndoCells,
)
from nbchat.jupyter.panel.queries import Queries, answer_soon
from nbchat.jupyter.shell_contents import contents_of_notebook
from nbchat.storage.factory import build_agent, opened_store

if TYPE_CHECKING:
    from nbchat.jupyter.notebook_context import NotebookContext

PROTOCOL = 1
"""Version of the messages between kernel and view; a view refuses another one."""

STOP_SECONDS = 5.0
"""Time that an interrupted `wait` gives a turn to end."""

_FALLBACK_STYLE = """
.nbc-closed { animation: nbc-closed 3s step-end backwards; }
@keyframes nbc-closed { from { visibility: hidden; } }
.jp-OutputArea-child:has(> .jp-OutputArea-output > .lm-Widget > .nbc)
  + .jp-OutputArea-child:has(> .jp-OutputArea-output > .nbc-closed),
.jp-OutputArea-child:not(:has(> .jp-OutputArea-output > .lm-Widget > .nbc)):has(
  + .jp-OutputArea-child > .jp-OutputArea-output > .nbc-closed) {
  display: none;
}
"""
# Hidden for three seconds, until the panel is drawn. By `>` the browser need not search
# a whole conversation at each new word.

FALLBACK_TEXT = "This chat is closed. To open it, run this in one cell:"

FALLBACK_CODE = "%load_ext nbchat\n%chat"
"""Code that opens the chat alone, also after a restart of the kernel."""


class ChatUI(anywidget.AnyWidget):
    """A chat in a notebook; one conversation, shown in as many views as you like."""

    _esm = script()
    _css = style()

    height = Unicode("480px", help="Height of the panel, a CSS length.").tag(sync=True)
    theme = Enum(
        ["auto", "light", "dark"],
        "auto",
        help="Colors of the panel; auto follows the notebook's.",
    ).tag(sync=True)
    protocol = Int(PROTOCOL, help="Version of the panel's messages.").tag(sync=True)
    notifies = Bool(
        default_value=True,
        help="Whether automatic compactions show a banner; failed ones always do.",
    )
    offers_cells = Bool(
        default_value=None,
        allow_none=True,
        help="Whether the model may use the notebook's cells; None: no menu entry.",
    )
    allowed = Enum(
        get_args(Allowed),
        "ask",
        help="What the model does in the notebook without asking.",
    )
    _is_shown = False
    """True if a cell has shown the panel and no view has opened since."""

    def __init__(
        self,
        agent: Agent | None = None,
        *,
        build: Callable[[], Agent] | None = None,
        commands: Commands | None = None,
        resolver: Resolver | None = None,
        notebook: "NotebookContext | None" = None,
        runner: ChatRunner | None = None,
        undo_cells: Callable[..., Iterable[LeftCell]] | None = None,
        height: str = "480px",
        theme: str = "auto",
        notifies: bool = True,
    ) -> None:
        """Without an agent `build` makes one when the panel is first shown or used.

        Without `commands` they, their settings and their store are the notebook's,
        opened when first used. `resolver` resolves `@name`, by default in the notebook.
        A `runner` brings the agent; it runs on when the panel is closed. `undo_cells`
        undoes what a turn changed in the notebook, and `notebook` is the context about
        it in each request.
        """
        super().__init__(height=height, theme=theme)
        self._opening = threading.Lock()
        self._given = commands
        self._resolver = resolver or contents_of_notebook()
        self._previews = Previews(self._resolver)
        self._undo_cells = undo_cells
        self._queries = Queries(
            self._previews, self._commands, self._resolver, self.refresh, notebook
        )
        self._owns_runner = runner is None
        build = (
            (lambda: agent)
            if agent is not None
            else build or partial(build_agent, connects_later=True)
        )
        self._runner = runner or ChatRunner(build, commands=self._run)
        self._connect()
        self.notifies = notifies

    def _connect(self) -> None:
        """Show what the runner does in every view, and receive the views' messages."""
        self._state = PanelState(chat_id=self._runner.chat_id)
        self._sync = ViewSync(self._state, self.send)
        self.page = PageRequests(self.send)
        """Requests to the page that shows the panel in its notebook."""
        self._show = partial(self._sync.change, self._state.fold)
        self._runner.listen(self._show)
        self.on_msg(_receive)
        _route_to_sender(self.comm)

    def __repr__(self) -> str:
        """The same in every run, so that saved notebooks compare equal."""
        return "ChatUI()"

    def _ipython_display_(self) -> None:
        """Show the panel, and a line of HTML for where no kernel draws the panel.

        JupyterLab shows "model not found" or "Loading widget..." for a widget without
        its kernel, whatever else its output holds. So the line is an output of its own,
        which a panel hides. It is the same in every run.
        """
        bundle, _metadata = self._repr_mimebundle_() or ({"text/plain": repr(self)}, {})
        code = f"<pre>{FALLBACK_CODE}</pre>"
        line = f'<div class="nbc-closed">{FALLBACK_TEXT}{code}</div>'
        self._is_shown = True
        html = f"<style>{_FALLBACK_STYLE}</style>{line}"
        display(bundle, raw=True)  # type: ignore[no-untyped-call]
        display({"text/html": html}, raw=True)  # type: ignore[no-untyped-call]

    @property
    def agent(self) -> Agent:
        """The agent that answers here; built now if it was not needed before."""
        return self._runner.agent

    @property
    def session(self) -> Session:
        """The conversation."""
        return self.agent.session

    @property
    def is_busy(self) -> bool:
        """True while a turn runs or a message is queued."""
        return self._runner.is_busy

    def ask(self, text: str) -> None:
        """Send a message; returns at once while the answer streams into the panel."""
        self._runner.submit(text, self._attachments(text, (), ()))

    def compact(
        self, focus: str = "", keep: int | None = None, upto: int | None = None
    ) -> None:
        """Compact the conversation; `focus` names what matters most.

        `keep` is how many tokens of the newest messages stay word for word; None leaves
        that to the policy. `upto` is the position of the last message to compact.
        """
        self._runner.submit_action(
            f"/compact {focus}".strip(),
            lambda agent, stop: agent.compact(
                focus=focus, keep=keep, upto=upto, stop=stop
            ),
        )

    def stop(self) -> None:
        """Stop the turn that runs; the partial answer is kept."""
        self._runner.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until nothing runs; False if that takes more than `timeout` seconds.

        Interrupting the kernel here is the same as pressing Stop.
        """
        try:
            return self._runner.wait(timeout)
        except KeyboardInterrupt:
            self._runner.stop()
            return self._runner.wait(STOP_SECONDS)

    def refresh(self, agent: Agent | None = None) -> None:
        """Show the conversation as it is now, after a cell changed it.

        Another `agent` answers from the next message on.
        """
        self._runner.refresh(agent)

    def close(self) -> None:
        """Stop the turn, and close the threads and every view."""
        if self._owns_runner:
            self._runner.close()
        else:
            self._runner.stop()
            self._runner.listen(None)
        self._sync.close()
        super().close()

    def receive(self, content: object) -> None:
        """Act on a message of a view; one that the protocol does not know is ignored.

        This may run while a cell does, so it returns at once.
        """
        self._sync.reply_here()
        match protocol.received(content):
            case protocol.Hello(view):
                self.page.begin_with(view)
                is_new, self._is_shown = self._is_shown, False
                self._sync.show(is_new=is_new)
                self._runner.warm_up()
            case protocol.Resync():
                self._sync.show()
            case protocol.Earlier(token, before):
                self._sync.show_earlier(token, before)
            case protocol.Question() as question:
                answer_soon(self._queries, lambda: self.agent, question, self.send)
            case protocol.NotebookAnswer() as answer:
                self.page.receive(answer)
            case None:
                pass
            case request:
                self._act(request)

    def _act(self, request: Request) -> None:
        """Do what a user asks for."""
        match request:
            case protocol.Stop(token):
                self._runner.stop(token)
            case Approve() | Deny() | AskAgain():
                self._decide(request)
            case protocol.Withdraw(index, text, is_edit):
                self._runner.withdraw(index, text, is_returned=is_edit)
            case protocol.UndoCells():
                self._undo_soon(request)
            case protocol.Compact(focus, keep, upto):
                self.compact(focus, keep, upto)
            case protocol.Send() | protocol.Branch():
                self._say(request)
            case _:
                assert_never(request)

    def _decide(self, request: Approve | Deny | AskAgain) -> None:
        approvals = self._runner.approvals
        match request:
            case Approve(ticket, is_always, view, in_turn, draft):
                self.page.stay_with(view)
                approvals.decide(
                    lambda asked: asked.approve(
                        ticket, always=is_always, turn=in_turn, draft=draft
                    )
                )
            case Deny(ticket, reason):
                approvals.decide(lambda asked: asked.deny(ticket, reason))
            case AskAgain():
                self.allowed = "ask"

    def _undo_soon(self, asked: UndoCells) -> None:
        """Undo changes of cells on a thread: the view answers to this one."""
        if self._undo_cells is None:
            return
        undo = partial(self._undo_cells, asked.turn, cell=asked.cell, view=asked.view)

        def run() -> None:
            left, problem = tuple[LeftCell, ...](), ""
            try:
                left = tuple(undo())
            except NbchatError as error:
                problem = str(error)
            self._show(CellsUndone(asked.turn, left, problem))

        thread = threading.Thread(
            target=copy_context().run, args=(run,), name="nbchat-undo", daemon=True
        )
        thread.start()

    def _say(self, said: Said) -> None:
        """Send a message, or replace an earlier one by another text."""
        if not said.text.strip():
            return
        self.page.stay_with(said.view)
        attachments = self._attachments(said.text, said.previews, said.pasted)
        if isinstance(said, protocol.Send):
            self._runner.submit(said.text, attachments, pasted=said.pasted)
            return
        self._runner.submit_action(
            said.text,
            lambda agent, stop: self._commands().branch(
                agent,
                said.position,
                said.text,
                attached=tuple(attachments()),
                pasted=said.pasted,
                stop=stop,
            ),
            position=said.position,
        )

    def _commands(self) -> Commands:
        """The chat's commands; the notebook's own are opened when first used."""
        with self._opening:
            if self._given is None:
                self._given = Commands(opened_store(settings()))
            return self._given

    def _run(
        self, agent: Agent, line: str, stop: threading.Event
    ) -> Iterable[ChatEvent]:
        """Run a command."""
        return self._commands()(agent, line, stop)

    def _attachments(
        self, text: str, previews: Collection[str], pasted: Collection[str]
    ) -> LoadAttachments:
        """Attachments of a text, as its author saw them; loaded during the turn."""
        if self._resolver is None:
            return tuple
        return partial(self._previews.entries, text, previews, pasted)

    @observe("notifies")
    def _apply_notifies(self, _change: object) -> None:
        self._sync.change(self._state.set_notifies, notifies=self.notifies)

    @observe("offers_cells", "allowed")
    def _apply(self, change: Any) -> None:
        self._sync.change(self._state.set, **{change.name: change.new})


def _receive(panel: ChatUI, content: dict[str, Any], _buffers: object) -> None:
    panel.receive(content)


def _route_to_sender(comm: Any) -> None:
    """Have ipykernel 7.4 deliver a click to the subshell that its page names.

    By itself it chooses the subshell that the panel's last message replied to. That one
    ends with its tab, and clicks would be lost; a cell that changes the panel replies
    to none, and clicks would wait for its end.
    """
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda _data, sent_to: sent_to  # noqa: SLF001
