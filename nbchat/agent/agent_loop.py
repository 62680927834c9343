"""Run a turn: requests, tool calls and compactions until the model has answered.

What a stopped or broken reply produced is kept, with what it cost.
"""

from collections.abc import (
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from nbchat.agent.approvals import approvals_of
from nbchat.agent.budget import check_price
from nbchat.agent.compactor import Compactor
from nbchat.agent.context_tools import with_kept_promises
from nbchat.agent.running_turn import StopFlag, TurnOptions
from nbchat.agent.structured_output import ATTEMPTS, SCHEMA_REFUSED
from nbchat.agent.tool_calls import ToolCalls
from nbchat.compaction.triggers.context_tracker import ContextTracker
from nbchat.conversation import events
from nbchat.conversation.entries import (
    INCOMPLETE,
    REQUESTED,
    Entry,
    Usage,
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
from nbchat.conversation.session import Session
from nbchat.conversation.turns import INTERRUPTED, open_calls
from nbchat.errors import AnswerInvalid, NbchatError, RequestRefused, Stopped
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
