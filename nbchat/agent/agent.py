"""The agent: runs turns, tools and compactions, and yields what happens as events.

Only the agent changes a session. It knows no widget and no database: its autosave and
its listener get each event before the caller does.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from copy import deepcopy
from functools import partial
from pathlib import Path
from threading import Event as Flag
from typing import Any, Self, Unpack

from nbchat.agent.agent_loop import BROKEN_OFF, GO_ON, TurnRunner
from nbchat.agent.approvals import Approve, approvals_of, checked_approve
from nbchat.agent.budget import Budget, Meter, meter_of
from nbchat.agent.context_tools import ContextTools, without_promise
from nbchat.agent.live_output import shown
from nbchat.agent.running_turn import (
    Answer,
    SessionAutosave,
    StopFlag,
    Turn,
    TurnLock,
    TurnOptions,
    async_twin,
)
from nbchat.agent.structured_output import output_type
from nbchat.agent.telemetry import Telemetry
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.memory.memory import records_of
from nbchat.compaction.plan import Plan
from nbchat.compaction.triggers.context_breakdown import ContextUsage, context_usage
from nbchat.config.policy_and_models import AgentSettings, agent_settings
from nbchat.conversation import events
from nbchat.conversation.entries import Compaction, Entry, html_table
from nbchat.conversation.events import Event
from nbchat.conversation.pastes import prompt_entry
from nbchat.conversation.rules_file import RulesSource, SentRules, rules_source
from nbchat.conversation.session import Session, title_of
from nbchat.conversation.tools import Tool
from nbchat.conversation.turns import INTERRUPTED, has_unfinished_turn
from nbchat.errors import (
    ConfigError,
    LogNotWritten,
    NbchatError,
    StoreError,
)
from nbchat.providers.base import (
    Provider,
    Request,
    RequestOptions,
    SupportsWarmUp,
    checked,
    fixed_texts,
    instructions,
    refuse_untaken,
    warn_of_untaken,
)
from nbchat.providers.endpoint import ReadKey
from nbchat.providers.retries import stream_with_retries

Events = Generator[Event, None, None]


class Agent:
    """A model with tools and a conversation that is compacted when it grows.

    agent = Agent(tools=[get_ticket, close_ticket], system="You triage tickets.")
    agent.chat("Work through all tickets.")

    Made by a model's name, or without one, it follows the settings in the environment
    (NBCHAT_*) and in site files, except for what its arguments say. The model is then
    the one set there, the person's choice for new chats, that of a key in the
    environment, or the embedded one. A provider that `connect` returns is used as is.

    `base_url` is the address of a compatible server, `api_key` its key or a function
    that returns it, and `window` the model's context window, where its server doesn't
    say. `tool_choice` is auto, none, required or a tool's name, or a function of the
    session that returns one: so code controls the workflow. `approve`
    is asked before each call of a tool that is not `read_only`; only True approves.
    Without it every tool runs but those that declare `read_only=False`, and those of
    MCP servers are refused. `budget` is for all turns together. `recall` adds a tool
    that searches what was compacted or shortened; None adds it if something was.
    `context_tools` adds `compact` and `context`: the model itself may compact. `rules`
    is the path of a file that is sent before the first message and when it changes, at
    most 2,000 tokens. `options` are `RequestOptions`, such as effort.
    """

    def __init__(
        self,
        provider: Provider | str = "",
        *,
        base_url: str = "",
        api_key: str | ReadKey | None = None,
        window: int | None = None,
        tools: Iterable[Callable[..., object]] = (),
        system: str = "",
        engine: CompactionEngine | None = None,
        session: Session | None = None,
        tool_choice: str | Callable[[Session], str] = "auto",
        max_steps: int | None = None,
        max_output_tokens: int | None = None,
        approve: Approve = None,
        listener: Callable[[Event], object] | None = None,
        recall: bool | None = None,
        context_tools: bool = False,
        rules: str | Path | RulesSource | None = None,
        budget: Budget | None = None,
        **options: Unpack[RequestOptions],
    ) -> None:
        """Make an agent; see the class. Raises ConfigError when a part cannot work."""
        usual = _usual(provider, base_url, api_key, window)
        self.provider = usual.provider
        self.model_origin = usual.model_origin
        """Source of the model's name, such as a variable; empty if code named it."""
        self.system = system or usual.system
        self.session = session or Session()
        self.engine = engine or usual.engine
        self.approve = checked_approve(approve)
        self.rules = rules_source(rules, count=self.engine.tracker.counter.count)
        self._tools = ContextTools(
            self,
            tools,
            recall=usual.recall if recall is None else recall,
            context_tools=context_tools or usual.context_tools,
        )
        self.tool_choice = tool_choice
        self.max_steps = max_steps or usual.max_steps
        self.max_output_tokens = max_output_tokens or usual.max_output_tokens
        refuse_untaken(self.provider, checked(options))
        self.options = checked({**usual.options, **options})
        self.listener = listener
        self.meter = meter_of(budget)
        """The agent's spending of its budget; None without one."""
        self._prepare_turns()

    def _prepare_turns(self) -> None:
        """Make the parts that run turns, and count the tokens of the session."""
        self.send = stream_with_retries
        """Sends a request and streams its reply; `map_agents` collects batches here."""
        self.compacts_later = False
        """True if the summary that is due after a turn is written on a thread while the
        caller goes on; the next turn uses it, or waits for it where it has to."""
        self.on_summary_ready: Callable[[], object] = _nothing
        """Called on that thread when `commit_background` has something to commit."""
        self.refused_schemas: set[tuple[str, str]] = set()
        """Models that have refused a schema for answers; they are asked without it."""
        self.live_context: Callable[[], str] | None = None
        """Writes what each request ends with; it is kept nowhere."""
        self.autosave: SessionAutosave | None = None
        self._sent_rules = SentRules()
        self._telemetry = Telemetry(
            lambda: (self.provider.name, self.session.session_id)
        )
        self._lock = TurnLock()
        self._turns = TurnRunner(self, self._publish)
        self._compactor = self._turns.compactor
        self.use(self.provider)
        self.engine.tracker.resume(self.session)

    def __repr__(self) -> str:
        """The model, what named it unless code did, and the conversation's size."""
        origin = f" ({self.model_origin})" if self.model_origin else ""
        return f"<Agent {self.provider.name}{origin}: {self.session!r}>"

    def another(self, session: Session | None = None) -> Self:
        """An agent like this one, in a new session or the given one."""
        return type(self)(session=session, **self._recipe)

    def __reduce__(self) -> Any:
        """Pickled by recipe, with its session and what saves it."""
        return _remade, (type(self), self._recipe, self.session, self.autosave)

    @property
    def _recipe(self) -> dict[str, Any]:
        """The arguments that make an agent like this one."""
        return {
            "provider": self.provider,
            "tools": self._tools.own,
            "system": self.system,
            "engine": deepcopy(self.engine),
            "tool_choice": self.tool_choice,
            "max_steps": self.max_steps,
            "max_output_tokens": self.max_output_tokens,
            "approve": self.approve,
            "listener": self.listener,
            "recall": self.recall,
            "context_tools": self.context_tools,
            "rules": self.rules,
            "budget": self.meter and self.meter.budget,
            **self.options,
        }

    def _repr_html_(self) -> str:
        held = self.context_usage()
        window = f" of {held.window:,}" if held.window else ""
        origin = f", from {self.model_origin}" if self.model_origin else ""
        rows = {
            "Model": f"{self.provider.name}{origin}",
            "Tools": ", ".join(tool.name for tool in self.tools) or "none",
            "Context": f"{held.total:,}{window} tokens",
            "Compaction policy": self.engine.policy.name,
            "Session": repr(self.session).strip("<>").removeprefix("Session of "),
            "State": "answering" if self.is_answering else "idle",
        }
        return html_table("Agent", rows)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that the model may call, with those about its context."""
        return self._tools.offered

    @tools.setter
    def tools(self, tools: tuple[Tool, ...]) -> None:
        self._tools.replace(tools)

    @property
    def recall(self) -> bool | None:
        """True offers `recall`, None once something is hidden."""
        return self._tools.recall

    @recall.setter
    def recall(self, recall: bool | None) -> None:
        self._tools.recall = recall

    @property
    def context_tools(self) -> bool:
        """True if the tools `compact` and `context` are offered."""
        return self._tools.context_tools

    @context_tools.setter
    def context_tools(self, offers: bool) -> None:
        self._tools.context_tools = offers

    def with_recall(self, record: Compaction) -> Compaction:
        """A record whose `tokens_after` include `recall`, if it is offered from now."""
        return self._tools.with_recall(record)

    @property
    def is_answering(self) -> bool:
        """True while a turn or a change runs; another one would be refused."""
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
        """Change the model; `window` overrides its known context window.

        The longest answer that may be asked for is reserved in the window. Raises
        NbchatError while a turn runs.
        """
        info = provider.info().with_window(window)
        warn_of_untaken(provider, self.options)
        with self.alone():
            info = info.with_longest_answer(self.max_output_tokens)
            if lifetime := self.options.get("cache_lifetime"):
                info = info.with_cache_lifetime(lifetime)
            self.engine.tracker.use_model(info, fixed_texts=self._fixed_texts())
            if provider is not self.provider:
                self.provider, self.model_origin = provider, ""

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Change options of the next requests; None unsets one. Raises ConfigError."""
        changed = checked({**self.options, **options})
        refuse_untaken(self.provider, changed)
        self.options = changed

    def warm_up(self) -> None:
        """Load what the provider's first request needs, if the provider can."""
        if isinstance(self.provider, SupportsWarmUp):
            self.provider.warm_up()

    def switch(self, session: Session, autosave: SessionAutosave | None = None) -> None:
        """Continue in another session, which `autosave` saves.

        Raises NbchatError while a turn runs: the rest of it belongs to the old session.
        """
        with self.alone():
            self.cancel_background()
            self.session, self.autosave = session, autosave
            self.count_fixed_tokens()
            self.engine.tracker.resume(session)

    def alone(self) -> AbstractContextManager[None]:
        """Lock out turns and changes; raises NbchatError while one runs."""
        return self._lock.hold()

    def run(
        self,
        text: str,
        *,
        stop: Flag | None = None,
        attached: Iterable[Entry] = (),
        pasted: Iterable[str] = (),
        from_cell: bool = False,
        output: Any = None,
        budget: Budget | Meter | None = None,
    ) -> Turn:
        """A turn from the message to the answer; iterating runs it, event by event.

        `attached` is added before the message: images and files that it is about.
        `pasted` are parts of `text` that others wrote: no rule is read from them, and
        `from_cell` says that anything below its first paragraph may be such a part.
        `output` is the type of the answer: a pydantic model, dataclass, TypedDict or
        JSON schema; `Turn.result().value` is then validated. `budget` ends the turn
        before the request after the one that used it up.
        Faults end in TurnFailed, a stop in TurnFinished("stopped"); both keep what had
        arrived, and the next turn works. KeyboardInterrupt passes through.
        """
        message = prompt_entry(text, pasted, is_cell=from_cell)
        say = partial(self._say, tuple(attached), message)
        return self._new_turn(text, say, stop, output, budget)

    def retry(
        self,
        *,
        stop: Flag | None = None,
        output: Any = None,
        budget: Budget | Meter | None = None,
        keeps_partial: bool = False,
    ) -> Turn:
        """Continue a turn that a crash, an error or a stop ended; adds no message.

        The result of each interrupted call is unknown. An answer that was cut off is
        written again, or continued (`keeps_partial`); a whole one raises NbchatError.
        """
        if not self.can_retry:
            raise NbchatError(
                "The last message has an answer. /again answers it again."
            )
        prompts = (e.content for e in reversed(self.session.transcript) if e.is_prompt)
        begin = partial(self._turns.go_on, GO_ON if keeps_partial else BROKEN_OFF)
        return self._new_turn(next(prompts, ""), begin, stop, output, budget)

    @property
    def can_retry(self) -> bool:
        """True if the last turn has no whole answer, so that `retry` continues it."""
        return has_unfinished_turn(self.session.transcript)

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

    achat = async_twin(chat)
    aask = async_twin(ask)

    def ask_in_branch(
        self,
        text: str,
        *,
        stop: Flag | None = None,
        attached: Iterable[Entry] = (),
        output: Any = None,
        budget: Budget | Meter | None = None,
    ) -> Answer:
        """Ask in a branch of the conversation that is not kept; returns the answer.

        The branch sees all that this conversation does. Its calls and their results
        stay in a separate session, which is saved where this one is and has its
        cost. A line for the task and the answer are added here. Raises as `ask` does.
        """
        branch = self._branch()
        answer = branch.ask(
            text, stop=stop, attached=attached, output=output, budget=budget
        )
        saved = f" (session {branch.session.session_id})" if branch.autosave else ""
        task = Entry("user", f"{title_of(text)}{saved}")
        added = self._turns.say([task, Entry("assistant", str(answer))])
        list(self._exclusive(added))
        return answer

    def context_usage(self) -> ContextUsage:
        """Contents of the next request, part by part."""
        return context_usage(self.session, self.engine.tracker, self.system, self.tools)

    def next_request(self) -> Request:
        """The request that comes next: history, system prompt, tools and options."""
        return self._turns.next_request()

    def facts_by(self, field: str) -> dict[str, dict[str, str]]:
        """One record for each value of a field, as tools returned it.

        As in `agent.facts_by("ticket_id")["T0017"]["category"]`. Read by code from the
        whole transcript, so that it is complete after any number of compactions. Where
        several records have one value, the one whose id it is counts, else the newest;
        records are never merged. A table of all is
        `pandas.DataFrame(agent.facts_by("ticket_id")).T`.
        """
        found: dict[str, dict[str, str]] = {}
        owners: set[str] = set()
        for record in records_of(self.session.transcript[:], self.tools):
            value = record.values.get(field)
            if value is None or (value in owners and record.entity != value):
                continue
            if record.entity == value:
                owners.add(value)
            found[value] = dict(record.values)
        return found

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

    def compact_when_read(self, focus: str = "") -> None:
        """Compact once the model has read what is in the conversation by then.

        For a tool that the model calls, while its turn runs: the compaction comes after
        the next reply. `focus` names what matters most.
        """
        self._compactor.when_read(focus)

    def commit_background(self) -> Iterator[Event]:
        """Commit the summary that was written in the background, if it is there."""
        return self._exclusive(self._compactor.commit_ready())

    def cancel_background(self) -> None:
        """Cancel a summary that is being written in the background."""
        self._compactor.cancel_background()

    def wait_for_background(self, timeout_seconds: float | None = None) -> bool:
        """Block until no summary is being written; False after the timeout."""
        return self._compactor.wait_for_background(timeout_seconds)

    def close(self, wait_seconds: float = 0) -> None:
        """Commit a summary that is ready within these seconds; drop it if it isn't."""
        if not self.wait_for_background(wait_seconds):
            self.cancel_background()
            self.wait_for_background()
        for _ in self.commit_background():
            pass

    def undo_compaction(self) -> Iterator[Event]:
        """Undo the compaction in force; the model sees what it saw before."""
        nothing = "There's no compaction to undo."
        return self._exclusive(self._compactor.change(self.engine.undo, None, nothing))

    def redo_compaction(self) -> Iterator[Event]:
        """Redo the compaction undone last, unless another one was made since."""
        nothing = "There's nothing to redo."
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
        """Write the current summary again; the old one stays if that fails."""
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
        return self._exclusive(self._compactor.change_pins(Session.pin, text))

    def checkpoint(self, text: str) -> Iterator[Event]:
        """Keep the state of the work word for word, until the next checkpoint."""
        return self._exclusive(self._compactor.change_pins(Session.checkpoint, text))

    def unpin(self, number: int) -> Iterator[Event]:
        """Remove a pinned rule, by its number from 1."""
        return self._exclusive(self._compactor.change_pins(Session.unpin, number))

    def drop_rules(self, texts: Iterable[str]) -> Iterator[Event]:
        """Set which sentences of people, word for word, are no rules."""
        return self._exclusive(self._compactor.drop_rules(texts))

    def import_summary(self, other: Session) -> Iterator[Event]:
        """Start from another session's summary; raises NbchatError if it has none."""
        if other.compaction is None:
            raise NbchatError(f"{other!r} has no summary to import. Compact it first.")
        imported = without_promise(other.compaction.entry)  # it names messages of other
        return self._exclusive(self._turns.say([imported]))

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
        unread = Flag()
        options = TurnOptions(flag, wanted, meters, unread)
        arrived: list[Event] = []
        running = self._exclusive(self._turns.run(begin, options), arrived.append)

        def cancel() -> None:
            flag.set()
            self.wake()

        turn = Turn(text, running, arrived, output=wanted, cancel=cancel)
        turn.unread = unread if self.listener is None else None
        return turn

    def _say(self, attached: Iterable[Entry], prompt: Entry) -> Events:
        """Append a message, with the rules of a file before it if they are new."""
        sent_before = self._sent_rules.news(self.rules, self.session, attached)
        yield from self._turns.say([*sent_before, prompt])

    def _branch(self) -> Self:
        copied = self.session.copy()
        branch = self.another(copied)
        branch.meter, branch.refused_schemas = self.meter, self.refused_schemas
        if self.autosave is not None:
            branch.autosave = self.autosave.of_branch(copied)
        return branch

    def _compact_by_hand(
        self, make_plan: Callable[[Session], Plan], stop: Flag | None
    ) -> Events:
        """Compact; calls that an ended kernel left open do not prevent it."""
        yield from self._turns.answer_open_calls(INTERRUPTED)
        yield from self._compactor.run(make_plan(self.session), stop)

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
        for meter in self._turns.options.meters or filter(None, (self.meter,)):
            meter.observe(event)

    def _publish(self, event: Event) -> events.SavingFailed | None:
        """Pass an event to autosave and listener, even if saving fails."""
        failure: events.SavingFailed | None = None
        self._telemetry(event)
        for observe in (self.autosave, self.listener):
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
        self.engine.tracker.set_fixed_texts(self._fixed_texts())

    def _fixed_texts(self) -> tuple[str, ...]:
        return fixed_texts(instructions(self.system, self.session.pins), self.tools)


def _usual(
    provider: Provider | str,
    base_url: str,
    api_key: str | ReadKey | None,
    window: int | None,
) -> AgentSettings:
    """Default parts of an agent, used where no argument says otherwise."""
    if isinstance(provider, str):
        return agent_settings(
            provider, base_url=base_url, api_key=api_key, window=window
        )
    if base_url or api_key or window:
        raise ConfigError(
            "base_url, api_key and window need a model's name, such as "
            f"'openai:my-model'. {provider!r} is already connected."
        )
    engine = CompactionEngine(context_token_threshold=None)
    return AgentSettings(provider, "", engine)


def _remade(
    kind: type[Agent],
    recipe: dict[str, Any],
    session: Session,
    autosave: SessionAutosave | None,
) -> Agent:
    agent = kind(session=session, **recipe)
    agent.autosave = autosave
    return agent


def _nothing() -> None:
    """Do nothing."""
