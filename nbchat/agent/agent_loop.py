"""Run a turn: requests, tool calls and compactions until the model has answered.

Calls in a row of tools that allow it run in parallel; pictures follow the results.

What a stopped or broken reply produced is kept, with what it cost.
"""

import time
from collections.abc import (
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from dataclasses import replace
from functools import cached_property, partial
from itertools import groupby
from threading import Event as Flag
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from nbchat.agent.approvals import approvals_of, is_approved
from nbchat.agent.budget import check_price
from nbchat.agent.compactor import Compactor
from nbchat.agent.context_tools import with_kept_promises
from nbchat.agent.running_turn import StopFlag, TurnOptions
from nbchat.agent.structured_output import ATTEMPTS, SCHEMA_REFUSED
from nbchat.compaction.triggers.context_tracker import ContextTracker
from nbchat.conversation import events
from nbchat.conversation.entries import (
    INCOMPLETE,
    REQUESTED,
    Entry,
    Usage,
    denied_result,
    failed_result,
)
from nbchat.conversation.events import (
    Delta,
    Event,
    StopReason,
    TextDelta,
    ThinkingDelta,
)
from nbchat.conversation.json_schemas import schema_text
from nbchat.conversation.returned_values import ToolOutput
from nbchat.conversation.session import Session
from nbchat.conversation.tools import key_of, run_tool
from nbchat.conversation.turns import INTERRUPTED, calls_by_result, open_calls
from nbchat.errors import (
    AnswerInvalid,
    NbchatError,
    PreviewFailed,
    RequestRefused,
    Stopped,
)
from nbchat.providers.base import (
    Reply,
    ReplyStream,
    Request,
    instructions,
)

if TYPE_CHECKING:
    from nbchat.agent.agent import Agent

INVALID_ANSWER = "This answer is not valid: {}. Answer again, with only the JSON."

BROKEN_OFF = "Your answer was cut off. Write it again from the beginning."

GO_ON = "Your answer was cut off. Continue exactly where it ends, and repeat nothing."

Events = Generator[Event, None, None]

Entries = tuple[Entry, ...]


class TurnRunner:
    """Runs the turns of an agent, one at a time.

    All methods run while the agent's lock is held, and yield events.
    """

    def __init__(self, agent: "Agent", publish: Callable[[Event], object]) -> None:
        """`publish` passes on the events that cannot be yielded after an interrupt."""
        self._agent = agent
        self._publish = publish
        self.options = TurnOptions(StopFlag(None))
        """Options of the running turn."""
        self.compactor = Compactor(agent, self.base_request, publish)
        self._tool_calls = ToolCalls(
            agent, self.append, self.compactor.shorten_newest, publish
        )

    def say(self, entries: Iterable[Entry]) -> Events:
        """Append messages to the transcript."""
        yield from map(self.append, entries)

    def go_on(self, request: str = BROKEN_OFF) -> Events:
        """Answer the calls that an interrupted turn left open.

        `request` asks for the rest of an answer that was cut off, or for all of it.
        """
        repeatable = self._repeatable_calls()
        yield from self.answer_open_calls(INTERRUPTED, but=repeatable)
        if self._agent.session.transcript[-1].is_incomplete:
            yield self.append(Entry("user", request, tool_args=REQUESTED))

    def run(self, begin: Callable[[], Events], options: TurnOptions) -> Events:
        """Begin a turn and ask the model until the turn ends."""
        self.options = options
        self._prepare(options)
        yield from begin()
        steps: list[Reply] = []
        try:
            reason = yield from self._within_budgets(steps, options)
        except Stopped:
            yield from self.answer_open_calls("stopped before it ran")
            yield events.TurnFinished("stopped", len(steps))
        except NbchatError as error:
            yield from self.answer_open_calls("the turn failed before it ran")
            yield events.TurnFailed(str(error), error)
        except BaseException:  # KeyboardInterrupt, or the caller closed the turn
            for event in self.answer_open_calls("interrupted before it ran"):
                self._publish(event)
            raise
        else:
            yield events.TurnFinished(reason, len(steps))
            if self._agent.compacts_later:
                self.compactor.begin_in_background(self._agent.on_summary_ready)
        finally:
            self.options = TurnOptions(StopFlag(None))

    def _prepare(self, options: TurnOptions) -> None:
        if (approvals := approvals_of(self._agent.approve)) is not None:
            approvals.begin(self._agent.session, options.stop)
        if self._is_local:  # it answers one after the other
            self.compactor.cancel_background()

    @property
    def _is_local(self) -> bool:
        """True if the model is the embedded one."""
        return self._agent.provider.name.startswith("local:")

    def _within_budgets(
        self, steps: list[Reply], options: TurnOptions
    ) -> Generator[Event, None, StopReason]:
        with ExitStack() as running:
            for meter in options.meters:
                running.enter_context(meter.running())
                check_price(meter, self._agent.provider)
            reason = yield from self._steps(steps, options)
            if not options.is_used_up:
                later = self._agent.compacts_later
                yield from self.compactor.if_due(
                    options.stop, is_turn_over=True, later=later
                )
        return reason

    def _steps(
        self, steps: list[Reply], options: TurnOptions
    ) -> Generator[Event, None, StopReason]:
        """Ask and run tools until the model has nothing more to call."""
        yield from self._tool_calls.run(self._repeatable_calls(), options.stop)
        invalid: list[str] = []
        while len(steps) < self._agent.max_steps:
            if options.is_used_up:
                return "budget"
            yield from self.compactor.if_due(options.stop)
            ask = partial(self._ask, repairs=bool(invalid))
            reply = yield from self.compactor.within_window(ask, options.stop)
            steps.append(reply)
            yield from self._append_reply(reply)
            if reply.calls:
                yield from self._tool_calls.run(reply.calls, options.stop)
                continue
            reason = reply.stop_reason
            is_whole = reason in ("end_turn", "tool_use")
            problem = options.problem(reply.text) if is_whole else ""
            if not problem:
                return "end_turn" if reason == "tool_use" else reason
            invalid.append(problem)
            yield from self._ask_again(invalid, options)
        return "max_steps"

    def _ask_again(self, invalid: list[str], options: TurnOptions) -> Events:
        """Name the fault of an answer; raises AnswerInvalid after the last attempt."""
        if len(invalid) >= ATTEMPTS and options.output is not None:
            name = self._agent.provider.name
            raise AnswerInvalid(
                f"{name} gave no valid {options.output.name} in {ATTEMPTS} attempts: "
                f"{invalid[-1]}"
            )
        text = INVALID_ANSWER.format(invalid[-1])
        yield self.append(Entry("user", text, tool_args=REQUESTED))

    def _ask(self, *, repairs: bool = False) -> Generator[Event, None, Reply]:
        live = self._agent.live_context
        request = self.next_request(repairs=repairs)
        request = replace(request, live=live() if live else "")
        try:
            return (yield from self._sent(request))
        except RequestRefused as error:
            is_schema = request.output_schema and SCHEMA_REFUSED.search(str(error))
            if not is_schema:
                raise
        refused = schema_text(request.output_schema or {})
        self._agent.refused_schemas.add((self._agent.provider.name, refused))
        return (yield from self._sent(replace(request, output_schema=None)))

    def _sent(self, request: Request) -> Generator[Event, None, Reply]:
        options, provider = self.options, self._agent.provider
        stream = self._agent.send(
            provider, request, stop=options.stop, live=not options.unread.is_set()
        )
        return (yield from keep_partial(stream, self._append_partial, self._publish))

    def _append_partial(self, entries: tuple[Entry, ...]) -> Events:
        if entries:
            agent = self._agent
            usage = estimated_usage(entries, agent.session, agent.engine.tracker)
            reply = Reply(entries, usage, "end_turn", agent.provider.name)
            yield from self._append_reply(reply)

    def next_request(self, *, repairs: bool = False) -> Request:
        """The next request; one that `repairs` an answer calls no tool."""
        choice = self._agent.tool_choice
        chosen = choice if isinstance(choice, str) else choice(self._agent.session)
        return replace(
            self.base_request(),
            tool_choice="none" if repairs else chosen,
            max_output_tokens=self._agent.max_output_tokens,
            output_schema=self._enforced_schema(),
        )

    def _enforced_schema(self) -> Mapping[str, Any] | None:
        """The schema of the answer; None without one, or where it was refused."""
        output = self.options.output
        if output is None:
            return None
        asked = (self._agent.provider.name, schema_text(output.schema))
        return None if asked in self._agent.refused_schemas else output.schema

    def base_request(self) -> Request:
        """The next request without its options: history, system prompt and tools."""
        tools = self._agent.tools
        history = with_kept_promises(self._agent.session, tools)
        system = instructions(self._agent.system, self._agent.session.pins)
        if (output := self.options.output) is not None:
            system = "\n\n".join(filter(None, (system, output.instruction)))
        return Request(
            history,
            system,
            tools,
            options=self._agent.options,
        )

    def _append_reply(self, reply: Reply) -> Events:
        """Append a reply, its usage with the last entry, and count the usage."""
        usage = replace(reply.usage, model=reply.model)
        loss = self._agent.engine.tracker.cache_loss(usage)
        usage = replace(usage, cache_loss=loss)
        entries = reply.entries or [incomplete("")]  # an empty reply is billed, too
        for number, entry in enumerate(entries, 1):
            is_last = number == len(entries)
            yield self.append(entry, usage if is_last else None)
        session, engine = self._agent.session, self._agent.engine
        engine.update_token_count(usage, position=len(session.transcript))
        yield events.UsageReported(
            usage,
            engine.tracker.input_tokens,
            engine.tracker.limits.threshold,
            engine.tracker.context_tokens(session),
            engine.tracker.info.window,
        )

    def append(self, entry: Entry, usage: Usage | None = None) -> events.EntryAdded:
        """Append an entry to the transcript; the usage is of the request it ends."""
        position = self._agent.session.append(entry, usage)
        counter = self._agent.engine.tracker.counter
        if counter.is_loaded:  # a plan needs the sizes of all entries at once
            counter.count_entry(entry)
        return events.EntryAdded(position, entry, usage)

    def _repeatable_calls(self) -> list[Entry]:
        """Open calls of idempotent tools, whose results were lost."""
        names = {each.name for each in self._agent.tools if each.idempotent}
        calls = open_calls(self._agent.session.history)
        return [each for each in calls if each.tool_name in names]

    def answer_open_calls(self, reason: str, but: Sequence[Entry] = ()) -> Events:
        """Answer every call that will not run, so that the history stays legal."""
        for call in open_calls(self._agent.session.history):
            if call not in but:
                yield self.append(failed_result(call, reason))


def keep_partial(
    stream: ReplyStream,
    keep: Callable[[Entries], Iterator[Event]],
    publish: Callable[[Event], object],
) -> Generator[Event, None, Reply]:
    """The deltas and reply of a stream; `keep` gets the entries of a partial reply.

    Stop and a broken stream raise NbchatError: events of what is kept are yielded.
    After KeyboardInterrupt, or when the caller closes the turn, they go to `publish`.
    """
    arrived: list[Delta] = []
    try:
        while True:
            delta = next(stream)
            arrived.append(delta)
            yield delta
    except StopIteration as finished:
        reply: Reply = finished.value
        return reply
    except BaseException as error:
        stream.close()
        kept = keep(_entries(arrived))
        if isinstance(error, NbchatError):
            yield from kept
        else:
            for event in kept:
                publish(event)
        raise


def estimated_usage(
    entries: Entries, session: Session, tracker: ContextTracker
) -> Usage:
    """The estimated usage of a response with these entries, before they are appended.

    Assumes that what the last response left in the server's cache was read from there.
    """
    context_tokens, count = tracker.context_tokens(session), tracker.counter.count
    usage = Usage(
        context_tokens,
        sum(count(entry.content) for entry in entries),
        min(_cached_tokens(session), context_tokens),
        is_estimated=True,
        dropped_tokens=sum(count(e.content) for e in entries if e.role == "thinking"),
    )
    return tracker.info.priced(usage)


def incomplete(text: str) -> Entry:
    """The entry of an answer that was cut short."""
    return Entry("assistant", text, tool_args=INCOMPLETE)


def _entries(arrived: list[Delta]) -> Entries:
    """The entries of a partial answer; empty if nothing had arrived."""
    text = "".join(each.text for each in arrived if isinstance(each, TextDelta))
    thought = "".join(each.text for each in arrived if isinstance(each, ThinkingDelta))
    thinking = [Entry("thinking", thought)] if thought else []
    return (*thinking, incomplete(text)) if text or thought else ()


def _cached_tokens(session: Session) -> int:
    """Tokens that the last response left in a cache; none after a compaction."""
    since = session.compaction.committed_at if session.compaction else 0
    position, usage = session.usages[-1] if session.usages else (0, Usage())
    return usage.cache_read_tokens + usage.cache_write_tokens if position > since else 0


MOST_PARALLEL = 8
"""Calls of one reply that run at the same time."""

NEEDS_APPROVAL = (
    "not run: this tool changes something and needs approval, but the program passed "
    "no approve= to Agent"
)


class ToolCalls:
    """Runs the tool calls of an agent."""

    def __init__(
        self,
        agent: "Agent",
        append: Callable[[Entry, Usage | None], events.EntryAdded],
        shorten: Callable[[str], Events],
        publish: Callable[[Event], object],
    ) -> None:
        """`append` adds an entry to the transcript.

        `shorten` replaces an output that is too long by what its tool wants shown.
        `publish` passes on the events that cannot be yielded after an interrupt.
        """
        self._agent = agent
        self._append = append
        self._shorten = shorten
        self._publish = publish

    @cached_property
    def _unsaved_id(self) -> str:
        """Part of idempotency keys for sessions that aren't stored."""
        return uuid4().hex

    def run(self, calls: Iterable[Entry], stop: Flag | None) -> Events:
        """Run calls in order and append their results, then their pictures.

        Calls in a row of tools that allow it run in parallel.
        """
        pictures: list[Entry] = []
        for group in self._groups(calls):
            if stop is not None and stop.is_set():
                raise Stopped("stopped")
            for output in (yield from self._outputs(group, stop)):
                yield from self._append_output(output)
                pictures += output.pictures
        for each in pictures:
            yield self._append(each, None)

    def _groups(self, calls: Iterable[Entry]) -> Iterator[list[Entry]]:
        tools = {each.name: each for each in self._agent.tools}

        def is_parallel(call: Entry) -> bool:
            return call.tool_name in tools and tools[call.tool_name].parallel

        for together, run in groupby(calls, is_parallel):
            found = list(run)
            yield from [found] if together else ([each] for each in found)

    def _outputs(
        self, calls: Sequence[Entry], stop: Flag | None
    ) -> Generator[Event, None, list[ToolOutput]]:
        """The outputs of calls; after an interrupt what is known of them is kept."""
        known: dict[int, ToolOutput] = {}
        for number, call in enumerate(calls):
            yield events.ToolRequested(call)
            if (refused := self._refused(call, stop)) is not None:
                known[number] = ToolOutput(refused)
        work = {
            number: partial(self._run, call, stop)
            for number, call in enumerate(calls)
            if number not in known
        }
        futures = _started(work) if len(work) > 1 else {}
        try:
            for number, run in work.items():
                known[number] = futures[number].result() if futures else run()
        except Stopped:
            yield from self._interrupted(calls, known, futures)
            raise
        except BaseException:  # KeyboardInterrupt, after which nothing can be yielded
            for event in self._interrupted(calls, known, futures):
                self._publish(event)
            raise
        return [known[number] for number in range(len(calls))]

    def _interrupted(
        self,
        calls: Sequence[Entry],
        known: dict[int, ToolOutput],
        futures: "Mapping[int, Future[ToolOutput]]",
    ) -> Events:
        """Append what is known of calls that were interrupted."""
        known |= {n: each.result() for n, each in futures.items() if _is_well(each)}
        for number, call in enumerate(calls):
            output = known.get(number)
            entry = output.entry if output else failed_result(call, INTERRUPTED)
            yield self._append(entry, None)

    def _run(self, call: Entry, stop: Flag | None) -> ToolOutput:
        key, began = partial(self._key, call), time.monotonic()
        output = run_tool(self._agent.tools, call, key=key, stop=stop)
        return replace(output, seconds=time.monotonic() - began)

    def _append_output(self, output: ToolOutput) -> Events:
        yield replace(self._append(output.entry, None), seconds=output.seconds)
        yield from self._shorten(output.shown)

    def _refused(self, call: Entry, stop: Flag | None) -> Entry | None:
        """The result of a call that may not run; None if it may."""
        tools = (each for each in self._agent.tools if each.name == call.tool_name)
        called, approve = next(tools, None), self._agent.approve
        if called is None or called.read_only:
            return None
        if approve is None:
            is_safe = called.read_only is None and not called.server
            return None if is_safe else failed_result(call, NEEDS_APPROVAL)
        try:
            may_run = is_approved(
                call, approve=approve, tool=called, agent=self._agent, stop=stop
            )
        except PreviewFailed as error:
            return failed_result(call, f"not run: {error}")
        if may_run:
            return None
        approvals = approvals_of(approve)
        return denied_result(call, approvals.reason(call) if approvals else "")

    def _key(self, call: Entry) -> str:
        """The idempotency key of a call.

        The same calls before it count that have not failed and were not interrupted.
        """
        session = self._agent.session
        entries = session.transcript[:]
        place = next(n for n in reversed(range(len(entries))) if entries[n] is call)
        results = {c: entries[r] for r, c in calls_by_result(entries).items()}
        same = (
            number
            for number, entry in enumerate(entries[:place])
            if entry.is_call
            and entry.tool_name == call.tool_name
            and entry.arguments == call.arguments
        )
        succeeded = sum(
            number not in results or not results[number].is_error for number in same
        )
        return key_of(session.session_id or self._unsaved_id, call, succeeded)


def _started(
    work: Mapping[int, Callable[[], ToolOutput]],
) -> "dict[int, Future[ToolOutput]]":
    """Calls that run on threads, with the context variables of this one."""
    pool = ThreadPoolExecutor(min(len(work), MOST_PARALLEL), "nbchat-tools")
    futures = {
        number: pool.submit(copy_context().run, each) for number, each in work.items()
    }
    pool.shutdown(wait=False)
    return futures


def _is_well(future: "Future[ToolOutput]") -> bool:
    return future.done() and not future.cancelled() and future.exception() is None
