"""Compact conversations: decide when, plan what, and make the records of it.

The engine never changes a session. The agent appends the records it returns, and until
then the history is unchanged.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from threading import Event as Flag
from typing import TypeVar, overload

from nbchat.compaction import edits
from nbchat.compaction.memory.memory import Readings
from nbchat.compaction.plan import (
    SHORTEST_SUMMARY,
    Headroom,
    Plan,
    budget_for,
    make_plan,
)
from nbchat.compaction.policies import Policy
from nbchat.compaction.pruning.outputs import newest_shortened, shortened_unread
from nbchat.compaction.summarizer.prompts import Assignment, prompt_of
from nbchat.compaction.summarizer.requests import (
    COUNT_ERROR,
    COUNT_MARGIN,
    Sizes,
    SummaryStep,
    plain_steps,
    summary_request,
)
from nbchat.compaction.summarizer.summarize import (
    HARD_TRIGGERS,
    Chat,
    ModelChoice,
    OnUsage,
    Outcome,
    Progress,
    SummaryModel,
    SummaryRun,
    summary_models,
)
from nbchat.compaction.summary_entry import LiveVariables, SummaryBuilder
from nbchat.compaction.triggers.context_tracker import ContextTracker
from nbchat.compaction.triggers.triggers import Decision
from nbchat.conversation.entries import Compaction, Entry, Usage
from nbchat.conversation.events import CompactionStarted
from nbchat.conversation.search import TOOL_TOKENS
from nbchat.conversation.session import Session
from nbchat.conversation.turns import count_messages, open_calls
from nbchat.errors import CompactionError
from nbchat.providers.base import Provider, Request
from nbchat.providers.model_info import ModelInfo
from nbchat.providers.wire_format import usage_of

DEFAULT_THRESHOLD = 5_000

EntryTuple = tuple[str, str, str, str, str]
"""Role, content, tool id, tool name and tool arguments, as in an `Entry`."""

Message = TypeVar("Message")

CompactionRun = Generator[CompactionStarted | Progress, None, Compaction]
"""A running compaction: yields its events and returns its record."""


class CompactionEngine:
    """Replaces old parts of a conversation with a summary when it gets too long.

    engine = CompactionEngine(policy="tiered")
    agent = Agent(engine=engine)
    """

    def __init__(
        self,
        context_token_threshold: int | None = DEFAULT_THRESHOLD,
        summary_prompt: str | None = None,
        summary_model: ModelChoice = None,
        policy: str | Policy = "single-summary",
        *,
        info: ModelInfo | None = None,
        fallback_model: ModelChoice = None,
        live_variables: LiveVariables | None = None,
        encoding: str = "",
        threshold: int | None = None,
    ) -> None:
        """A threshold of None is 75 % of the model's window, or off if that is unknown.

        Then a compaction also waits until it costs less than reading everything again.

        `threshold` is a shorter name for `context_token_threshold`.

        `summary_model` is another model of the same provider, by name, or a provider;
        `fallback_model`, of the same kinds, is asked when that one fails. `info` is set
        by the agent when it is not given. `live_variables` returns lines about the
        kernel's variables that entries mention. `encoding` replaces the model's own
        vocabulary in local counts: a tiktoken vocabulary, or "characters" (divided by
        4, plus 20 %).
        """
        self.tracker = ContextTracker(
            context_token_threshold if threshold is None else threshold,
            policy,
            info,
            encoding,
            shares_prefix=self._asks_alike,
        )
        self.summary_prompt = summary_prompt
        self.summary_model = summary_model
        self.fallback_model = fallback_model
        self.live_variables = live_variables
        self._readings = Readings()

    def __repr__(self) -> str:
        """The policy and the tokens counted towards its threshold."""
        return (
            f"<CompactionEngine {self.policy.name} {self.input_tokens:,} of "
            f"{self.context_token_threshold or 'no threshold'}>"
        )

    @property
    def policy(self) -> Policy:
        """The current policy."""
        return self.tracker.policy

    @property
    def input_tokens(self) -> int:
        """Input tokens of all responses since the last compaction."""
        return self.tracker.input_tokens

    @input_tokens.setter
    def input_tokens(self, tokens: int) -> None:
        self.tracker.input_tokens = tokens

    @property
    def context_token_threshold(self) -> int | None:
        """Input tokens after which to compact; None when that meter is off."""
        return self.tracker.limits.threshold

    @property
    def threshold(self) -> int | None:
        """The same, by its shorter name."""
        return self.context_token_threshold

    @property
    def shares_prefix(self) -> bool:
        """True if summary requests may begin like the chat's own, to read its cache."""
        return self.summary_model is None

    def _asks_alike(self) -> bool:  # a method, for engines are pickled
        return self.shares_prefix

    def update_token_count(self, *report: object, position: int | None = None) -> None:
        """Add the usage of a response; `position` is the transcript's length then.

        Loops of your own may pass the usage or the response of any API, as its SDK's
        object or as a dictionary, and the message before it.
        """
        self.tracker.update_token_count(usage_of(report[-1]), position=position)

    def should_compact(self, session: Session | None = None) -> Decision:
        """Decide whether to compact now; the answer names the meter and the reason.

        Without a session it follows from the tokens counted alone.
        """
        return self.tracker.should_compact(session or Session())

    def plan(
        self,
        session: Session,
        *,
        trigger: str = "manual",
        focus: str = "",
        keep: int | None = None,
        upto: int | None = None,
    ) -> Plan:
        """A dry run: what would be compacted, or why nothing; calls no model.

        `keep` is how many of the newest tokens stay, instead of what the policy says;
        `upto` is the index of the last message to compact.
        """
        tracker = self.tracker
        if reason := tracker.reason_to_skip(trigger):
            return Plan(trigger, skip=reason)
        return make_plan(
            session,
            tracker.policy,
            trigger=trigger,
            focus=focus,
            counter=tracker.counter,
            headroom=self._headroom(session, trigger),
            keep_tokens=keep,
            upto=upto,
        )

    @overload
    def create_summary_request(
        self, source: Plan, step: SummaryStep | None = None, *, refusal: str = ""
    ) -> Request: ...

    @overload
    def create_summary_request(
        self, source: Iterable[EntryTuple], *, refusal: str = ""
    ) -> dict[str, str]: ...

    def create_summary_request(
        self,
        source: Plan | Iterable[EntryTuple],
        step: SummaryStep | None = None,
        *,
        refusal: str = "",
    ) -> Request | dict[str, str]:
        """The request for the summary of a plan's entries, as `compact` sends it.

        `compact` says in `step` which one it needs: a part of a long conversation, one
        that shares the chat's own request, one after a refused answer. Without it this
        is the first with the entries as data, and `refusal` is why an earlier answer
        was refused. For a history, a list of tuples of five, it is one message of the
        user, for a client of your own.
        """
        if isinstance(source, Plan):
            return summary_request(step or self._first_step(source, refusal))
        request = self.create_summary_request(self._plan_of(source), refusal=refusal)
        text = f"{request.system}\n\n{request.history[0].content}"
        return {"role": "user", "content": text}

    def replace_history(self, messages: Sequence[Message]) -> list[Message]:
        """The new history: the summary, which is the last of the messages, alone.

        For loops of your own; the count begins again. An agent's session stays as it
        was said, and `compact` makes the record of the summary.
        """
        self.tracker.reset()
        return list(messages[-1:])

    def _plan_of(self, history: Iterable[EntryTuple]) -> Plan:
        """A plan for all entries of a history without a session."""
        entries = tuple(Entry(*each) for each in history)
        tracker = self.tracker
        tokens = tracker.counter.count_entries(entries)
        window = tracker.info.window
        budget = budget_for(self.policy, tokens, tokens_ever=tokens, window=window)
        return Plan("manual", entries, tokens_covered=tokens, budget=budget)

    def _first_step(self, plan: Plan, refusal: str) -> SummaryStep:
        """The first plain request for a plan, as far as it is known without a chat."""
        choice, tracker = self.summary_model, self.tracker
        info = tracker.info
        if choice is not None and not isinstance(choice, str):
            info = choice.info()
        assignment = self._assignment(plan)
        steps = plain_steps(
            assignment,
            Sizes(info, tracker.counter),
            model=choice if isinstance(choice, str) else "",
        )
        reason = CompactionError("refused", refusal) if refusal else None
        return steps.at(0, assignment.previous, reason)

    def compact(
        self,
        session: Session,
        provider: Provider,
        plan: Plan,
        *,
        stop: Flag | None = None,
        base: Request | None = None,
        system: str = "",
        on_usage: OnUsage = lambda _usage: None,
    ) -> CompactionRun:
        """Make the record of a compaction, done or failed, for the agent to append.

        `base` is the chat's own next request, which the summary request may share, and
        `system` the chat's system prompt, of which the summary may speak.
        `on_usage` is called with the usage of each answer. Faults of models and servers
        and refused answers end in a failed record or, where the window is full, in a
        degraded one without a model. Stopped and interrupts pass through.
        """
        models = self._models(session, provider, plan)
        model = models[0].name if models else ""
        running = _running_record(session, plan, policy=self.policy.name, model=model)
        yield CompactionStarted(
            plan.trigger, running.messages, plan.tokens_before, running
        )
        builder = self._builder(session, plan, base)
        if plan.is_resize:
            outcome = _without_model(builder.smaller_entry)
        elif self.policy.summarizer == "extractive":
            outcome = _without_model(builder.extract_entry)
        else:
            run = SummaryRun(
                self._assignment(plan, system=system, said=builder.transcript),
                create_request=lambda step: self.create_summary_request(plan, step),
                entry_of=builder.entry,
                stop=stop,
                base=base,
                on_usage=on_usage,
            )
            outcome = yield from run.outcome(
                models,
                without_model=self._fallbacks(plan, builder),
                without_values=builder.extract_entry,
            )
        record = _ended_record(session, plan, running, outcome, self.tracker)
        memory = builder.memory_in(record.summary)
        return replace(
            record, facts=memory.facts, memory=memory.lines, rules=memory.rules
        )

    def as_of_now(self, session: Session, plan: Plan, record: Compaction) -> Compaction:
        """A record of a summary that was written while messages were added."""
        before = self.tracker.context_tokens(session)
        saved = plan.tokens_covered - record.summary_tokens
        after = self.tracker.scaled(session, before, saved) if record.is_active else 0
        return replace(
            record,
            tokens_before=before,
            tokens_after=after,
            committed_at=len(session.transcript),
        )

    def shorten(self, session: Session, *, shown: str = "") -> Compaction | None:
        """The record that shortens the newest output; None where it stays whole.

        `shown` is what its tool wants shown instead.
        """
        counter = self.tracker.counter
        return newest_shortened(session, self.policy, counter, shown=shown)

    def shorten_unread(
        self, session: Session, *, is_refused: bool = False
    ) -> Compaction | None:
        """The record that shortens results which the model has not read yet.

        None where they fit the window. After a request `is_refused` as too long they
        are cut to a third, whatever the window is said to be.
        """
        tracker, usable = self.tracker, self.tracker.limits.usable_window
        is_off = self.policy.meter == "off" or bool(open_calls(session.history))
        if is_off or (usable is None and not is_refused):
            return None
        limit = None
        if usable is not None and not is_refused:
            fixed = tracker.fixed_tokens + TOOL_TOKENS  # recall may be added
            limit = max(usable - fixed - 2 * SHORTEST_SUMMARY, 0)
        record = shortened_unread(
            session, self.policy, tracker.counter, limit_tokens=limit
        )
        return record and _with_sizes(session, record, self.tracker)

    def exclude(self, session: Session, index: int) -> Compaction:
        """The record that hides the message at an index from the model.

        Raises NbchatError for what cannot be excluded.
        """
        record = edits.exclude(session, index, self.policy)
        return _with_sizes(session, record, self.tracker)

    include = staticmethod(edits.include)
    undo = staticmethod(edits.undo)
    redo = staticmethod(edits.redo)

    def edit(self, session: Session, text: str) -> Compaction:
        """The record in which `text` replaces the summary; the facts stay.

        Raises CompactionError when there is no summary or the text cannot be one.
        """
        info, counter = self.tracker.info, self.tracker.counter
        usable = info.usable_window
        if usable is not None:
            usable -= self.tracker.fixed_tokens
        return edits.edit(session, text, counter=counter, usable_tokens=usable)

    def regenerate(
        self,
        session: Session,
        provider: Provider,
        *,
        focus: str = "",
        trigger: str = "manual",
        stop: Flag | None = None,
        system: str = "",
        on_usage: OnUsage = lambda _usage: None,
    ) -> CompactionRun:
        """Make the record of a new summary of the same entries.

        A failed one keeps the old summary. Raises CompactionError when there
        is no summary.
        """
        counter, headroom = self.tracker.counter, self._headroom(session, trigger)
        plan = edits.plan_again(
            session,
            self.policy,
            focus=focus,
            trigger=trigger,
            counter=counter,
            headroom=headroom,
        )
        run = self.compact(
            session, provider, plan, stop=stop, system=system, on_usage=on_usage
        )
        attempt = yield from run
        return edits.regenerated(session, attempt, counter=counter)

    def _headroom(self, session: Session, trigger: str) -> Headroom:
        tracker, limits = self.tracker, self.tracker.limits
        before, goal, fit = tracker.context_tokens(session), limits.goal, None
        if goal is not None:
            fit = limits.fit(trigger)
        elif trigger == "overflow":  # the window is unknown, and less than this
            goal = fit = before // 2
        sums = tracker.transcript_tokens(session)
        return Headroom(before, sums, tracker.info.window, goal, fit)

    def _builder(
        self, session: Session, plan: Plan, base: Request | None
    ) -> SummaryBuilder:
        return SummaryBuilder(
            session,
            plan,
            self.policy,
            self.tracker.counter,
            self.live_variables,
            tools=base.tools if base else (),
            readings=self._readings,
        )

    def _assignment(
        self,
        plan: Plan,
        *,
        system: str = "",
        said: Sequence[Entry] = (),
    ) -> Assignment:
        """The entries to summarize; a summary may speak of all that is given here."""
        return Assignment(
            plan.covered,
            tokens=plan.tokens_covered,
            max_tokens=plan.budget.summary,
            recent=plan.recent,
            prompt=prompt_of(self.policy, self.summary_prompt or ""),
            is_structured=self.policy.summarizer == "structured",
            focus=plan.focus,
            earlier=plan.earlier,
            system=system,
            other=(said[: plan.start], said[plan.stop :]),
        )

    def _fallbacks(
        self, plan: Plan, builder: SummaryBuilder
    ) -> list[Callable[[], Entry]]:
        """Summaries without a model, the best first; none if the policy waits."""
        is_hard = plan.trigger in HARD_TRIGGERS
        waits = plan.trigger == "window" and self.policy.on_failure == "wait"
        if waits or not is_hard:
            return []
        return [builder.extract_entry, builder.omission_entry]

    def _models(
        self, session: Session, provider: Provider, plan: Plan
    ) -> list[SummaryModel]:
        """The models to ask, in order; none after repeated failures."""
        tracker, is_extractive = self.tracker, self.policy.summarizer == "extractive"
        is_by_code = is_extractive or plan.is_resize
        if is_by_code or not tracker.may_ask(plan.trigger):
            return []
        usage = self._last_usage(session)
        error = self._count_error(session, usage)
        chat = Chat(provider, tracker, plan.trigger, usage, error)
        return summary_models(chat, self.summary_model, self.fallback_model)

    def _count_error(self, session: Session, usage: Usage | None) -> float:
        """The server's last count divided by the local one, at most the known error.

        A larger quotient means that something else was counted, too.
        """
        if usage is None or usage.is_estimated:
            return COUNT_ERROR
        tracker = self.tracker
        counted = tracker.fixed_tokens + tracker.history_tokens(session)
        share = tracker.context_tokens(session) / max(counted, 1)
        return min(max(1.0, share) * COUNT_MARGIN, COUNT_ERROR)

    def _last_usage(self, session: Session) -> Usage | None:
        """The usage of the last answer, if the history has not changed since."""
        records = (
            each
            for each in session.compactions
            if each.status != "failed" and not each.is_immediate
        )
        changed = max((record.committed_at for record in records), default=0)
        if not session.usages or session.usages[-1][0] <= changed:
            return None
        return session.usages[-1][1]


def _without_model(make_entry: Callable[[], Entry]) -> Outcome:
    try:
        return Outcome(make_entry(), Usage(), "")
    except CompactionError as error:
        return Outcome(None, Usage(), "", "failed", str(error), error.reason)


def _running_record(
    session: Session, plan: Plan, *, policy: str, model: str
) -> Compaction:
    """The record of a compaction that begins."""
    return Compaction(
        id=plan.id,
        start=plan.start,
        stop=plan.stop,
        summary="",
        tokens_before=plan.tokens_before,
        cost=session.compaction_cost(plan.id),
        model=model,
        trigger=plan.trigger,
        policy=policy,
        status="running",
        prefix_hash=session.transcript.prefix_hash(plan.stop),
        committed_at=len(session.transcript),
        messages=count_messages(session.transcript[plan.start : plan.stop]),
    )


def _ended_record(
    session: Session,
    plan: Plan,
    running: Compaction,
    outcome: Outcome,
    tracker: ContextTracker,
) -> Compaction:
    """The record of a compaction that has ended."""
    entry = outcome.entry
    size = tracker.counter.count_entry(entry) if entry else 0
    saved = plan.tokens_covered - size
    after = tracker.scaled(session, plan.tokens_before, saved) if entry else 0
    is_retried = outcome.status != "done" and plan.trigger != "manual"
    notes = (sentence(outcome.note), plan.note, tracker.next_wait if is_retried else "")
    return replace(
        running,
        summary=entry.content if entry else "",
        tokens_after=after,
        summary_tokens=size,
        cost=running.cost + outcome.cost,
        status=outcome.status,
        reason=sentence(outcome.reason),
        code=outcome.code,
        note=" ".join(filter(None, notes)),
        fields=outcome.fields,
        model=outcome.model or running.model,
    )


def sentence(text: str) -> str:
    """A reason as people read it: with a capital and a period."""
    end = "" if not text or text.endswith((".", "?", "!", "…")) else "."
    return f"{text[:1].upper()}{text[1:]}{end}"


def _with_sizes(
    session: Session, record: Compaction, tracker: ContextTracker
) -> Compaction:
    """A record that replaces contents, with the context before and after."""
    count, before = tracker.counter.count_entry, tracker.context_tokens(session)
    saved = sum(
        count(session.history_since(index)[0])
        - count(session.transcript[index].with_content(text))
        for index, text in record.replacements
    )
    after = tracker.scaled(session, before, saved)
    return replace(record, tokens_before=before, tokens_after=after)
