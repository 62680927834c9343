"""The commands by their names, with the store and the settings that some need."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from nbchat.agent.agent import Agent
from nbchat.chat.attachments.mentions import not_mentioned
from nbchat.chat.commands.compacting import TABLE, policy_text
from nbchat.chat.commands.result import Command, CommandResult, Stop
from nbchat.config.factory import recorder
from nbchat.config.live_changes import LiveSettings
from nbchat.config.preferences import scopes_of
from nbchat.config.settings import NbChat
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import Branched, Event, SavingFailed
from nbchat.conversation.session import Session
from nbchat.conversation.turns import attachments_start
from nbchat.errors import ConfigError, NbchatError, SessionTaken, StoreError
from nbchat.providers.connect import KINDS
from nbchat.storage.recorder import Recorder
from nbchat.storage.session_log import session_log, write_session_log
from nbchat.storage.store import SessionStore


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
        self._store, self._live_settings = store, settings
        self.table: dict[str, tuple[Command, str]] = {
            "help": (self._help, "this list"),
            **TABLE,
            "policy": (
                self._policy,
                "[name]  show or change how this chat is compacted",
            ),
            "again": (self._again, "[text]  answer the last message anew, or another"),
            "branch": (self._branch, "place text  go on from an earlier message"),
            "log": (_log, "[file]  what became of the context, as Markdown"),
            "import": (self._import, "id  go on from the summary of another session"),
            "settings": (
                self._settings,
                "what can be set, and where its value is from",
            ),
            "set": (self._set, "name value [for model or provider]  set it for good"),
            "model": (self._model, "[provider:name]  show or change the model"),
            "new": (self._new, "begin another session; this one is kept"),
            "sessions": (self._sessions, "list the sessions"),
            "resume": (self._resume, "id  go on with a session"),
            "delete": (self._delete, "id  remove a session for good"),
        }

    def __call__(self, agent: Agent, line: str, *, stop: Stop = None) -> CommandResult:
        """Run `/name argument`; raises NbchatError saying what there is.

        `stop` ends what a command makes the model do.
        """
        name, *argument = line.strip().removeprefix("/").split(maxsplit=1) or [""]
        if name not in self.table:
            raise ConfigError(f"there is no command /{name}; there are {self._names()}")
        return self.table[name][0](agent, "".join(argument), stop)

    def _names(self) -> str:
        return ", ".join(f"/{name}" for name in self.table)

    @property
    def help_lines(self) -> dict[str, str]:
        """What each command takes and does; two spaces stand between."""
        return {name: text for name, (_, text) in self.table.items()}

    def _help(self, _agent: Agent, _argument: str, _stop: Stop) -> CommandResult:
        lines = [f"/{name} {text}" for name, text in self.help_lines.items()]
        return CommandResult("\n".join(lines))

    def _new(self, agent: Agent, _argument: str, _stop: Stop) -> CommandResult:
        unsaved = self._saved(agent)
        self._switch(agent, Session())
        return CommandResult(
            "a new session; /sessions lists the earlier ones", iter(unsaved)
        )

    def _sessions(self, _agent: Agent, _argument: str, _stop: Stop) -> CommandResult:
        found = self._store.sessions()
        lines = [f"{s.id}  {s.used_at[:16]}  {s.entries:4}  {s.title}" for s in found]
        return CommandResult("\n".join(lines) or "there is no session yet")

    def _resume(self, agent: Agent, session_id: str, _stop: Stop) -> CommandResult:
        unsaved = self._saved(agent)
        self._switch(agent, self._store.load(session_id))
        return CommandResult(f"back in {agent.session!r}", iter(unsaved))

    def _delete(self, agent: Agent, session_id: str, _stop: Stop) -> CommandResult:
        if session_id == agent.session.session_id:
            raise NbchatError(
                "this is the session that goes on here; begin another with /new first"
            )
        self._store.delete(session_id)
        return CommandResult(f"session {session_id} is deleted")

    def _saved(self, agent: Agent) -> list[Event]:
        """Save all of a session before another one begins, and tell if it cannot be.

        It may be nobody's yet, or have entries from when its store was out of order.
        That another kernel has it was told when that was seen.
        """
        with agent.alone():
            keeper = agent.recorder
            if not agent.session.session_id:
                keeper = self._recorder(agent, agent.session)
            try:
                if keeper is not None:
                    keeper.save()
            except SessionTaken:
                return []
            except StoreError as error:
                return [SavingFailed(str(error))]
        return []

    def _switch(self, agent: Agent, session: Session) -> None:
        """Go on in another session, which is kept here."""
        agent.switch(session, self._recorder(agent, session))

    def _recorder(self, agent: Agent, session: Session) -> Recorder:
        folder = self._live_settings.config.log_folder
        return recorder(self._store, session, agent, log_folder=folder)

    def _again(self, agent: Agent, text: str, stop: Stop) -> CommandResult:
        place = agent.session.last_prompt
        return self.branch(agent, place, text, stop=stop)

    def _branch(self, agent: Agent, argument: str, stop: Stop) -> CommandResult:
        place, _, text = argument.partition(" ")
        if not place.isdecimal():
            raise NbchatError(
                "/branch takes the place of one of your messages, as /recall and the "
                f"history show it, and other words for it, not {place!r}"
            )
        return self.branch(agent, int(place), text, stop=stop)

    def branch(
        self,
        agent: Agent,
        place: int,
        text: str,
        *,
        attached: Sequence[Entry] | None = None,
        stop: Stop = None,
    ) -> CommandResult:
        """Another way from a place on; the session as it was stays among the others.

        A blank `text` is what stands there, said once more. `attached` comes with it
        instead of what the old words pointed at; None leaves all as it was.
        """
        old = agent.session
        kept = old.branch(place)  # refuses a place that is none
        said = text if text.strip() else old.transcript[place].content
        if attached is not None:
            start = attachments_start(old.transcript, place)
            kept = old.branch(place, start)
            brought = old.transcript[start:place]
            attached = [*not_mentioned(old.transcript[place], brought), *attached]
        unsaved = self._saved(agent)
        self._switch(agent, kept)
        turn = agent.run(said, stop=stop, attached=attached or ())
        return CommandResult(events=_branched(old, unsaved, turn))

    def _import(self, agent: Agent, session_id: str, _stop: Stop) -> CommandResult:
        return CommandResult(events=agent.import_summary(self._store.load(session_id)))

    def _model(self, agent: Agent, name: str, _stop: Stop) -> CommandResult:
        if name:
            self._live_settings.use_model(agent, name)
        return CommandResult(agent.provider.name)

    def _policy(self, agent: Agent, name: str, _stop: Stop) -> CommandResult:
        """Choose for this chat alone; `/set policy` stores it."""
        if name:
            self._live_settings.use_policy(agent, name)
        return CommandResult(policy_text(agent))

    def _settings(self, agent: Agent, _argument: str, _stop: Stop) -> CommandResult:
        rows = self._live_settings.listed(agent.provider.name)
        lines = [f"{r.name:24}{r.value or '-':20}{r.origin}" for r in rows]
        return CommandResult("\n".join(lines))

    def _set(self, agent: Agent, argument: str, _stop: Stop) -> CommandResult:
        name, text, scope = _setting_of(argument, agent.provider.name)
        if not text:
            raise NbchatError(
                "/set takes a name, a value and optionally a provider or model: "
                f"/set keep 5 for {agent.provider.name}"
            )
        return CommandResult(self._live_settings.set(agent, name, text, scope))


def _branched(
    old: Session, unsaved: Iterable[Event], turn: Iterator[Event]
) -> Iterator[Event]:
    """The turn after the word that it goes another way; closing this closes it."""
    yield from unsaved
    yield Branched(old.session_id)
    yield from turn


def _setting_of(argument: str, model: str) -> tuple[str, str, str]:
    """Name, value and scope; a value may have a "for" of its own."""
    name, _, text = argument.strip().partition(" ")
    value, _, scope = text.rpartition(" for ")
    scope = scope.strip()
    is_provider = scope in KINDS or scope in scopes_of(model)
    if value and " " not in scope and (is_provider or ":" in scope):
        return name, value.strip(), scope
    return name, text.strip(), ""


def _log(agent: Agent, file: str, _stop: Stop) -> CommandResult:
    window = agent.engine.tracker.info.window
    if not file:
        return CommandResult(session_log(agent.session, window))
    write_session_log(agent.session, Path(file), window)
    return CommandResult(f"written to {Path(file).resolve()}")
