"""What can be said to the chat itself: one table for the panel, `%chat` and the CLI."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from nbchat.agent import Agent
from nbchat.build import recorder
from nbchat.errors import ConfigError, NbchatError
from nbchat.events import Event
from nbchat.history import Session
from nbchat.providers import connect
from nbchat.store import SessionStore


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command says, and what it makes happen while its events are read."""

    text: str = ""
    events: Iterator[Event] = field(default_factory=lambda: iter(()))


Command = Callable[[Agent, str], CommandResult]


class Commands:
    """The commands, with the store that some of them need."""

    def __init__(self, store: SessionStore) -> None:
        """Sessions are listed in and resumed from `store`."""
        self._store = store
        self.table: dict[str, tuple[Command, str]] = {
            "help": (self._help, "this list"),
            "context": (_context, "what the context holds, and when it is compacted"),
            "compact": (_compact, "[focus]  compact now; focus says what matters most"),
            "recall": (_recall, "text or number  what was said, folded or not"),
            "undo": (_undo, "take back the last compaction"),
            "threshold": (_threshold, "[tokens]  show or set when to compact"),
            "model": (_model, "[provider:name]  show or change the model"),
            "new": (self._new, "begin another session; this one is kept"),
            "sessions": (self._sessions, "list the sessions"),
            "resume": (self._resume, "id  go on with a session"),
        }

    def __call__(self, agent: Agent, line: str) -> CommandResult:
        """Run `/name argument`; raises NbchatError saying what there is."""
        name, _, argument = line.strip().removeprefix("/").partition(" ")
        if name not in self.table:
            raise ConfigError(f"there is no command /{name}; there are {self._names()}")
        return self.table[name][0](agent, argument.strip())

    def _names(self) -> str:
        return ", ".join(f"/{name}" for name in self.table)

    def _help(self, _agent: Agent, _argument: str) -> CommandResult:
        lines = [f"/{name} {text}" for name, (_, text) in self.table.items()]
        return CommandResult("\n".join(lines))

    def _new(self, agent: Agent, _argument: str) -> CommandResult:
        self._switch(agent, Session())
        return CommandResult("a new session; /sessions lists the earlier ones")

    def _sessions(self, _agent: Agent, _argument: str) -> CommandResult:
        found = self._store.sessions()
        lines = [f"{s.id}  {s.used_at[:16]}  {s.entries:4}  {s.title}" for s in found]
        return CommandResult("\n".join(lines) or "there is no session yet")

    def _resume(self, agent: Agent, session_id: str) -> CommandResult:
        self._switch(agent, self._store.load(session_id))
        return CommandResult(f"back in {agent.session!r}")

    def _switch(self, agent: Agent, session: Session) -> None:
        agent.switch(session, recorder(self._store, session, agent))


def _context(agent: Agent, _argument: str) -> CommandResult:
    engine, session = agent.engine, agent.session
    plan = engine.plan(session)
    usage = session.usage
    rows = {
        "model": agent.provider.name,
        "context": _of(engine.context_tokens(session), engine.info.window, "tokens"),
        "  fixed": f"{engine.floor_tokens:,} tokens: system prompt and tools",
        "since compaction": _of(
            engine.input_tokens, engine.context_token_threshold, "input tokens"
        ),
        "history": f"{len(session.history)} entries of {len(session.transcript)} ever "
        f"said, {len(session.active_compactions)} compactions",
        "used": f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out",
        "compact now": plan.skip or f"would leave about {plan.tokens_after:,} tokens",
    }
    return CommandResult("\n".join(f"{name:17}{text}" for name, text in rows.items()))


def _of(amount: int, limit: int | None, unit: str) -> str:
    return f"{amount:,} {unit}" + (f" of {limit:,}" if limit else "")


def _compact(agent: Agent, focus: str) -> CommandResult:
    return CommandResult(events=agent.compact(focus=focus))


def _recall(agent: Agent, query: str) -> CommandResult:
    return CommandResult(agent.session.recall(query).text())


def _undo(agent: Agent, _argument: str) -> CommandResult:
    return CommandResult(events=agent.undo_compaction())


def _threshold(agent: Agent, tokens: str) -> CommandResult:
    if tokens:
        try:
            agent.engine.set_threshold(int(tokens.replace(",", "").replace("_", "")))
        except ValueError:
            raise NbchatError(
                f"/threshold takes a number of tokens, not {tokens!r}"
            ) from None
    threshold = agent.engine.context_token_threshold
    if threshold is None:
        return CommandResult("no threshold: the model's window is not known")
    return CommandResult(f"compacts at {threshold:,} input tokens")


def _model(agent: Agent, name: str) -> CommandResult:
    if name:
        agent.use(connect(name))
    return CommandResult(agent.provider.name)
