"""One turn as a generator of events: ask, run tools, compact, until there is an answer.

The agent is the only one who changes a session. It knows no widget and no database; a
listener is told every event before the caller sees it.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from threading import Condition
from threading import Event as Flag
from typing import Protocol

from nbchat.agent.approvals import approvals_of
from nbchat.agent.compacting import Upkeep
from nbchat.agent.live_output import shown
from nbchat.agent.partial_reply import estimated_usage, incomplete, kept_if_broken_off
from nbchat.agent.turn import Answer, Turn
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.triggers.context_breakdown import ContextUsage, context_usage
from nbchat.conversation.entries import (
    Entry,
    Usage,
    denied_result,
    failed_result,
    html_table,
)
from nbchat.conversation.events import (
    EntryAdded,
    Event,
    SavingFailed,
    StopReason,
    ToolRequested,
    TurnFailed,
    TurnFinished,
    UsageReported,
)
from nbchat.conversation.search import recall_tool
from nbchat.conversation.session import Session
from nbchat.conversation.tools import as_tools, run_tool
from nbchat.conversation.turns import INTERRUPTED, open_calls
from nbchat.errors import (
    ContextOverflow,
    LogUnwritten,
    NbchatError,
    Stopped,
    StoreError,
)
from nbchat.providers.base import (
    Provider,
    Reply,
    Request,
    SupportsWarmUp,
    fixed_tokens,
    instructions,
)
from nbchat.providers.connect import connect
from nbchat.providers.legal_history import LegalHistory
from nbchat.providers.streaming import stream_with_retries

DEFAULT_MAX_STEPS = 50

Events = Generator[Event, None, None]


class SessionRecorder(Protocol):
    """Saves the session of an agent, event by event."""

    def __call__(self, event: Event) -> None:
        """Save what an event has added; raises StoreError."""

    def save(self) -> None:
        """Save everything that is not saved yet; raises StoreError."""

    def write_log_to(self, folder: str) -> None:
        """Keep a Markdown log in this folder from now on; empty for none."""


class Agent:
    """A model with tools and a conversation that is compacted when it grows.

    agent = Agent(tools=[get_ticket, close_ticket], system="You triage tickets.")
    for event in agent.run("Work through all tickets."):
        ...
    """

    def __init__(
        self,
        provider: Provider | str = "",
        *,
        tools: Iterable[Callable[..., object]] = (),
        system: str = "",
        engine: CompactionEngine | None = None,
        session: Session | None = None,
        tool_choice: str | Callable[[Session], str] = "auto",
        max_steps: int = DEFAULT_MAX_STEPS,
        max_output_tokens: int | None = None,
        approve: Callable[[Entry], bool] | None = None,
        listener: Callable[[Event], None] | None = None,
        recall: bool = False,
    ) -> None:
        """Without a provider the key in the environment chooses one, else it is local.

        `tool_choice` is auto, none, required or a tool's name, or a function of the
        session that says which; so code can hold the workflow while the model judges.
        `approve` is asked before each call; without it every tool given here may run.
        `recall` offers one more tool, for what was folded or shortened (84 tokens a
        request). Raises ConfigError when a part cannot work.
        """
        self.provider = connect(provider) if isinstance(provider, str) else provider
        self.system = system
        self.session = session or Session()
        self.engine = engine or CompactionEngine(context_token_threshold=None)
        looks_up = recall_tool(
            lambda: self.session, count=self.engine.tracker.counter.count
        )
        self.tools = as_tools([*tools, *[looks_up] * recall])
        self.upkeep = Upkeep(self.engine, self._tell, self._base)
        self.tool_choice = tool_choice
        self.max_steps = max_steps
        self.max_output_tokens = max_output_tokens
        self.approve = approve
        self.listener = listener
        self.recorder: SessionRecorder | None = None
        self._turns = Condition()
        self._is_running = False
        self._projection = LegalHistory()
        self.use(self.provider)
        self.engine.tracker.resume(self.session)

    def __repr__(self) -> str:
        """The model and the size of the conversation."""
        return f"<Agent {self.provider.name}: {self.session!r}>"

    def _repr_html_(self) -> str:
        held = self.context_usage()
        window = f" of {held.window:,}" if held.window else ""
        rows = {
            "Model": self.provider.name,
            "Tools": ", ".join(tool.name for tool in self.tools) or "none",
            "Context": f"{held.total:,}{window} tokens",
            "Compaction policy": self.engine.policy.name,
            "Session": repr(self.session).strip("<>").removeprefix("Session of "),
            "State": "answering" if self.is_answering else "idle",
        }
        return html_table("Agent", rows)

    @property
    def is_answering(self) -> bool:
        """Whether a turn or a change runs; another one would be refused."""
        return self._is_running

    def wait_until_idle(self, is_cancelled: Callable[[], bool]) -> None:
        """Block until no turn runs; `wake` has `is_cancelled` checked again."""
        with self._turns:
            self._turns.wait_for(lambda: not self._is_running or is_cancelled())

    def wake(self) -> None:
        """Have waiting threads check their stop again; call it after setting one."""
        with self._turns:
            self._turns.notify_all()
        if (approvals := approvals_of(self.approve)) is not None:
            approvals.wake()

    def use(self, provider: Provider, *, window: int | None = None) -> None:
        """Go on with a model, its window as the provider tells or as somebody knows.

        There is room for the longest answer that it may be asked for here. Raises
        NbchatError while a turn runs.
        """
        info = provider.info().with_window(window)
        with self.alone():
            longest = max(info.output_limit, self.max_output_tokens or 0)
            info = replace(info, output_limit=longest)
            self.engine.tracker.use_model(info, fixed_tokens=self._fixed_tokens())
            self.provider = provider

    def warm_up(self) -> None:
        """Have the provider load what its first request needs, if it can."""
        if isinstance(self.provider, SupportsWarmUp):
            self.provider.warm_up()

    def switch(self, session: Session, recorder: SessionRecorder | None = None) -> None:
        """Go on in another session, which `recorder` saves.

        Raises NbchatError while a turn runs: the rest of it belongs to the old session.
        """
        with self.alone():
            self.session, self.recorder = session, recorder
            self.engine.tracker.set_fixed_tokens(self._fixed_tokens())
            self.engine.tracker.resume(session)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While nothing else happens to this chat; raises NbchatError if it does."""
        with self._turns:
            if self._is_running:
                raise NbchatError(
                    "this chat is answering already; wait for it or stop it"
                )
            self._is_running = True
        try:
            yield
        finally:
            with self._turns:
                self._is_running = False
                self._turns.notify_all()

    def run(
        self, text: str, *, stop: Flag | None = None, attached: Iterable[Entry] = ()
    ) -> Turn:
        """A turn from the message to the answer; iterating runs it, event by event.

        `attached` is added before the message: images and files that it is about.
        Faults end in TurnFailed, a stop in TurnFinished("stopped"); both keep what had
        arrived, and the next turn works. KeyboardInterrupt passes through.
        """
        return Turn(text, self._told(self._turn(text, stop, attached)))

    def chat(
        self, text: str, *, stop: Flag | None = None, attached: Iterable[Entry] = ()
    ) -> Answer:
        """Run a turn, stream it into the notebook cell, and return the answer.

        Outside of a notebook it is printed. Raises the error that ended the turn, such
        as RateLimited (see `nbchat.errors`).
        """
        return shown(self.run(text, stop=stop, attached=attached))

    def ask(
        self, text: str, *, stop: Flag | None = None, attached: Iterable[Entry] = ()
    ) -> Answer:
        """Run a turn and return the answer; shows nothing, raises as `chat` does."""
        return self.run(text, stop=stop, attached=attached).result()

    def compact(
        self, *, focus: str = "", keep: int | None = None, stop: Flag | None = None
    ) -> Iterator[Event]:
        """Compact now, whatever the meters say; `focus` names what matters most.

        `keep` is how many of the newest tokens stay word for word, instead of what the
        policy says.
        """
        yield from self._told(self._compact(focus, keep, stop))

    def undo_compaction(self) -> Iterator[Event]:
        """Take back the compaction in force; the model sees what it saw before it."""
        yield from self._told(self.upkeep.undo(self.session))

    def redo_compaction(self) -> Iterator[Event]:
        """Bring back the compaction undone last, unless another one has come since."""
        yield from self._told(self.upkeep.redo(self.session))

    def edit_compaction(self, text: str) -> Iterator[Event]:
        """Let `text` be the summary the model sees; the facts kept by code stay."""
        yield from self._told(self.upkeep.edit(self.session, text))

    def regenerate_compaction(
        self, *, focus: str = "", stop: Flag | None = None
    ) -> Iterator[Event]:
        """Have the summary in force written anew; the old one stays if that fails."""
        yield from self._told(
            self.upkeep.regenerate(self.session, self.provider, focus=focus, stop=stop)
        )

    def exclude(self, place: int) -> Iterator[Event]:
        """Keep what stands at a place of the transcript from the model."""
        yield from self._told(self.upkeep.exclude(self.session, place))

    def include(self, place: int) -> Iterator[Event]:
        """Let the model see again what was left out."""
        yield from self._told(self.upkeep.include(self.session, place))

    def pin(self, text: str) -> Iterator[Event]:
        """Keep a rule word for word through every compaction; at most 2,000 tokens."""
        yield from self._told(self._weighed(self.upkeep.pin(self.session, text)))

    def checkpoint(self, text: str) -> Iterator[Event]:
        """Keep the state of the work word for word, until the next checkpoint."""
        changes = self.upkeep.checkpoint(self.session, text)
        yield from self._told(self._weighed(changes))

    def import_summary(self, other: Session) -> Iterator[Event]:
        """Go on from another session's summary; raises NbchatError if it has none."""
        compaction = other.compaction
        if compaction is None:
            raise NbchatError(f"{other!r} has no summary to import; compact it first")
        yield from self._told(self._added(compaction.entry))

    def context_usage(self) -> ContextUsage:
        """What the next request holds, part by part."""
        return context_usage(self.session, self.engine.tracker, self.system, self.tools)

    def unpin(self, number: int) -> Iterator[Event]:
        """Let a pinned rule go, by its number from 1."""
        changes = self.upkeep.unpin(self.session, number)
        yield from self._told(self._weighed(changes))

    def _turn(self, text: str, stop: Flag | None, attached: Iterable[Entry]) -> Events:
        if (approvals := approvals_of(self.approve)) is not None:
            approvals.begin(self.session, stop or Flag())
        yield from map(self._remember, [*attached, Entry("user", text)])
        steps: list[Reply] = []
        try:
            reason = yield from self._steps(steps, stop)
            yield from self._compact_if_due(stop)
        except Stopped:
            yield from self._answer_open_calls("stopped before it ran")
            yield TurnFinished("stopped", len(steps))
        except NbchatError as error:
            yield from self._answer_open_calls("the turn failed before it ran")
            yield TurnFailed(str(error), error)
        except BaseException:  # KeyboardInterrupt, or the caller closed the turn
            for event in self._answer_open_calls("interrupted before it ran"):
                self._tell(event)
            raise
        else:
            yield TurnFinished(reason, len(steps))

    def _steps(
        self, steps: list[Reply], stop: Flag | None
    ) -> Generator[Event, None, StopReason]:
        """Ask and run tools until the model has nothing more to call."""
        while len(steps) < self.max_steps:
            yield from self._compact_if_due(stop)
            reply = yield from self._ask_or_make_room(stop)
            steps.append(reply)
            yield from self._remember_reply(reply)
            if not reply.calls:
                return (
                    "end_turn" if reply.stop_reason == "tool_use" else reply.stop_reason
                )
            yield from self._run_calls(reply.calls, stop)
        return "max_steps"

    def _ask_or_make_room(self, stop: Flag | None) -> Generator[Event, None, Reply]:
        """A reply; a request that was too long is compacted once and sent once more."""
        try:
            return (yield from self._ask(stop))
        except ContextOverflow:
            before = self.session.compaction
            yield from self.upkeep.compact(
                self.session, self.provider, "overflow", stop=stop
            )
            if self.session.compaction is before:
                raise
        return (yield from self._ask(stop))

    def _ask(self, stop: Flag | None) -> Generator[Event, None, Reply]:
        stream = stream_with_retries(self.provider, self._request(), stop=stop)
        kept = kept_if_broken_off(stream, self._remember_unfinished, self._tell)
        return (yield from kept)

    def _remember_unfinished(self, entries: tuple[Entry, ...]) -> Events:
        if entries:
            usage = estimated_usage(entries, self.session, self.engine)
            reply = Reply(entries, usage, "end_turn", self.provider.name)
            yield from self._remember_reply(reply)

    def _request(self) -> Request:
        choice = self.tool_choice
        return replace(
            self._base(),
            tool_choice=choice if isinstance(choice, str) else choice(self.session),
            max_output_tokens=self.max_output_tokens,
        )

    def _base(self) -> Request:
        """All of a request that the model has read before, or reads now."""
        history = self._projection.of(self.session.history)
        system = instructions(self.system, self.session.pins)
        return Request(history, system, self.tools)

    def _remember_reply(self, reply: Reply) -> Events:
        """The reply's entries; the last carries the usage, which is then counted."""
        usage = replace(reply.usage, model=reply.model)
        entries = reply.entries or [incomplete("")]  # nothing said is paid for, too
        for place, entry in enumerate(entries, 1):
            is_last = place == len(entries)
            yield self._remember(entry, usage if is_last else None)
        position = len(self.session.transcript)
        self.engine.update_token_count(usage, position=position)
        yield UsageReported(
            usage,
            self.engine.input_tokens,
            self.engine.context_token_threshold,
            self.engine.tracker.context_tokens(self.session),
            self.engine.tracker.info.window,
        )

    def _run_calls(self, calls: Iterable[Entry], stop: Flag | None) -> Events:
        for call in calls:
            if stop is not None and stop.is_set():
                raise Stopped("stopped")
            yield ToolRequested(call)
            if self.approve is not None and not self.approve(call):
                yield self._remember(denied_result(call))
            else:
                yield self._remember(self._result(call))
                yield from self.upkeep.shorten(self.session)

    def _result(self, call: Entry) -> Entry:
        """What a tool answers; when it is broken off, that nobody knows what it did."""
        try:
            return run_tool(self.tools, call)
        except BaseException:  # KeyboardInterrupt, or the tool's own sys.exit()
            self._tell(self._remember(failed_result(call, INTERRUPTED)))
            raise

    def _answer_open_calls(self, reason: str) -> Events:
        """Answer every call that will not run, so that the history stays legal."""
        for call in open_calls(self.session.history):
            yield self._remember(failed_result(call, reason))

    def _compact(self, focus: str, keep: int | None, stop: Flag | None) -> Events:
        """Compact by hand; a call that an ended kernel left open waits for nobody."""
        yield from self._answer_open_calls(INTERRUPTED)
        yield from self.upkeep.compact(
            self.session, self.provider, "manual", stop=stop, focus=focus, keep=keep
        )

    def _compact_if_due(self, stop: Flag | None) -> Events:
        yield from self.upkeep.compact_if_due(self.session, self.provider, stop=stop)

    def _remember(self, entry: Entry, usage: Usage | None = None) -> Event:
        position = self.session.append(entry, usage)
        self.engine.tracker.counter.count_entry(
            entry
        )  # once, now: a plan wants all at once
        return EntryAdded(position, entry, usage)

    def _told(self, events: Events) -> Events:
        """The events, each told to the listener first; one turn at a time."""
        with self.alone(), closing(events):
            for event in events:
                failure = self._tell(event)
                yield event
                if failure is not None:
                    yield failure

    def _tell(self, event: Event) -> SavingFailed | None:
        """Pass an event to recorder and listener; the chat goes on if saving fails."""
        failure = None
        for observe in (self.recorder, self.listener):
            try:
                if observe is not None:
                    observe(event)
            except StoreError as error:
                failure = SavingFailed(str(error), isinstance(error, LogUnwritten))
        return failure

    def _added(self, entry: Entry) -> Events:
        yield self._remember(entry)

    def _weighed(self, events: Events) -> Events:
        """The events of a change of pins, which every request begins with."""
        try:
            yield from events
        finally:
            self.engine.tracker.set_fixed_tokens(self._fixed_tokens())

    def _fixed_tokens(self) -> int:
        system = instructions(self.system, self.session.pins)
        return fixed_tokens(system, self.tools, self.engine.tracker.counter)
