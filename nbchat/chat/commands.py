"""The commands of a chat: a table by name, and those about sessions and settings."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from difflib import get_close_matches

from nbchat.agent.agent import Agent
from nbchat.chat.attachments.mentions import not_mentioned
from nbchat.chat.chat_events import ChatEvent, CommandReplied, Working
from nbchat.chat.context_commands import CONTEXT_COMMANDS, Command, Reply, Stop
from nbchat.chat.live_changes import LiveSettings
from nbchat.chat.mcp_command import ChatServers
from nbchat.chat.project_rules import ProjectRules
from nbchat.compaction.policies import PRESETS
from nbchat.config.settings import NbChat
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import Branched, Event, SavingFailed
from nbchat.conversation.pastes import pasted_texts
from nbchat.conversation.session import Session, title_of
from nbchat.conversation.turns import (
    attachments_start,
    count_messages,
    ends_with_answer,
)
from nbchat.errors import (
    LogNotWritten,
    NbchatError,
    NotErased,
    SessionTaken,
    Stopped,
    StoreError,
)
from nbchat.providers.connect import refuse_unlisted
from nbchat.providers.model_download import (
    WEIGHTS,
    fetched_megabytes,
    is_fetched,
    model_file,
)
from nbchat.providers.provider_table import KINDS
from nbchat.storage.autosave import Autosave
from nbchat.storage.branches import one_per_family
from nbchat.storage.export import MarkdownLog, exported, imported
from nbchat.storage.factory import autosave_of
from nbchat.storage.import_checks import without_claims
from nbchat.storage.saved_settings import THIS_SESSION
from nbchat.storage.serialization import SessionInfo
from nbchat.storage.store import SessionStore

SESSIONS_SHOWN = 200
"""Number of newest sessions listed; the panel's search finds the others."""

SESSION_COLUMNS = ("Session", "Last used", "Messages", "Title")

GROUPS = {
    "Chat": ("help", "new", "plan-changes", "again", "continue", "branch", "model"),
    "Sessions": ("sessions", "resume", "rename", "import", "share", "delete", "redact"),
    "Context": (
        *("context", "compact", "summarize", "undo", "redo", "edit", "regenerate"),
        "plan",
    ),
    "Memory": ("pin", "unpin", "rules", "exclude", "include", "checkpoint", "recall"),
    "Settings": ("settings", "set", "allow", "policy", "threshold", "mcp", "log"),
}
"""Commands as `/help` lists them."""

NO_NOTEBOOK = "This chat can't change a notebook. Use it in one, with %chat."

WITH_BRANCHES = " with branches"
"""After an id in `/delete`: all sessions that share messages with it."""

FETCH_SECONDS = 1.0
"""Interval at which the progress of a download is shown."""

SHARED = "share:"
"""Begins the link of a shared copy, which `/resume` takes."""


class Commands:
    """The commands of one chat."""

    def __init__(
        self, store: SessionStore, settings: LiveSettings | NbChat | None = None
    ) -> None:
        """Sessions are kept in `store`.

        Without `settings` they are read when a command first needs them.
        """
        if not isinstance(settings, LiveSettings):
            settings = LiveSettings(store, settings)
        self.store, self.live_settings = store, settings
        self.rules: ProjectRules | None = None
        """The rules file of the project; None where the chat reads none."""
        self.redacted: Callable[[Agent, str], str] = lambda _agent, _text: ""
        """Removes text from a kept transcript; returns where it still is."""
        self.allow: Callable[[str], str] | None = None
        """Sets what may run in the notebook without asking; None without a notebook."""
        self.plan_changes: Command | None = None
        """Has the model propose changes of the notebook, to be approved together."""
        self.servers = ChatServers(lambda: settings.config.mcp_file)
        self.table: dict[str, tuple[Command, str]] = {
            "help": (self._help, "List the commands"),
            **CONTEXT_COMMANDS,
            "rules": (self._rules, CONTEXT_COMMANDS["rules"][1]),
            **self._session_commands(),
            **self._settings_commands(),
        }

    def __call__(
        self, agent: Agent, line: str, stop: Stop = None
    ) -> Iterable[ChatEvent]:
        """Run `/name argument`; raises NbchatError if it can't run.

        Setting `stop` ends what the command has the model do.
        """
        name, *argument = line.strip().removeprefix("/").split(maxsplit=1) or [""]
        if name not in self.table:
            raise NbchatError(_unknown(name, self.table))
        if argument and "  " not in self.help_lines[name]:
            raise NbchatError(f"/{name} takes no arguments.")
        reply = self.table[name][0](agent, "".join(argument), stop)
        reply = CommandReplied(reply) if isinstance(reply, str) else reply
        return [reply] if isinstance(reply, CommandReplied) else reply

    @property
    def help_lines(self) -> dict[str, str]:
        """The arguments of each command and its help, separated by two spaces."""
        return {name: text for name, (_, text) in self.table.items()}

    def branch(
        self,
        agent: Agent,
        position: int,
        text: str,
        *,
        attached: Sequence[Entry] | None = None,
        pasted: Sequence[str] = (),
        from_cell: bool = False,
        stop: Stop = None,
    ) -> Iterator[ChatEvent]:
        """Continue from the message at `position`, in a new session.

        A blank `text` sends the message again. `attached` replaces what the message
        mentioned; None keeps all of its attachments. What was pasted into the message
        stays known as such, with the `pasted` texts that are new.
        """
        old = agent.session
        kept = old.branch(position)  # refuses a position without a message
        prompt = text if text.strip() else old.transcript[position].content
        if attached is not None:
            start = attachments_start(old.transcript, position)
            kept = old.branch(position, start)
            attachments = old.transcript[start:position]
            others = not_mentioned(old.transcript[position], attachments)
            attached = [*others, *attached]
        unsaved = self._save(agent)
        if old.session_id:
            begins = attachments_start(old.transcript, position)
            kept.ancestors = (*old.ancestors, (old.session_id, begins))
        self._switch(agent, kept, copies=True)
        pasted = [*pasted, *pasted_texts(old.transcript[position])]
        turn = agent.run(
            prompt,
            stop=stop,
            attached=attached or (),
            pasted=pasted,
            from_cell=from_cell,
        )
        return _branched(old, unsaved, turn)

    def _session_commands(self) -> dict[str, tuple[Command, str]]:
        return {
            "plan-changes": (
                self._plan_changes,
                "text  Have the model propose all changes at once, to approve together",
            ),
            "again": (
                self._again,
                "[text]  Answer the last message again, or new text in its place",
            ),
            "continue": (self._continue, "Continue an answer that was cut off"),
            "branch": (
                self._branch,
                "N text  Change your message N and continue from there",
            ),
            "import": (self._import, "id  Continue from another session's summary"),
            "new": (self._new, "Start a new session and keep this one"),
            "sessions": (self._sessions, "List your sessions"),
            "resume": (
                self._resume,
                "id  Continue a session, or open a shared one with share:LINK",
            ),
            "redact": (
                self._redact,
                "text  Remove text permanently, from branches too",
            ),
            "rename": (
                self._rename,
                "[id] title  Rename this session or another",
            ),
            "share": (
                self._share,
                "Make a copy that others with the same database can read",
            ),
            "delete": (
                self._delete,
                "id [with branches]  Delete a session permanently",
            ),
        }

    def _settings_commands(self) -> dict[str, tuple[Command, str]]:
        return {
            "model": (self._model, "[provider:name]  Show or change the model"),
            "policy": (self._policy, "[name]  Show or change how this chat compacts"),
            "allow": (
                self._allow,
                "[ask|edits|all]  Choose what the model may do without asking",
            ),
            "mcp": (
                self._mcp,
                "[name]  List MCP servers, connect one, or describe a tool",
            ),
            "settings": (
                self._settings,
                "List the settings and where each value comes from",
            ),
            "set": (
                self._set,
                "name value [for model, provider or session]  Change a setting",
            ),
        }

    def _help(self, _agent: Agent, _argument: str, _stop: Stop) -> CommandReplied:
        rows = list[tuple[str, str, str]]()
        for group, names in self._groups.items():
            for name in names:
                arguments, _, text = self.help_lines[name].rpartition("  ")
                shown = "" if rows and group in (row[0] for row in rows) else group
                rows.append((shown, f"/{name} {arguments}".rstrip(), text))
        text = "\n".join(f"{each:14}{name:44}{does}" for each, name, does in rows)
        return CommandReplied(text, ("", "Command", "What it does"), tuple(rows))

    @property
    def _groups(self) -> dict[str, tuple[str, ...]]:
        """The names of all commands by group, those that are used most first."""
        named = {name for names in GROUPS.values() for name in names}
        others = tuple(name for name in self.table if name not in named)
        return {**GROUPS, "Other": others}

    def _rules(self, agent: Agent, argument: str, stop: Stop) -> Reply:
        """List the rules of the project's file, then those that the person stated."""
        said = CONTEXT_COMMANDS["rules"][0]
        if self.rules is None:
            return said(agent, argument, stop)
        if argument in ("use", "ignore"):
            return self.rules.answer(agent, is_yes=argument == "use")
        if argument:
            return said(agent, argument, stop)
        return f"{self.rules.listing(agent)}\n\n{said(agent, '', stop)}".lstrip()

    def _allow(self, _agent: Agent, argument: str, _stop: Stop) -> str:
        if self.allow is None:
            raise NbchatError(NO_NOTEBOOK)
        return self.allow(argument)

    def _plan_changes(self, agent: Agent, argument: str, stop: Stop) -> Reply:
        if self.plan_changes is None:
            raise NbchatError(NO_NOTEBOOK)
        if not argument:
            raise NbchatError(
                "/plan-changes needs a task, such as /plan-changes Add a plot."
            )
        return self.plan_changes(agent, argument, stop)

    def _new(self, agent: Agent, _argument: str, _stop: Stop) -> Reply:
        unsaved = self._save(agent)
        self._switch(agent, Session())
        reply = "Started a new session. /sessions lists the earlier ones."
        return [CommandReplied(reply), *unsaved]

    def _sessions(self, agent: Agent, _argument: str, _stop: Stop) -> Reply:
        current = agent.session.session_id
        newest = self.store.sessions(limit=SESSIONS_SHOWN)
        found = one_per_family(newest, current=current)
        if not found:
            return "No sessions yet."
        rows = [(s.id, s.used_at[:16], f"{s.messages:,}", _titled(s)) for s in found]
        text = "\n".join(f"{id_}  {at}  {n:>4}  {title}" for id_, at, n, title in rows)
        return CommandReplied(text, SESSION_COLUMNS, tuple(rows))

    def _resume(self, agent: Agent, session_id: str, _stop: Stop) -> Reply:
        _need_session("/resume", session_id)
        unsaved = self._save(agent)
        is_copy = session_id.startswith(SHARED)
        session = self._copy(session_id) if is_copy else self.store.load(session_id)
        self._switch(agent, session)
        done = "Opened a copy" if is_copy else "Resumed"
        return [CommandReplied(f"{done}: {_described(session)}"), *unsaved]

    def _copy(self, link: str) -> Session:
        """The messages of a shared session, without its pins, rules and summaries."""
        shared = imported(self.store.shared(link.removeprefix(SHARED)))
        shared = without_claims(shared)
        return Session(shared.transcript, usages=shared.usages)

    def _rename(self, agent: Agent, title: str, _stop: Stop) -> str:
        session_id, first, rest = agent.session.session_id, *_split(title)
        if rest and self.store.family(first):
            session_id, title = first, rest
        if not title.strip():
            raise NbchatError("/rename needs a title, such as /rename Orders of May.")
        self.store.rename(session_id, title)
        return f"Renamed to {title_of(title)}."

    def _share(self, agent: Agent, _argument: str, _stop: Stop) -> str:
        """Share a copy of the conversation, without later messages."""
        session = agent.session
        if not session.transcript:
            raise NbchatError("There's nothing to share yet. Send a message first.")
        link = f"{SHARED}{self.store.share(session, exported(session, 'json'))}"
        return (
            f"Anyone who can read this database ({self.store.location}) can open a "
            f"copy of the conversation as it is now with this link:\n/resume {link}"
        )

    def _delete(self, agent: Agent, argument: str, _stop: Stop) -> str:
        _need_session("/delete", argument)
        session_id = argument.removesuffix(WITH_BRANCHES)
        ids = [session_id]
        if session_id != argument:
            ids = [each.id for each in self.store.family(session_id)] or ids
        if agent.session.session_id in ids:
            raise NbchatError(
                "You can't delete the session you're in. Start another with /new first."
            )
        log = MarkdownLog(self.live_settings.config.log_folder)
        files, problems = 0, list[str]()
        try:
            self.store.delete(*ids)
        except NotErased as error:  # they are deleted
            problems.append(str(error))
        for each in ids:
            try:
                files += log.remove(each)
            except LogNotWritten as error:
                problems.append(str(error))
        if problems:
            raise StoreError(" ".join(dict.fromkeys(problems)))
        return _deleted(session_id, len(ids), files)

    def _redact(self, agent: Agent, text: str, _stop: Stop) -> Reply:
        """Remove a text from the session and its branches, and continue without it."""
        if unsaved := self._save(agent):
            return unsaved  # the store is out of order: nothing would be removed
        session_id = agent.session.session_id
        left: StoreError | None = None
        try:
            removed = self.store.redact(session_id, text)
        except StoreError as error:  # perhaps it is left in free space alone
            left = error
        self._switch(agent, self.store.load(session_id))
        log = MarkdownLog(self.live_settings.config.log_folder)
        branches = self.store.family(session_id) if log.folder else ()
        for branch_id in {session_id, *(branch.id for branch in branches)}:
            log.write(self.store.load(branch_id))
        kept = self.redacted(agent, text)
        if left is not None:
            raise left
        if not removed.places:
            return f"This session doesn't contain that text. {kept}".strip()
        return (
            f"Removed it from {_counted(removed.messages, 'message')} "
            f"({_counted(removed.places, 'place')} in all), in this session, its "
            "branches, runs and logs. Exported files and cell outputs still "
            f"contain it. {kept}".strip()
        )

    def _save(self, agent: Agent) -> list[Event]:
        """Save the whole session before another one starts; an error is an event.

        It may never have been saved, or not while its store was out of order. That
        another kernel took it over was reported when it happened.
        """
        with agent.alone():
            keeper = agent.autosave
            if not agent.session.session_id:
                keeper = self._autosave_of(agent, agent.session)
            try:
                if keeper is not None:
                    keeper.save()
            except SessionTaken:
                return []
            except StoreError as error:
                return [SavingFailed(str(error))]
        return []

    def _switch(self, agent: Agent, session: Session, *, copies: bool = False) -> None:
        """Continue in another session, which is saved in this store.

        `copies` gives it the settings of the session before.
        """
        before = agent.session.session_id
        agent.switch(session, self._autosave_of(agent, session))
        self.live_settings.use_session(agent, before, copies=copies)

    def _autosave_of(self, agent: Agent, session: Session) -> Autosave:
        folder = self.live_settings.config.log_folder
        return autosave_of(self.store, session, agent, log_folder=folder)

    def _again(self, agent: Agent, text: str, stop: Stop) -> Reply:
        has_answer = ends_with_answer(agent.session.transcript)
        if agent.can_retry and not has_answer and not text:
            return agent.retry(stop=stop)
        return self.branch(agent, agent.session.last_prompt, text, stop=stop)

    def _continue(self, agent: Agent, _argument: str, stop: Stop) -> Reply:
        if not agent.can_retry:
            raise NbchatError(
                "The last answer is complete. There's nothing to continue."
            )
        return agent.retry(stop=stop, keeps_partial=True)

    def _branch(self, agent: Agent, argument: str, stop: Stop) -> Reply:
        position, _, text = argument.partition(" ")
        if not position.isdecimal():
            raise NbchatError(
                "/branch needs the number of one of your messages and new text. "
                "/recall shows the numbers."
            )
        return self.branch(agent, int(position), text, stop=stop)

    def _import(self, agent: Agent, session_id: str, _stop: Stop) -> Reply:
        _need_session("/import", session_id)
        return agent.import_summary(self.store.load(session_id))

    def _model(self, agent: Agent, name: str, stop: Stop) -> Reply:
        if name:
            self.live_settings.use_model(agent, name, refuse_unlisted)
        found = agent.provider.name
        weights = found.removeprefix("local:")
        if name and weights in WEIGHTS and not is_fetched(weights):
            return _fetched(weights, stop)
        return f"This chat now uses {found}." if name else f"This chat uses {found}."

    def _policy(self, agent: Agent, name: str, _stop: Stop) -> str:
        """Choose a policy for this session; `/set policy` stores one for all."""
        if name:
            self.live_settings.use_policy(agent, name)
        engine = agent.engine
        others = ", ".join(each for each in PRESETS if each != engine.policy.name)
        due = engine.should_compact(agent.session).reason
        return f"{engine.policy.name}: {due}\nOther policies: {others}"

    def _mcp(self, agent: Agent, name: str, _stop: Stop) -> str:
        return self.servers.command(agent, name)

    def _settings(self, agent: Agent, _argument: str, _stop: Stop) -> CommandReplied:
        listed = self.live_settings.listed(agent)
        rows = [(each.name, each.value or "-", each.origin) for each in listed]
        text = "\n".join(f"{name:24}{value:20}{origin}" for name, value, origin in rows)
        return CommandReplied(text, ("Setting", "Value", "From"), tuple(rows))

    def _set(self, agent: Agent, argument: str, _stop: Stop) -> str:
        name, text, scope = _setting_of(argument, agent.provider.name)
        if not text:
            raise NbchatError(
                "/set needs a name and a value, such as /set effort low. Add "
                f'"for {agent.provider.name}" or "for session" to limit it.'
            )
        return self.live_settings.set(agent, name, text, scope)


def _fetched(name: str, stop: Stop) -> Iterator[ChatEvent]:
    """Fetch the file of an embedded model, and report how much of it has arrived.

    After Stop the download continues in the background.
    """
    pool, began = ThreadPoolExecutor(1, "nbchat-fetch"), time.monotonic()
    fetching = pool.submit(model_file, name)
    pool.shutdown(wait=False)
    while not wait([fetching], FETCH_SECONDS).done:
        if stop is not None and stop.is_set():
            raise Stopped("Stopped.")
        size = f"{fetched_megabytes(name)} of {WEIGHTS[name].megabytes} MB"
        yield Working(f"Downloading {name}: {size}, {time.monotonic() - began:.0f} s")
    fetching.result()
    yield CommandReplied(f"This chat now uses local:{name}.")


def _need_session(command: str, session_id: str) -> None:
    if not session_id:
        raise NbchatError(f"{command} needs the id of a session. /sessions lists them.")


def _split(text: str) -> tuple[str, str]:
    """The first word, and the rest."""
    first, _, rest = text.strip().partition(" ")
    return first, rest.strip()


def _described(session: Session) -> str:
    """How a session begins, and its size."""
    prompts = (entry.content for entry in session.transcript if entry.is_prompt)
    title = title_of(next(prompts, "")) or "Untitled"
    messages = count_messages(session.transcript)
    return f"{title} ({_counted(messages, 'message')})"


def _counted(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


def _deleted(session_id: str, count: int, files: int) -> str:
    """A sentence on what was deleted."""
    sessions = f"{count} sessions" if count > 1 else f"session {session_id}"
    logs = " and its log" if files else ""
    return f"Deleted {sessions}{logs}."


def _unknown(name: str, known: Iterable[str]) -> str:
    """The answer to a command that does not exist, with the nearest one."""
    nearest = get_close_matches(name, known, n=1)
    advice = f"Did you mean /{nearest[0]}?" if nearest else "/help lists all commands."
    return f"No command named /{name}. {advice}"


def _titled(info: SessionInfo) -> str:
    """A session's title, and the number of branches that it represents in the list."""
    return (
        f"{info.title} · {info.branches} branches" if info.branches > 1 else info.title
    )


def _branched(
    old: Session, unsaved: Iterable[Event], turn: Iterator[Event]
) -> Iterator[ChatEvent]:
    yield from unsaved
    yield Branched(old.session_id)
    yield from turn


def _setting_of(argument: str, model: str) -> tuple[str, str, str]:
    """Name, value and scope of a setting; the value may contain a "for" too."""
    name, _, text = argument.strip().partition(" ")
    value, _, scope = text.rpartition(" for ")
    scope = scope.strip()
    names = {*KINDS, THIS_SESSION, model, model.partition(":")[0]}
    if value and " " not in scope and (scope in names or ":" in scope):
        return name, value.strip(), scope
    return name, text.strip(), ""
