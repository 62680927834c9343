"""The agent: runs turns, tools and compactions, and yields what happens as events.

Only the agent changes a session. It knows no widget and no database: its recorder and
its listener get each event before the caller does.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from copy import deepcopy
from dataclasses import replace
from functools import partial
from threading import Event as Flag
from typing import Any, Self, Unpack

from nbchat.agent.approvals import approvals_of
from nbchat.agent.budget import Budget, Meter, check_price, meter_of
from nbchat.agent.compactor import Compactor
from nbchat.agent.history_changes import ChangesHistory
from nbchat.agent.interruptions import (
    estimated_usage,
    incomplete,
    keep_partial,
)
from nbchat.agent.live_output import shown, shown_async
from nbchat.agent.many_tasks import ManyTasks
from nbchat.agent.recall import with_kept_promises
from nbchat.agent.structured_output import (
    ATTEMPTS,
    SCHEMA_REFUSED,
    output_type,
)
from nbchat.agent.telemetry import Telemetry
from nbchat.agent.tool_calls import Approve, ToolCalls
from nbchat.agent.turn import (
    Answer,
    SessionRecorder,
    StopFlag,
    Turn,
    TurnLock,
    TurnOptions,
)
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.triggers.context_breakdown import ContextUsage, context_usage
from nbchat.conversation import events
from nbchat.conversation.entries import Entry, Usage, html_table
from nbchat.conversation.events import Event, StopReason
from nbchat.conversation.session import Session
from nbchat.conversation.turns import INTERRUPTED, has_unfinished_turn
from nbchat.errors import (
    AnswerInvalid,
    LogNotWritten,
    NbchatError,
    RequestRefused,
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

INVALID_ANSWER = (
    "This answer is not valid: {}. Answer again, with nothing but the JSON."
)

BROKEN_OFF = "Your answer broke off. Give it again, from its beginning."

Events = Generator[Event, None, None]


class Agent(ChangesHistory, ManyTasks):
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
        approve: Approve = None,
        listener: Callable[[Event], object] | None = None,
        recall: bool | None = None,
        budget: Budget | None = None,
        **options: Unpack[RequestOptions],
    ) -> None:
        """Without a provider, a key in the environment chooses it; else it is local.

        `tool_choice` is auto, none, required or a tool's name, or a function of the
        session that returns one: so code controls the workflow.
        `approve` is asked before each call of a tool that is not `read_only`; True
        approves all. Without it every tool runs but those that declare
        `read_only=False`. `budget` holds for all turns together.
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
        self._telemetry = Telemetry(
            lambda: (self.provider.name, self.session.session_id)
        )
        self.meter = meter_of(budget)
        """What was used of the agent's budget; None without one."""
        self.send = stream_with_retries
        """Sends a request and streams its reply; `map_agents` collects batches here."""
        self.compacts_later = False
        """Whether the summary after a turn is left to `compact_in_background`."""
        self.recorder: SessionRecorder | None = None
        self._lock = TurnLock()
        self._options = TurnOptions(StopFlag(None))
        self._unenforced: set[str] = set()
        """Providers that have refused a schema for answers."""
        self._compactor = Compactor(self, self._base_request, self._publish)
        self._tool_calls = ToolCalls(
            self, self._append, self._compactor.commit, self._publish
        )
        self.use(self.provider)
        self.engine.tracker.resume(self.session)

    def __repr__(self) -> str:
        """The model and the size of the conversation."""
        return f"<Agent {self.provider.name}: {self.session!r}>"

    def another(self, session: Session | None = None) -> Self:
        """An agent like this one, in a new session or the given one."""
        return type(self)(session=session, **self._recipe)

    def __reduce__(self) -> Any:
        """Pickled by recipe, with its session and what saves it."""
        return _remade, (type(self), self._recipe, self.session, self.recorder)

    @property
    def _recipe(self) -> dict[str, Any]:
        """The arguments that make an agent like this one."""
        return {
            "provider": self.provider,
            "tools": self._tools,
            "system": self.system,
            "engine": deepcopy(self.engine),
            "tool_choice": self.tool_choice,
            "max_steps": self.max_steps,
            "max_output_tokens": self.max_output_tokens,
            "approve": self.approve,
            "listener": self.listener,
            "recall": self.recall,
            "budget": self.meter and self.meter.budget,
            **self.options,
        }

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
            if lifetime := self.options.get("cache_lifetime"):
                info = info.with_cache_lifetime(lifetime)
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
        self,
        text: str,
        *,
        stop: Flag | None = None,
        attached: Iterable[Entry] = (),
        output: Any = None,
        budget: Budget | Meter | None = None,
    ) -> Turn:
        """A turn from the message to the answer; iterating runs it, event by event.

        `attached` is added before the message: images and files that it is about.
        `output` is the type of the answer: a pydantic model, dataclass, TypedDict or
        JSON schema; `Turn.result().value` is then validated. `budget` ends the turn
        before the request after the one that used it up.
        Faults end in TurnFailed, a stop in TurnFinished("stopped"); both keep what had
        arrived, and the next turn works. KeyboardInterrupt passes through.
        """
        prompt = [*attached, Entry("user", text)]
        return self._new_turn(text, partial(self._added, prompt), stop, output, budget)

    def retry(
        self,
        *,
        stop: Flag | None = None,
        output: Any = None,
        budget: Budget | Meter | None = None,
    ) -> Turn:
        """Go on with a turn that a crash, an error or a stop ended; adds no message.

        The model reads of each interrupted call that its result is unknown. Raises
        NbchatError if the last message has an answer already.
        """
        if not has_unfinished_turn(self.session.transcript):
            raise NbchatError("the last message is answered; /again asks it again")
        prompts = (e.content for e in reversed(self.session.transcript) if e.is_prompt)
        return self._new_turn(next(prompts, ""), self._go_on, stop, output, budget)

    @property
    def can_retry(self) -> bool:
        """Whether the conversation ends before the model's next word."""
        last = self.session.transcript[-1:]
        return any(each.role in ("user", "tool") for each in last)

    def chat(
        self,
        text: str,
        *,
        stop: Flag | None = None,
        attached: Iterable[Entry] = (),
        output: Any = None,
        budget: Budget | Meter | None = None,
    ) -> Answer:
        """Run a turn, stream it into the notebook cell, and return the answer.

        Outside of a notebook it is printed. Raises the error that ended the turn, such
        as RateLimited (see `nbchat.errors`).
        """
        return shown(
            self.run(text, stop=stop, attached=attached, output=output, budget=budget)
        )

    def ask(
        self,
        text: str,
        *,
        stop: Flag | None = None,
        attached: Iterable[Entry] = (),
        output: Any = None,
        budget: Budget | Meter | None = None,
    ) -> Answer:
        """Run a turn and return the answer; shows nothing, raises as `chat` does."""
        return self.run(
            text, stop=stop, attached=attached, output=output, budget=budget
        ).result()

    async def achat(
        self,
        text: str,
        *,
        stop: Flag | None = None,
        attached: Iterable[Entry] = (),
        output: Any = None,
        budget: Budget | Meter | None = None,
    ) -> Answer:
        """`chat` on an event loop, which stays free; a cancelled task ends the turn."""
        return await shown_async(
            self.run(text, stop=stop, attached=attached, output=output, budget=budget)
        )

    async def aask(
        self,
        text: str,
        *,
        stop: Flag | None = None,
        attached: Iterable[Entry] = (),
        output: Any = None,
        budget: Budget | Meter | None = None,
    ) -> Answer:
        """`ask` on an event loop, which stays free; a cancelled task ends the turn."""
        turn = self.run(
            text, stop=stop, attached=attached, output=output, budget=budget
        )
        await aiter(turn).run_rest()
        return turn.result()

    def context_usage(self) -> ContextUsage:
        """What the next request holds, part by part."""
        return context_usage(self.session, self.engine.tracker, self.system, self.tools)

    def _new_turn(
        self,
        text: str,
        begin: Callable[[], Events],
        stop: Flag | None,
        output: Any,
        budget: Budget | Meter | None,
    ) -> Turn:
        flag, wanted = StopFlag(stop), output_type(output)
        meters = tuple(filter(None, (self.meter, meter_of(budget))))
        options = TurnOptions(flag, wanted, meters)
        arrived: list[Event] = []
        running = self._exclusive(self._turn(begin, options), arrived.append)

        def cancel() -> None:
            flag.set()
            self.wake()

        return Turn(text, running, arrived, output=wanted, cancel=cancel)

    def _added(self, entries: Iterable[Entry]) -> Events:
        yield from map(self._append, entries)

    def _go_on(self) -> Events:
        yield from self._answer_open_calls(INTERRUPTED)
        if self.session.transcript[-1].is_incomplete:
            yield self._append(Entry("user", BROKEN_OFF))

    def _turn(self, begin: Callable[[], Events], options: TurnOptions) -> Events:
        self._options = options
        self._prepare(options)
        yield from begin()
        steps: list[Reply] = []
        try:
            reason = yield from self._within_budgets(steps, options)
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
        finally:
            self._options = TurnOptions(StopFlag(None))

    def _prepare(self, options: TurnOptions) -> None:
        if (approvals := approvals_of(self.approve)) is not None:
            approvals.begin(self.session, options.stop)
        if self.provider.name.startswith("local:"):  # it answers one after the other
            self.cancel_background()

    def _within_budgets(
        self, steps: list[Reply], options: TurnOptions
    ) -> Generator[Event, None, StopReason]:
        with ExitStack() as running:
            for meter in options.meters:
                running.enter_context(meter.running())
                self._check_price(meter)
            reason = yield from self._steps(steps, options)
            if not options.is_used_up:
                later = self.compacts_later
                yield from self._compactor.if_due(options.stop, later=later)
        return reason

    def _steps(
        self, steps: list[Reply], options: TurnOptions
    ) -> Generator[Event, None, StopReason]:
        """Ask and run tools until the model has nothing more to call."""
        invalid: list[str] = []
        while len(steps) < self.max_steps:
            if options.is_used_up:
                return "budget"
            yield from self._compactor.if_due(options.stop)
            ask = partial(self._ask, repairs=bool(invalid))
            reply = yield from self._compactor.within_window(ask, options.stop)
            steps.append(reply)
            yield from self._append_reply(reply)
            if reply.calls:
                yield from self._tool_calls.run(reply.calls, options.stop)
                continue
            reason = reply.stop_reason
            problem = (
                options.problem(reply.text)
                if reason in ("end_turn", "tool_use")
                else ""
            )
            if not problem:
                return "end_turn" if reason == "tool_use" else reason
            invalid.append(problem)
            yield from self._ask_again(invalid, options)
        return "max_steps"

    def _ask_again(self, invalid: list[str], options: TurnOptions) -> Events:
        """Name the fault of an answer; raises AnswerInvalid after the last attempt."""
        if len(invalid) >= ATTEMPTS and options.output is not None:
            raise AnswerInvalid(
                f"the answer of {self.provider.name} is no {options.output.name} after "
                f"{ATTEMPTS} attempts: {invalid[-1]}"
            )
        yield self._append(Entry("user", INVALID_ANSWER.format(invalid[-1])))

    def _ask(self, *, repairs: bool = False) -> Generator[Event, None, Reply]:
        request = self._request(repairs=repairs)
        try:
            return (yield from self._sent(request))
        except RequestRefused as error:
            is_schema = request.output_schema and SCHEMA_REFUSED.search(str(error))
            if not is_schema:
                raise
        self._unenforced.add(self.provider.name)
        return (yield from self._sent(replace(request, output_schema=None)))

    def _sent(self, request: Request) -> Generator[Event, None, Reply]:
        stream = self.send(self.provider, request, stop=self._options.stop)
        return (yield from keep_partial(stream, self._append_partial, self._publish))

    def _check_price(self, meter: Meter) -> None:
        is_free = self.provider.name.startswith("local:")
        is_priced = is_free or self.provider.info().prices is not None
        check_price(meter, is_priced=is_priced, model=self.provider.name)

    def _append_partial(self, entries: tuple[Entry, ...]) -> Events:
        if entries:
            usage = estimated_usage(entries, self.session, self.engine.tracker)
            reply = Reply(entries, usage, "end_turn", self.provider.name)
            yield from self._append_reply(reply)

    def _request(self, *, repairs: bool = False) -> Request:
        """The next request; one that `repairs` an answer calls no tool."""
        choice, output = self.tool_choice, self._options.output
        is_enforced = output is not None and self.provider.name not in self._unenforced
        chosen = choice if isinstance(choice, str) else choice(self.session)
        return replace(
            self._base_request(),
            tool_choice="none" if repairs else chosen,
            max_output_tokens=self.max_output_tokens,
            output_schema=output.schema if output and is_enforced else None,
        )

    def _base_request(self) -> Request:
        """The next request without its options: history, system prompt and tools."""
        tools = self.tools
        history = with_kept_promises(self.session.history, tools)
        system = instructions(self.system, self.session.pins)
        if (output := self._options.output) is not None:
            system = "\n\n".join(filter(None, (system, output.instruction)))
        return Request(
            history,
            system,
            tools,
            options=self.options,
        )

    def _append_reply(self, reply: Reply) -> Events:
        """Append a reply, its usage with the last entry, and count the usage."""
        usage = replace(reply.usage, model=reply.model)
        loss = self.engine.tracker.cache_loss(usage)
        usage = replace(usage, cache_loss=loss)
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
                self._measure(event)
                note(event)
                yield event
                if failure is not None:
                    note(failure)
                    yield failure

    def _measure(self, event: Event) -> None:
        """Count what was used; a change between turns counts for the agent, too."""
        for meter in self._options.meters or filter(None, (self.meter,)):
            meter.observe(event)

    def _publish(self, event: Event) -> events.SavingFailed | None:
        """Pass an event to recorder and listener; the chat goes on if saving fails."""
        failure: events.SavingFailed | None = None
        self._telemetry(event)
        for observe in (self.recorder, self.listener):
            try:
                found = observe(event) if observe is not None else None
                if isinstance(found, events.SavingFailed):
                    failure = found
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


def _remade(
    kind: type[Agent],
    recipe: dict[str, Any],
    session: Session,
    recorder: SessionRecorder | None,
) -> Agent:
    agent = kind(session=session, **recipe)
    agent.recorder = recorder
    return agent
