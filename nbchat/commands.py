"""What can be said to the chat itself: one table for the panel, `%chat` and the CLI."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Event as Flag

from nbchat.agent import Agent
from nbchat.build import recorder
from nbchat.compaction.envelope import story
from nbchat.errors import ConfigError, NbchatError
from nbchat.events import Event
from nbchat.providers import connect
from nbchat.render import compaction_text
from nbchat.session import Session
from nbchat.store import SessionStore


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command says, and what it makes happen while its events are read."""

    text: str = ""
    events: Iterator[Event] = field(default_factory=lambda: iter(()))


Stop = Flag | None

Command = Callable[[Agent, str, Stop], CommandResult]


class Commands:
    """The commands, with the store that some of them need."""

    def __init__(self, store: SessionStore) -> None:
        """Sessions are listed in and resumed from `store`."""
        self._store = store
        self.table: dict[str, tuple[Command, str]] = {
            "help": (self._help, "this list"),
            "context": (_context, "what the context holds, and when it is compacted"),
            "compact": (_compact, "[focus]  compact now; focus says what matters most"),
            "plan": (_plan, "what a compaction would do now; calls no model"),
            "recall": (_recall, "text or number  what was said, folded or not"),
            "undo": (_undo, "take back the last compaction"),
            "redo": (_redo, "bring back what was undone last"),
            "edit": (_edit, "[text]  show the summary, or put your own in its place"),
            "regenerate": (_regenerate, "[focus]  have the summary written anew"),
            "pin": (_pin, "[text]  list the rules, or add one no compaction touches"),
            "unpin": (_unpin, "number  let a rule go"),
            "threshold": (_threshold, "[tokens]  show or set when to compact"),
            "model": (_model, "[provider:name]  show or change the model"),
            "new": (self._new, "begin another session; this one is kept"),
            "sessions": (self._sessions, "list the sessions"),
            "resume": (self._resume, "id  go on with a session"),
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

    def _help(self, _agent: Agent, _argument: str, _stop: Stop) -> CommandResult:
        lines = [f"/{name} {text}" for name, (_, text) in self.table.items()]
        return CommandResult("\n".join(lines))

    def _new(self, agent: Agent, _argument: str, _stop: Stop) -> CommandResult:
        self._switch(agent, Session())
        return CommandResult("a new session; /sessions lists the earlier ones")

    def _sessions(self, _agent: Agent, _argument: str, _stop: Stop) -> CommandResult:
        found = self._store.sessions()
        lines = [f"{s.id}  {s.used_at[:16]}  {s.entries:4}  {s.title}" for s in found]
        return CommandResult("\n".join(lines) or "there is no session yet")

    def _resume(self, agent: Agent, session_id: str, _stop: Stop) -> CommandResult:
        self._switch(agent, self._store.load(session_id))
        return CommandResult(f"back in {agent.session!r}")

    def _switch(self, agent: Agent, session: Session) -> None:
        agent.switch(session, recorder(self._store, session, agent))


def _context(agent: Agent, _argument: str, _stop: Stop) -> CommandResult:
    engine, session = agent.engine, agent.session
    plan = engine.plan(session)
    usage = session.usage
    rows = {
        "model": agent.provider.name,
        "context": _of(engine.context_tokens(session), engine.info.window, "tokens"),
        "  fixed": f"{engine.floor_tokens:,} tokens: system prompt, pins and tools",
        "since compaction": _of(
            engine.input_tokens, engine.context_token_threshold, "input tokens"
        ),
        "automatic": engine.should_compact(session).reason,
        "history": f"{len(session.history)} entries of {len(session.transcript)} ever "
        f"said, {len(session.active_compactions)} compactions",
        "last compaction": _last(session),
        "pinned": f"{len(session.pins)} rules; /pin lists them",
        "used": f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out",
        "compact now": plan.skip or f"would leave about {plan.tokens_after:,} tokens",
    }
    return CommandResult("\n".join(f"{name:17}{text}" for name, text in rows.items()))


def _last(session: Session) -> str:
    """What became of the newest compaction, and why, when it is not in force."""
    if not session.compactions:
        return "none"
    return compaction_text(session.compactions[-1])


def _of(amount: int, limit: int | None, unit: str) -> str:
    return f"{amount:,} {unit}" + (f" of {limit:,}" if limit else "")


def _compact(agent: Agent, focus: str, stop: Stop) -> CommandResult:
    return CommandResult(events=agent.compact(focus=focus, stop=stop))


def _plan(agent: Agent, _argument: str, _stop: Stop) -> CommandResult:
    plan = agent.engine.plan(agent.session)
    if plan.skip:
        return CommandResult(f"nothing would be compacted: {plan.skip}")
    return CommandResult(
        f"{plan.stop - plan.start} entries would be folded into a summary, "
        f"{len(agent.session.transcript) - plan.stop} would stay as they are: "
        f"{plan.tokens_before:,} → about {plan.tokens_after:,} tokens"
    )


def _recall(agent: Agent, query: str, _stop: Stop) -> CommandResult:
    return CommandResult(agent.session.recall(query).text())


def _undo(agent: Agent, _argument: str, _stop: Stop) -> CommandResult:
    return CommandResult(events=agent.undo_compaction())


def _redo(agent: Agent, _argument: str, _stop: Stop) -> CommandResult:
    return CommandResult(events=agent.redo_compaction())


def _edit(agent: Agent, text: str, _stop: Stop) -> CommandResult:
    if text:
        return CommandResult(events=agent.edit_compaction(text))
    compaction = agent.session.compaction
    return CommandResult(
        story(compaction.summary) if compaction else "there is no summary to edit"
    )


def _regenerate(agent: Agent, focus: str, stop: Stop) -> CommandResult:
    return CommandResult(events=agent.regenerate_compaction(focus=focus, stop=stop))


def _pin(agent: Agent, text: str, _stop: Stop) -> CommandResult:
    if text:
        return CommandResult(events=agent.pin(text))
    lines = [f"{n}  {each}" for n, each in enumerate(agent.session.pins, 1)]
    return CommandResult("\n".join(lines) or "nothing is pinned")


def _unpin(agent: Agent, number: str, _stop: Stop) -> CommandResult:
    if not number.isdecimal():
        raise NbchatError(f"/unpin takes a number that /pin lists, not {number!r}")
    return CommandResult(events=agent.unpin(int(number)))


def _threshold(agent: Agent, tokens: str, _stop: Stop) -> CommandResult:
    policy = agent.engine.policy
    if policy.meter != "cumulative":
        return CommandResult(
            f"the policy {policy.name!r} has no threshold: its meter is {policy.meter}"
        )
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


def _model(agent: Agent, name: str, _stop: Stop) -> CommandResult:
    if name:
        agent.use(connect(name))
    return CommandResult(agent.provider.name)
