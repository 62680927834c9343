"""The chat of one kernel, shared by `%chat`, `%%chat` and the panel.

What its messages attach is printed before the answer.
"""

import os
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import comm
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from nbchat.agent.agent import Agent
from nbchat.agent.approvals import Approvals, PendingCall, approvals_of
from nbchat.agent.live_output import CellOutput, is_watched
from nbchat.chat.attachments.attachments import (
    Attachment,
    load_mentions,
    unknown_names,
)
from nbchat.chat.attachments.mentions import Cell, Mention, mentions
from nbchat.chat.attachments.value_preview import truncated
from nbchat.chat.chat_events import ChatEvent, RulesOffered
from nbchat.chat.chat_runner import Action, ChatRunner
from nbchat.chat.commands import Commands
from nbchat.chat.live_changes import LiveSettings
from nbchat.chat.project_rules import ProjectRules
from nbchat.config.settings import NbChat
from nbchat.conversation.cell_changes import LeftCell
from nbchat.conversation.entries import Entry
from nbchat.conversation.pastes import prompt_entry, typed_text
from nbchat.conversation.session import Session
from nbchat.conversation.tools import Tool, effect_of
from nbchat.conversation.turns import ends_with_answer
from nbchat.errors import ConfigError, NbchatError, StoreError
from nbchat.jupyter.cell_output import (
    Conversation,
    KeptTranscript,
    RetryButton,
    known_notebook,
    show,
)
from nbchat.jupyter.notebook_context import (
    NotebookContext,
    Outline,
    cell_at,
    outline_of,
)
from nbchat.jupyter.notebook_mcp import ACTION, SharedNotebook
from nbchat.jupyter.notebook_page import NO_PAGE
from nbchat.jupyter.notebook_tools import NotebookTools
from nbchat.jupyter.notebook_undo import NotebookUndo
from nbchat.jupyter.panel.chat_ui import ChatUI
from nbchat.jupyter.panel.protocol import Allowed
from nbchat.jupyter.panel.queries import FIX
from nbchat.jupyter.shell_contents import (
    RunningCell,
    ShellContents,
    own_variables,
)
from nbchat.providers.base import user_text
from nbchat.rendering.arguments import with_invisibles_escaped
from nbchat.rendering.plain_text import terminal_text
from nbchat.storage.factory import (
    NOTEBOOK_ID,
    build_agent,
    expire_sessions,
    newest_session,
    notebook_name,
    opened_store,
)

RULES_LINES = 20
"""Lines of a rules file that a cell shows: a screen has about fifty."""

RULES_FOUND = "{} in this project has rules for the model:"

RULES_ANSWER = (
    "They aren't used yet. Use them with %chat /rules use, or ignore them with "
    "%chat /rules ignore."
)

BESIDE_TARGET = "nbchat-side"
"""Comm target of the JupyterLab extension."""

HOW_TO_OPEN_BESIDE = (
    "The chat opens beside the notebook in JupyterLab and Notebook 7, if nbchat is "
    "installed where their server runs. Anywhere else, run %chat."
)

OPENED_BESIDE = "The chat is open beside the notebook."

ASK_CONTEXT = "Share the outline of this notebook with {}, too? [y/N] "

ALLOWED: dict[str, str] = {
    "ask": "The model asks before it changes or runs a cell.",
    "edits": "The model changes cells of this notebook without asking, and asks before "
    "it runs one. /allow ask ends that.",
    "all": "The model changes and runs cells of this notebook without asking. "
    "/allow ask ends that.",
}

PLAN = (
    "{}\n\nPlan first: read what you need, then call propose_changes once, with all "
    "changes. I approve them together."
)

IDENTIFY_TRIES = 20
"""Number of requests for the notebook's id, over a minute in all."""


class KernelChat:
    """Settings, store, runner and panel of the chat that cells and the panel share."""

    _panel: ChatUI | None = None
    _restored = 0
    """Messages of the session that this kernel has continued."""

    def __init__(self, config: NbChat, shell: InteractiveShell | None = None) -> None:
        """Open nothing yet; messages may attach the variables of `shell`."""
        self.config = config
        self.store = opened_store(config)
        self._shell = shell
        self._contents = ShellContents(shell) if shell else None
        self._context_mode = config.notebook_context
        self.context = self._known_notebook()
        self._asked_for: set[str] = set()
        """Providers for which the person was asked to share the notebook."""
        self._namespace = partial(self._remembered, shell) if shell else None
        self.live_settings = LiveSettings(
            self.store,
            config,
            namespace=self._namespace,
            changed=self._follow_settings,
        )
        self.commands = Commands(self.store, self.live_settings)
        self._uses_rules = config.rules_files
        self._rules = ProjectRules(
            self.store, is_on=lambda: self._uses_rules, offer=self._offer_rules
        )
        self.commands.rules = self._rules
        self._kept = KeptTranscript()
        self.commands.redacted = self._redacted
        self.runner = ChatRunner(
            self._built, commands=self.commands, prepare=self._reread
        )
        self.runner.opening = self._opening
        self.notebook = NotebookTools(
            lambda: self.panel().page,
            is_in_cell=lambda: self._is_in_cell,
            session=lambda: self.runner.agent.session,
            contents=self._contents,
            running=RunningCell(shell) if shell else None,
        )
        self._undo = NotebookUndo(
            lambda: self.panel().page, lambda: self.runner.agent.session
        )
        self._serve_notebook()
        self._allowed: Allowed = "ask"
        self.commands.allow = self._allow
        self.commands.plan_changes = self._plan_changes
        self._is_in_cell = False
        """True while a cell's turn runs."""
        self._turns: dict[str, tuple[Session, int]] = {}
        """Session and position of the message that each cell has sent, by cell id."""
        config.observe(self._apply_settings, names=list(config.traits(config=True)))

    @property
    def agent(self) -> Agent:
        """The agent; the first use loads what it needs."""
        return self.runner.agent

    def panel(self) -> ChatUI:
        """The panel of this kernel's conversation; another one after it was closed."""
        if self._panel is None or self._panel.comm is None:
            self._panel = ChatUI(
                runner=self.runner,
                commands=self.commands,
                notebook=self.context,
                resolver=self._contents,
                undo_cells=self._undo_cells,
                notifies=self._in_force().notifications,
            )
            self._panel.offers_cells = self._in_force().notebook_tools
            self._panel.allowed = self._allowed
            self._panel.observe(self._allowed_by_panel, "allowed")
            if (agent := self.runner.built_agent) is not None:
                self._rules.look(agent)
                self._rules.offer_again()
            if self.config.notebook_identity and notebook_name():
                threading.Thread(
                    target=self._identify, name="nbchat-identify", daemon=True
                ).start()
        return self._panel

    def _identify(self) -> None:
        """Read the id of the notebook from its page, once there is one."""
        for _ in range(IDENTIFY_TRIES):
            with suppress(NbchatError):
                found = self.panel().page.identify(uuid.uuid4().hex)
                break
        else:
            return
        os.environ[NOTEBOOK_ID] = found
        agent = self.runner.built_agent
        if agent is not None and agent.autosave is not None:
            agent.autosave.identify_notebook(found)

    @staticmethod
    def show_beside() -> None:
        """Ask the page to open the chat beside the notebook.

        A line says what to do, until the page answers that it is open.
        """
        line = display({"text/plain": HOW_TO_OPEN_BESIDE}, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        asked = comm.create_comm(target_name=BESIDE_TARGET)
        opened = {"text/plain": OPENED_BESIDE}
        asked.on_msg(lambda _answer: line.update(opened, raw=True))

    def conversation(self) -> Conversation:
        """The whole conversation, for the output of a cell."""
        return Conversation(self.agent.session)

    def keep_transcript(self) -> None:
        """Show the conversation in this cell, and write it again after each turn."""
        if self._shell is None:
            raise NbchatError("A transcript can only be kept in a notebook.")
        self._kept.begin(self._shell.display_pub, self.agent.session)
        self.runner.on_turn_end = lambda agent: self._kept.write(agent.session)

    def _opening(self, agent: Agent) -> str:
        """Say that another model continues the chat; printed without a panel."""
        line = other_model_line(agent.session, agent.provider.name)
        if line and self._panel is None:
            print(terminal_text(line))
        return line

    def _redacted(self, agent: Agent, text: str) -> str:
        """Remove a text from the kept transcript; says if the file still has it."""
        path = Path(notebook_name() or "-")
        return self._kept.without(text, agent.session, path)

    def send(self, text: str, *, cell_id: str = "") -> None:
        """Answer a message in the cell that called this.

        A cell that has sent one before replaces its turn and all that followed: they
        stay in a session of their own, as after any edit of a message.
        """
        if cell_id and not self._turns:
            self._find_turn(cell_id, text)
        session, position = self._turns.get(cell_id, (None, 0))
        self._ask_about_context()
        try:
            if session is not None and session is self.agent.session:
                action = self._replacing(position, text)
                self._show(self.runner.run_action(text, action))
            else:
                loading = partial(self._attachments, text)
                live = is_watched() or self._panel is not None
                events = self.runner.run_message(
                    text, loading, live=live, from_cell=True
                )
                self._show(events)
        finally:
            self._note_turn(cell_id, text)

    def _find_turn(self, cell_id: str, text: str) -> None:
        """Find the turn of a cell from before the kernel was restarted.

        Else *Run All* would have each of its turns twice.
        """
        session = self.agent.session
        if len(session.transcript) == self._restored:
            for position, entry in enumerate(session.transcript):
                if entry.is_prompt and entry.content == text:
                    self._turns[cell_id] = (session, position)
                    return

    def fix(self) -> None:
        """Ask about the last error."""
        self.send(FIX)

    def command(self, line: str) -> None:
        """Run a command and print its reply."""
        self._show(self.runner.run_command(line))

    def close(self) -> None:
        """Close the panel, the threads and the database."""
        if self._panel is not None:
            self._panel.close()
        self.runner.close()
        self.notebook.close()
        self.commands.servers.close()
        self.config.unobserve_all()
        self.store.close()

    def _replacing(self, position: int, text: str) -> Action:
        """Replace an earlier turn; a failed one is answered instead."""

        def act(agent: Agent, stop: threading.Event) -> Iterable[ChatEvent]:
            session = agent.session
            is_same = session.transcript[position].content == text
            is_last = is_same and position == session.last_prompt
            if is_last and not ends_with_answer(session.transcript):
                return agent.retry(stop=stop)
            attached = tuple(self._attachments(text))
            return self.commands.branch(
                agent, position, text, attached=attached, from_cell=True, stop=stop
            )

        return act

    def _note_turn(self, cell_id: str, text: str) -> None:
        """Remember where the turn of a cell is, if its message was sent."""
        agent = self.runner.built_agent
        prompts = () if agent is None else agent.session.transcript
        if cell_id and agent is not None and any(each.is_prompt for each in prompts):
            position = agent.session.last_prompt
            if prompts[position].content == text:
                self._turns[cell_id] = (agent.session, position)

    def _show(self, events: Iterator[ChatEvent]) -> None:
        """Show a turn; one that fails can be tried again below its cell."""
        try:
            self._show_turn(events)
        except UsageError:
            self._offer_retry()
            raise

    def _offer_retry(self) -> None:
        agent, shell = self.runner.built_agent, self._shell
        if agent is None or shell is None or not agent.can_retry:
            return
        failed = (agent.session, agent.session.last_prompt)
        RetryButton(shell, partial(self._retry, *failed)).show_after_cell()

    def _retry(self, session: Session, position: int, output: CellOutput) -> None:
        agent = self.agent
        is_last = agent.session is session and session.last_prompt == position
        if not (is_last and agent.can_retry):
            raise NbchatError(
                "The chat has newer messages than this cell. Run the cell again."
            )
        events = self.runner.run_action("", lambda agent, stop: agent.retry(stop=stop))
        self._show_turn(events, output)

    def _show_turn(
        self, events: Iterator[ChatEvent], output: CellOutput | None = None
    ) -> None:
        """Print a turn; an interrupt ends it without a traceback."""
        approvals = approvals_of(self.agent.approve)
        unsubscribe = approvals.subscribe(self._announce) if approvals else None
        self._is_in_cell = True
        context = self.context
        if context is not None:
            context.last = ""
        try:
            show(events, output)
            if context is not None and context.last and output is None:
                display(known_notebook(context.last))  # type: ignore[no-untyped-call]
        except KeyboardInterrupt:
            print("Stopped. The partial answer is kept.")
        finally:
            self._is_in_cell = False
            if unsubscribe is not None:
                unsubscribe()

    def _announce(self, pending: tuple[PendingCall, ...]) -> None:
        """Print which calls wait for approval, and where it can be given."""
        where = (
            "Answer in the chat panel, or interrupt the kernel."
            if self._panel is not None
            else "No chat panel is open. Interrupt the kernel and run %chat."
        )
        for each in pending:
            name = terminal_text(each.call.tool_name)
            print(f"{name} is waiting for your approval. {where}", flush=True)

    def _attachments(self, text: str) -> Iterator[Entry]:
        """Load what a message mentions, and print what is attached."""
        contents = self._contents
        if contents is None:
            return
        typed = typed_text(prompt_entry(text, is_cell=True))
        named = mentions(typed, contents)
        others = [each for each in mentions(text, contents) if each not in named]
        for unknown in unknown_names(typed, contents):
            print(terminal_text(unknown))
        found = load_mentions(named, contents)
        if others and _is_confirmed(others):
            found += load_mentions(others, contents)
        for each in found:
            size = self.agent.engine.tracker.counter.count_entry(each.entry)
            print(_attached_line(each, size))
            yield each.entry

    def _remembered(self, shell: InteractiveShell) -> Mapping[str, object]:
        """Variables for the memory; none if each request already contains them."""
        agent, context = self.runner.built_agent, self.context
        tells = agent and context and context.is_sent_to(agent.provider.name)
        return {} if tells and self._context_mode == "on" else own_variables(shell)

    def _known_notebook(self) -> NotebookContext | None:
        """The context that requests add about the notebook; None without a shell."""
        if self._contents is None:
            return None
        self._contents.cell_at = self._cell_at
        return NotebookContext(
            self._contents, lambda: self._context_mode, self._outline
        )

    def _cell_at(self, position: int) -> Cell | None:
        """The cell at a position, if a page reports it."""
        return None if self._panel is None else cell_at(self._panel.page, position)

    def _outline(self) -> Outline | None:
        """The notebook's cells, if a page reports them in time."""
        return None if self._panel is None else outline_of(self._panel.page)

    def _ask_about_context(self) -> None:
        """Ask once whether another provider may see the notebook, too."""
        context = self.context
        if context is None or self._panel is not None or self._context_mode == "off":
            return
        provider = self.agent.provider.name
        kind = provider.partition(":")[0]
        if context.is_confirmed(provider) or kind in self._asked_for:
            return
        self._asked_for.add(kind)
        if _says_yes(ASK_CONTEXT.format(kind)):
            context.confirm(provider)

    def _live_context(self, agent: Agent) -> str:
        """The current state of the notebook, which ends each request."""
        if self.context is None:
            return ""
        tracker = agent.engine.tracker
        return self.context.sent(
            agent.provider.name, window=tracker.info.window, counter=tracker.counter
        )

    def _built(self) -> Agent:
        expire_sessions(self.store, self.config)
        session = newest_session(self.store)
        self.runner.show(session)
        self._restored = len(session.transcript)
        agent = build_agent(
            self.config,
            session=session,
            store=self.store,
            namespace=self._namespace,
            connects_later=True,
        )
        in_force = self.live_settings.in_force(agent)
        self._offer_notebook(agent, in_force)
        self._context_mode = in_force.notebook_context
        agent.live_context = partial(self._live_context, agent)
        self._uses_rules = in_force.rules_files
        agent.rules = self._rules.source(agent)
        if self._panel is not None:
            self._rules.look(agent)
        self.commands.servers.connect_chosen(agent)
        return agent

    def _apply_settings(self, change: Mapping[str, Any]) -> None:
        """Apply a changed setting; `%config` shows the UsageError in one line."""
        agent = self.runner.built_agent  # one being built has read the old settings
        try:
            self.live_settings.follow(agent, change)
        except NbchatError as error:
            raise UsageError(terminal_text(str(error))) from None
        self.runner.refresh()

    def reread(self) -> None:
        """Apply changes of the environment, except while an answer runs."""
        agent = self.runner.built_agent
        if agent is None:  # it will be built with what is set by then
            self.live_settings.take_changes()
        elif self.runner.is_warming_up or not (
            self.runner.is_busy or agent.is_answering
        ):
            self._reread(agent)

    def _reread(self, agent: Agent) -> None:
        """Apply a model or address that was added to the environment since."""
        before = agent.provider
        try:
            self.live_settings.reread(agent)
        except UsageError as error:
            raise ConfigError(str(error)) from error
        if agent.provider is not before:
            self.runner.refresh()

    def _in_force(self) -> NbChat:
        return self.live_settings.in_force(self.runner.built_agent)

    def _follow_settings(self, config: NbChat) -> None:
        if self._panel is not None:
            self._panel.notifies = config.notifications
            self._panel.offers_cells = config.notebook_tools
        self._uses_rules = config.rules_files
        self._context_mode = config.notebook_context
        if (agent := self.runner.built_agent) is not None:
            self._offer_notebook(agent, config)
            self._rules.look(agent)

    def _offer_rules(self, offered: RulesOffered) -> bool:
        """Show rules that wait for a yes: on a card of the panel, or in the cell."""
        if self._panel is not None:
            self.runner.offer(offered)
            return True
        if offered.problem:
            print(terminal_text(offered.problem), flush=True)
        if (rules := offered.rules) is None:
            return False
        lines = with_invisibles_escaped(rules.text).splitlines()
        hidden = len(lines) - RULES_LINES
        if hidden > 0:
            lines[RULES_LINES:] = [f"… {hidden:,} more lines: %chat /rules"]
        shown = [RULES_FOUND.format(rules.name), *(f"    {each}" for each in lines)]
        print(terminal_text("\n".join([*shown, RULES_ANSWER])), flush=True)
        return hidden <= 0

    def _serve_notebook(self) -> None:
        """Keep what the model's tools change, and answer other agents."""
        self.notebook.before_change = self._undo.before_change
        self.notebook.after_change = self._undo.after_change
        for_others = NotebookTools(
            lambda: self.panel().page,
            is_in_cell=lambda: self._is_in_cell,
            contents=self._contents,
        )
        shared = SharedNotebook(
            for_others,
            self.runner,
            path=notebook_name,
            variables=self._contents.variables if self._contents else dict,
            find_page=self._find_page,
        )
        self.runner.serve(ACTION, shared.answer)

    def _find_page(self) -> str:
        if self._panel is None:
            raise NbchatError(NO_PAGE)
        return self._panel.page.find()

    def _undo_cells(self, turn: int, *, cell: str, view: str) -> list[LeftCell]:
        """Undo what a turn changed in the notebook, and save that it was undone."""
        try:
            return self._undo.undo(turn, cell=cell, view=view)
        finally:
            if (autosave := self.agent.autosave) is not None:
                with suppress(StoreError):  # the next event of a turn reports it
                    autosave.save()

    def _allow(self, allowed: str) -> str:
        """Set or show what the model may do in this notebook without asking."""
        match allowed:
            case "ask" | "edits" | "all":
                self._allowed = allowed
                if self._panel is not None:
                    self._panel.allowed = allowed
            case "":
                pass
            case _:
                raise NbchatError("Choose one of ask, edits, all.")
        return ALLOWED[self._allowed]

    def _allowed_by_panel(self, _change: object) -> None:
        self._allowed = self.panel().allowed

    def _permits(self, call: Entry, tool: Tool | None) -> bool:
        """True if the person has allowed this call of a notebook tool in advance."""
        if self._allowed == "ask" or tool not in self.notebook.tools or tool is None:
            return False
        is_edit = tool.name == "edit_notebook" and not effect_of(tool, call)
        return self._allowed == "all" or is_edit

    def _plan_changes(
        self, agent: Agent, task: str, stop: threading.Event | None
    ) -> Iterator[ChatEvent]:
        """A turn in which the model can only read, and propose changes together."""
        before, ours = agent.tools, self.notebook
        others = [each for each in before if each.read_only and each not in ours.tools]
        planning = (*others, *(e for e in ours.tools if e.read_only), ours.proposing)
        with agent.alone():
            if agent.approve is None:
                agent.approve = Approvals()
            agent.tools = planning
        try:
            yield from agent.run(PLAN.format(task), stop=stop)
        finally:
            with agent.alone():
                agent.tools = before

    def _offer_notebook(self, agent: Agent, config: NbChat) -> None:
        """Give the agent the tools of the notebook, or take them away."""
        ours = self.notebook.tools
        others = tuple(each for each in agent.tools if each not in ours)
        wanted = (*others, *ours) if config.notebook_tools else others
        if wanted == agent.tools:
            return
        with agent.alone():
            if agent.approve is None:
                agent.approve = Approvals()
            if (approvals := approvals_of(agent.approve)) is not None:
                approvals.permits = self._permits
            agent.tools = wanted
            agent.count_fixed_tokens()


def other_model_line(session: Session, model: str) -> str:
    """One line if a chat continues with another model than before, else empty."""
    before = [usage.model for _, usage in session.usages][-1:] or [""]
    if before[0] in ("", model):
        return ""
    return (
        f"This chat used {before[0]} before. Your settings now say {model}. "
        f"To go back: /model {before[0]}"
    )


def _attached_line(attached: Attachment, tokens: int) -> str:
    """One line about an attachment; for `@!name`, also the text that is sent."""
    hidden = attached.hidden
    secrets = f", {hidden} hidden as possible secrets" if hidden else ""
    name = terminal_text(attached.mention.text)
    line = f"Attached {name}: {tokens:,} tokens{secrets}"
    if not attached.mention.is_raw:
        return line
    sent = terminal_text(user_text(attached.entry))
    return f"{line}, sent as it is:\n{truncated(sent)}"


def _is_confirmed(named: Iterable[Mention]) -> bool:
    """Ask the person before attaching names that may come from pasted text.

    Attach nothing if no one can be asked, as when a program runs the notebook.
    """
    names = terminal_text(", ".join(each.text for each in named))
    asked = f"{names} may be pasted text, below the first paragraph. Attach it? [y/N] "
    answer = _says_yes(asked)
    if answer is None:
        print(
            f"Didn't attach {names}: it's below the first paragraph, where text may be "
            "pasted. Name it in the first paragraph to attach it."
        )
    return bool(answer)


def _says_yes(asked: str) -> bool | None:
    """The person's answer; None if no one can answer."""
    try:
        return input(asked).strip().lower() in ("y", "yes")
    except (EOFError, OSError, NotImplementedError):
        return None
