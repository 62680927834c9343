"""The agent: runs turns, tools and compactions, and yields what happens as events.

Only the agent changes a session. It knows no widget and no database: its recorder and
its listener get each event before the caller does.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from functools import partial
from threading import Event as Flag
from typing import Any, TypeVar, Unpack

from nbchat.agent.approvals import approvals_of
from nbchat.agent.compactor import Compactor
from nbchat.agent.interruptions import (
    estimated_usage,
    incomplete,
    keep_partial,
)
from nbchat.agent.live_output import shown
from nbchat.agent.recall import OffersRecall, with_kept_promises
from nbchat.agent.turn import Answer, SessionRecorder, Turn, TurnLock
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.plan import Plan
from nbchat.compaction.triggers.context_breakdown import ContextUsage, context_usage
from nbchat.conversation import events
from nbchat.conversation.entries import (
    Entry,
    Usage,
    denied_result,
    failed_result,
    html_table,
)
from nbchat.conversation.events import Event, StopReason
from nbchat.conversation.session import Session
from nbchat.conversation.tools import run_tool
from nbchat.conversation.turns import INTERRUPTED, open_calls
from nbchat.errors import (
    LogNotWritten,
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
    refuse_untaken,
    warn_of_untaken,
)
from nbchat.providers.connect import connect
from nbchat.providers.options import RequestOptions, checked
from nbchat.providers.streaming import stream_with_retries

DEFAULT_MAX_STEPS = 50

PIN_LIMIT = 2_000
"""Tokens of one pin: it is in every request from now on, as a system prompt is."""

PinOrNumber = TypeVar("PinOrNumber", str, int)

Events = Generator[Event, None, None]


class Agent(OffersRecall):
    """A model with tools and a conversation that is compacted when it grows.

    agent = Agent(tools=[get_ticket, close_ticket], system="You triage tickets.")
    agent.chat("Work through all tickets.")
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
        recall: bool | None = None,
        **options: Unpack[RequestOptions],
    ) -> None:
        """Without a provider, a key in the environment chooses it; else it is local.

        `tool_choice` is auto, none, required or a tool's name, or a function of the
        session that returns one: so code controls the workflow.
        `approve` is asked before each call; without it every tool given here may run.
        `recall` adds a tool that searches what was compacted or shortened (84 tokens
        per request); None: where something is hidden. `options` are those of requests,
        such as temperature, effort and attempts (`RequestOptions`). Raises ConfigError
        when a part cannot work.
        """
        self.provider = connect(provider) if isinstance(provider, str) else provider
        self.system = system
        self.session = session or Session()
        self.engine = engine or CompactionEngine(context_token_threshold=None)
        self._use_tools(tools, recall=recall)
        self.tool_choice = tool_choice
        self.max_steps = max_steps
        self.max_output_tokens = max_output_tokens
        self.options = checked(options)
        refuse_untaken(self.provider, self.options)
        self.approve = approve
        self.listener = listener
        self.compacts_later = False
        """Whether the summary after a turn is left to `compact_in_background`."""
        self.recorder: SessionRecorder | None = None
        self._lock = TurnLock()
        self._compactor = Compactor(self, self._base_request, self._publish)
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
        return self._lock.is_held

    def wait_until_idle(self, is_cancelled: Callable[[], bool]) -> None:
        """Block until no turn runs; `wake` has `is_cancelled` checked again."""
        self._lock.wait(is_cancelled)

    def wake(self) -> None:
        """Have waiting threads check their stop again; call it after setting one."""
        self._lock.wake()
        if (approvals := approvals_of(self.approve)) is not None:
            approvals.wake()

    def use(self, provider: Provider, *, window: int | None = None) -> None:
        """Change the model; `window` replaces the context window that is known of it.

        The longest answer that may be asked for is reserved in the window. Raises
        NbchatError while a turn runs.
        """
        info = provider.info().with_window(window)
        warn_of_untaken(provider, self.options)
        with self.alone():
            info = info.with_longest_answer(self.max_output_tokens)
            self.engine.tracker.use_model(info, fixed_tokens=self._fixed_tokens())
            self.provider = provider

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Change options of the next requests; None unsets one. Raises ConfigError."""
        changed = checked({**self.options, **options})
        refuse_untaken(self.provider, changed)
        self.options = changed

    def warm_up(self) -> None:
        """Load what the provider's first request needs, if the provider can."""
        if isinstance(self.provider, SupportsWarmUp):
            self.provider.warm_up()

    def switch(self, session: Session, recorder: SessionRecorder | None = None) -> None:
        """Continue in another session, which `recorder` saves.

        Raises NbchatError while a turn runs: the rest of it belongs to the old session.
        """
        with self.alone():
            self.cancel_background()
            self.session, self.recorder = session, recorder
            self.count_fixed_tokens()
            self.engine.tracker.resume(session)

    def alone(self) -> AbstractContextManager[None]:
        """Keep turns and changes out; raises NbchatError while one runs."""
        return self._lock.hold()

    def run(
        self, text: str, *, stop: Flag | None = None, attached: Iterable[Entry] = ()
    ) -> Turn:
        """A turn from the message to the answer; iterating runs it, event by event.

        `attached` is added before the message: images and files that it is about.
        Faults end in TurnFailed, a stop in TurnFinished("stopped"); both keep what had
        arrived, and the next turn works. KeyboardInterrupt passes through.
        """
        said = [*attached, Entry("user", text)]
        return self._started(text, self._turn(said, stop))

    def retry(self, *, stop: Flag | None = None) -> Turn:
        """Answer the last message, whose turn failed or was stopped; adds no message.

        Raises NbchatError if it has an answer already.
        """
        if not self.can_retry:
            raise NbchatError("the last message is answered; /again asks it again")
        text = self.session.transcript[self.session.last_prompt].content
        return self._started(text, self._turn([], stop))

    @property
    def can_retry(self) -> bool:
        """Whether the conversation ends before the model's next word."""
        last = self.session.transcript[-1:]
        return any(each.role in ("user", "tool") for each in last)

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
        self,
        *,
        focus: str = "",
        keep: int | None = None,
        upto: int | None = None,
        stop: Flag | None = None,
    ) -> Iterator[Event]:
        """Compact now, whatever the meters say; `focus` names what matters most.

        `keep` is how many of the newest tokens stay word for word, instead of what the
        policy says; `upto` is the index in the transcript of the last message to
        compact: all after it stay.
        """
        asked = partial(self.engine.plan, focus=focus, keep=keep, upto=upto)
        return self._exclusive(self._compact_by_hand(asked, stop))

    def compact_in_background(
        self, on_ready: Callable[[], object] = lambda: None
    ) -> bool:
        """Begin to write the summary of a context that is nearly full; True if so.

        Call it between turns. The record is committed within the next turn, as soon as
        it is there, or by `commit_background`; `on_ready` is called on another thread
        when it is. A turn begins and goes on meanwhile.
        """
        with self.alone():
            return self._compactor.begin_in_background(on_ready)

    def commit_background(self) -> Iterator[Event]:
        """Commit the summary that was written in the background, if it is there."""
        return self._exclusive(self._compactor.commit_ready())

    def cancel_background(self) -> None:
        """End a summary that is being written in the background."""
        self._compactor.cancel_background()

    def wait_for_background(self, timeout_seconds: float | None = None) -> bool:
        """Block until no summary is being written; False after the timeout."""
        return self._compactor.wait_for_background(timeout_seconds)

    def undo_compaction(self) -> Iterator[Event]:
        """Undo the compaction in force; the model sees what it saw before."""
        nothing = "there is no compaction to undo"
        return self._exclusive(self._compactor.change(self.engine.undo, None, nothing))

    def redo_compaction(self) -> Iterator[Event]:
        """Redo the compaction undone last, unless another one was made since."""
        nothing = "there is nothing to redo"
        return self._exclusive(
            self._compactor.change(self.engine.redo, "redone", nothing)
        )

    def edit_compaction(self, text: str) -> Iterator[Event]:
        """Replace the summary by `text`; the facts kept by code stay."""
        edit = partial(self.engine.edit, text=text)
        return self._exclusive(self._compactor.change(edit, "edited"))

    def regenerate_compaction(
        self, *, focus: str = "", stop: Flag | None = None
    ) -> Iterator[Event]:
        """Write the summary in force again; the old one stays if that fails."""
        return self._exclusive(self._compactor.regenerate(focus, stop))

    def exclude(self, index: int) -> Iterator[Event]:
        """Hide a message from the model, by its index in the transcript."""
        exclude = partial(self.engine.exclude, index=index)
        return self._exclusive(self._compactor.change(exclude))

    def include(self, index: int) -> Iterator[Event]:
        """Show an excluded message to the model again."""
        include = partial(self.engine.include, index=index)
        return self._exclusive(self._compactor.change(include))

    def pin(self, text: str) -> Iterator[Event]:
        """Keep a rule word for word through every compaction; at most 2,000 tokens."""
        return self._exclusive(self._change_pins(Session.pin, text))

    def checkpoint(self, text: str) -> Iterator[Event]:
        """Keep the state of the work word for word, until the next checkpoint."""
        return self._exclusive(self._change_pins(Session.checkpoint, text))

    def unpin(self, number: int) -> Iterator[Event]:
        """Remove a pinned rule, by its number from 1."""
        return self._exclusive(self._change_pins(Session.unpin, number))

    def import_summary(self, other: Session) -> Iterator[Event]:
        """Start from another session's summary; raises NbchatError if it has none."""
        if other.compaction is None:
            raise NbchatError(f"{other!r} has no summary to import; compact it first")
        imported = [other.compaction.entry]
        return self._exclusive(self._append(entry) for entry in imported)

    def context_usage(self) -> ContextUsage:
        """What the next request holds, part by part."""
        return context_usage(self.session, self.engine.tracker, self.system, self.tools)

    def _started(self, text: str, turn: Events) -> Turn:
        arrived: list[Event] = []
        return Turn(text, self._exclusive(turn, arrived.append), arrived)

    def _turn(self, said: Iterable[Entry], stop: Flag | None) -> Events:
        if (approvals := approvals_of(self.approve)) is not None:
            approvals.begin(self.session, stop or Flag())
        if self.provider.name.startswith("local:"):  # it answers one after the other
            self.cancel_background()
        yield from map(self._append, said)
        steps: list[Reply] = []
        try:
            reason = yield from self._steps(steps, stop)
            yield from self._compactor.if_due(stop, later=self.compacts_later)
        except Stopped:
            yield from self._answer_open_calls("stopped before it ran")
            yield events.TurnFinished("stopped", len(steps))
        except NbchatError as error:
            yield from self._answer_open_calls("the turn failed before it ran")
            yield events.TurnFailed(str(error), error)
        except BaseException:  # KeyboardInterrupt, or the caller closed the turn
            for event in self._answer_open_calls("interrupted before it ran"):
                self._publish(event)
            raise
        else:
            yield events.TurnFinished(reason, len(steps))

    def _steps(
        self, steps: list[Reply], stop: Flag | None
    ) -> Generator[Event, None, StopReason]:
        """Ask and run tools until the model has nothing more to call."""
        while len(steps) < self.max_steps:
            yield from self._compactor.if_due(stop)
            ask = partial(self._ask, stop)
            reply = yield from self._compactor.within_window(ask, stop)
            steps.append(reply)
            yield from self._append_reply(reply)
            if not reply.calls:
                reason = reply.stop_reason
                return "end_turn" if reason == "tool_use" else reason
            yield from self._run_calls(reply.calls, stop)
        return "max_steps"

    def _ask(self, stop: Flag | None) -> Generator[Event, None, Reply]:
        stream = stream_with_retries(self.provider, self._request(), stop=stop)
        kept = keep_partial(stream, self._append_partial, self._publish)
        return (yield from kept)

    def _append_partial(self, entries: tuple[Entry, ...]) -> Events:
        if entries:
            usage = estimated_usage(entries, self.session, self.engine.tracker)
            reply = Reply(entries, usage, "end_turn", self.provider.name)
            yield from self._append_reply(reply)

    def _request(self) -> Request:
        choice = self.tool_choice
        return replace(
            self._base_request(),
            tool_choice=choice if isinstance(choice, str) else choice(self.session),
            max_output_tokens=self.max_output_tokens,
        )

    def _base_request(self) -> Request:
        """The next request without its options: history, system prompt and tools."""
        tools = self.tools
        history = with_kept_promises(self.session.history, tools)
        system = instructions(self.system, self.session.pins)
        return Request(
            history,
            system,
            tools,
            options=self.options,
        )

    def _append_reply(self, reply: Reply) -> Events:
        """Append a reply, its usage with the last entry, and count the usage."""
        usage = replace(reply.usage, model=reply.model)
        entries = reply.entries or [incomplete("")]  # an empty reply is billed, too
        for number, entry in enumerate(entries, 1):
            is_last = number == len(entries)
            yield self._append(entry, usage if is_last else None)
        position, tracker = len(self.session.transcript), self.engine.tracker
        self.engine.update_token_count(usage, position=position)
        yield events.UsageReported(
            usage,
            tracker.input_tokens,
            tracker.limits.threshold,
            tracker.context_tokens(self.session),
            tracker.info.window,
        )

    def _run_calls(self, calls: Iterable[Entry], stop: Flag | None) -> Events:
        for call in calls:
            if stop is not None and stop.is_set():
                raise Stopped("stopped")
            yield events.ToolRequested(call)
            if self.approve is not None and not self.approve(call):
                yield self._append(denied_result(call))
            else:
                yield self._append(self._result(call))
                if shortened := self.engine.shorten(self.session):
                    yield self._compactor.commit(shortened)

    def _result(self, call: Entry) -> Entry:
        """A tool's result; after an interrupt the model reads that it is unknown."""
        try:
            return run_tool(self.tools, call)
        except BaseException:  # KeyboardInterrupt, or the tool's own sys.exit()
            self._publish(self._append(failed_result(call, INTERRUPTED)))
            raise

    def _answer_open_calls(self, reason: str) -> Events:
        """Answer every call that will not run, so that the history stays legal."""
        for call in open_calls(self.session.history):
            yield self._append(failed_result(call, reason))

    def _compact_by_hand(
        self, make_plan: Callable[[Session], Plan], stop: Flag | None
    ) -> Events:
        """Compact; calls that an ended kernel left open do not prevent it."""
        yield from self._answer_open_calls(INTERRUPTED)
        yield from self._compactor.run(make_plan(self.session), stop)

    def _change_pins(
        self, change: Callable[[Session, PinOrNumber], object], value: PinOrNumber
    ) -> Events:
        """Change the pins, with which every request begins."""
        if isinstance(value, str):
            _check_pin(self.engine.tracker.counter.count(value))
        change(self.session, value)
        self.count_fixed_tokens()
        yield events.PinsChanged(self.session.pins)

    def _append(self, entry: Entry, usage: Usage | None = None) -> Event:
        position = self.session.append(entry, usage)
        # Counted once, here: a plan needs the sizes of all entries at once.
        self.engine.tracker.counter.count_entry(entry)
        return events.EntryAdded(position, entry, usage)

    def _exclusive(
        self, running: Events, note: Callable[[Event], object] = lambda _event: None
    ) -> Events:
        """Run a turn or a change alone; each event is published before it is yielded.

        `note` gets all events that the caller gets.
        """
        with self.alone(), closing(running):
            for event in running:
                failure = self._publish(event)
                note(event)
                yield event
                if failure is not None:
                    note(failure)
                    yield failure

    def _publish(self, event: Event) -> events.SavingFailed | None:
        """Pass an event to recorder and listener; the chat goes on if saving fails."""
        failure = None
        for observe in (self.recorder, self.listener):
            try:
                if observe is not None:
                    observe(event)
            except StoreError as error:
                is_log = isinstance(error, LogNotWritten)
                failure = events.SavingFailed(str(error), is_log)
        return failure

    def count_fixed_tokens(self) -> None:
        """Count what is in each request: system prompt, tools and pins."""
        self.engine.tracker.set_fixed_tokens(self._fixed_tokens())

    def _fixed_tokens(self) -> int:
        system = instructions(self.system, self.session.pins)
        return fixed_tokens(system, self.tools, self.engine.tracker.counter)


def _check_pin(tokens: int) -> None:
    if tokens > PIN_LIMIT:
        raise NbchatError(
            f"this text has {tokens:,} tokens; a pin may have {PIN_LIMIT:,}, because "
            "it is sent with every request"
        )
