"""How a conversation is compacted: one engine, told what to do by a policy.

The engine decides, plans and proposes; it never changes a session. Whoever runs it
appends the record it returns, and until then the history is what it was.
"""

from collections.abc import Generator
from dataclasses import replace
from threading import Event as Flag

from nbchat.compaction import changes, ledger
from nbchat.compaction.attempts import Outcome, write_summary
from nbchat.compaction.envelope import summary_entry
from nbchat.compaction.extract import extract
from nbchat.compaction.gauge import Gauge
from nbchat.compaction.plan import Plan, make_plan
from nbchat.compaction.policies import Policy, policy_named
from nbchat.compaction.summary import summary_request
from nbchat.errors import CompactionError
from nbchat.events import CompactionStarted, RetryScheduled
from nbchat.history import Compaction, Entry, Session, Usage, prefix_hash
from nbchat.models import ModelInfo
from nbchat.providers.base import Provider, Request

DEFAULT_THRESHOLD = 5_000

HARD_TRIGGERS = ("window", "overflow")
"""Causes for which a failed summary would leave a conversation that cannot go on."""

LARGEST_SHARE = 0.9
"""A summary entry must be at most this share of what it replaces."""

FACTS_TOKENS, FACTS_SHARE = 500, 0.5
"""Facts take a tenth of what is folded, or this many tokens, but never over half."""

EXTRACT_SHARE = 0.05
"""Of the room for facts, what an extract takes at the least when there is no story."""

TAGS_TOKENS = 20
"""Of the tags around a story and its facts."""

COUNT_ERROR = 1.3
"""Local counts fall up to 28 % short of other vendors' own (measured on real usage)."""

REQUEST_OVERHEAD = 400
"""Tokens of instruction and tags around a transcript, generously."""


class CompactionEngine(Gauge):
    """Counts what a conversation costs and folds it into a summary when it is time."""

    def __init__(
        self,
        context_token_threshold: int | None = DEFAULT_THRESHOLD,
        summary_prompt: str | None = None,
        summary_model: str | Provider | None = None,
        policy: str | Policy = "single-summary",
        *,
        info: ModelInfo | None = None,
    ) -> None:
        """A threshold of None is 75 % of the model's window, or off if that is unknown.

        `summary_model` is another model of the same provider, by name, or a provider.
        `info` is told by the agent when it is left out here.
        """
        super().__init__(context_token_threshold, policy_named(policy), info)
        self.summary_prompt = summary_prompt
        self.summary_model = summary_model
        self._writer = None if isinstance(summary_model, str) else summary_model

    def __repr__(self) -> str:
        """The policy and how far the count has come."""
        return (
            f"<CompactionEngine {self.policy.name} {self.input_tokens:,} of "
            f"{self.context_token_threshold or 'no threshold'}>"
        )

    def plan(
        self, session: Session, *, trigger: str = "manual", focus: str = ""
    ) -> Plan:
        """A dry run: what would be folded, or the reason to skip; calls no model."""
        if objection := self.objection(trigger):
            return Plan(trigger, skip=objection)
        return make_plan(
            session,
            self.policy,
            trigger=trigger,
            focus=focus,
            counter=self.counter,
            tokens_before=self.context_tokens(session),
        )

    def create_summary_request(self, plan: Plan, *, refusal: str = "") -> Request:
        """The request that asks for the `<summary>` of a plan's entries.

        `refusal` says why an earlier answer was refused.
        """
        info = self._writer.info() if self._writer else self.info
        limit = min(plan.summary_max_tokens, info.output_reserve)
        room = None
        if info.window is not None:
            room = int((info.window - limit - REQUEST_OVERHEAD) / COUNT_ERROR)
        return summary_request(
            plan.covered,
            counter=self.counter,
            room_tokens=room,
            max_tokens=limit,
            prompt=self.summary_prompt or "",
            focus=plan.focus,
            refusal=refusal,
            model=self.summary_model if isinstance(self.summary_model, str) else "",
        )

    def compact(
        self,
        session: Session,
        provider: Provider,
        plan: Plan,
        *,
        stop: Flag | None = None,
    ) -> Generator[CompactionStarted | RetryScheduled, None, Compaction]:
        """The record of a compaction, done or failed, for the caller to append.

        Model, server and gate faults end in a failed record, or, where the window is
        full, in a degraded one that code has made. A stop or an interrupt passes
        through. The session is only read.
        """
        writer = self._writer or provider
        running = self._running(session, plan, writer)
        yield CompactionStarted(
            plan.trigger, plan.stop - plan.start, plan.tokens_before, running
        )
        if self.policy.summarizer == "extractive":
            outcome = self._extractive(session, plan)
            return self._record(session, plan, running, outcome)
        outcome = yield from write_summary(
            writer,
            request_for=lambda refusal: self.create_summary_request(
                plan, refusal=refusal
            ),
            entry_of=lambda text: self._summary_entry(session, plan, text),
            without_model=(lambda: self._extract(plan))
            if plan.trigger in HARD_TRIGGERS
            else None,
            answers=self.answers(plan.trigger),
            stop=stop,
        )
        return self._record(session, plan, running, outcome)

    def undo(self, session: Session) -> Compaction | None:
        """The record that takes back the newest compaction in force; None without."""
        return changes.undo(session)

    def redo(self, session: Session) -> Compaction | None:
        """The record that brings back what was undone last, if nothing came after."""
        return changes.redo(session)

    def edit(self, session: Session, text: str) -> Compaction:
        """The record in which a person's text replaces the story; the facts stay.

        Raises CompactionError when there is no summary or the text cannot be one.
        """
        window, taken = self.info.window, self.floor_tokens + self.info.output_reserve
        usable = None if window is None else window - taken
        return changes.edit(session, text, counter=self.counter, usable_tokens=usable)

    def regenerate(
        self,
        session: Session,
        provider: Provider,
        *,
        focus: str = "",
        stop: Flag | None = None,
    ) -> Generator[CompactionStarted | RetryScheduled, None, Compaction]:
        """The record of the summary in force written anew, from what it was made of.

        A failed one leaves the old summary in force. Raises CompactionError when there
        is none.
        """
        plan = changes.plan_again(
            session, self.policy, focus=focus, counter=self.counter
        )
        attempt = yield from self.compact(session, provider, plan, stop=stop)
        return changes.regenerated(session, attempt, counter=self.counter)

    def _summary_entry(self, session: Session, plan: Plan, text: str) -> Entry:
        """The summary entry with its facts; raises when it would not be smaller."""
        size = plan.tokens_covered
        facts = self._facts(session, plan, _facts_budget(size))
        entry = summary_entry(text, facts)
        if self.counter.count_entry(entry) > size * LARGEST_SHARE:
            raise CompactionError(
                "not-smaller",
                f"the summary has {self.counter.count_entry(entry):,} tokens, "
                f"what it replaces has {size:,}",
            )
        return entry

    def _facts(self, session: Session, plan: Plan, budget_tokens: int) -> list[str]:
        return ledger.facts(
            session.transcript[: plan.stop],
            last=ledger.last_exchange(session.transcript, plan.stop),
            pins=session.pins,
            budget_tokens=budget_tokens,
            counter=self.counter,
        )

    def _extractive(self, session: Session, plan: Plan) -> Outcome:
        """The facts, and of the newest words what the room for facts has left."""
        room = _facts_budget(plan.tokens_covered) - TAGS_TOKENS
        facts = self._facts(session, plan, int(room * (1 - EXTRACT_SHARE)))
        room -= self.counter.count("\n".join(facts))
        text = extract(plan.covered, budget_tokens=room, counter=self.counter)
        return Outcome(summary_entry(text, facts), Usage())

    def _extract(self, plan: Plan) -> str:
        budget = plan.summary_max_tokens
        return extract(plan.covered, budget_tokens=budget, counter=self.counter)

    def _running(self, session: Session, plan: Plan, writer: Provider) -> Compaction:
        """The record of a compaction that begins."""
        return Compaction(
            id=plan.id,
            start=plan.start,
            stop=plan.stop,
            summary="",
            tokens_before=plan.tokens_before,
            cost=changes.paid(session, plan.id),
            model=writer.name,
            trigger=plan.trigger,
            policy=self.policy.name,
            status="running",
            prefix_hash=prefix_hash(session.transcript[: plan.stop]),
            committed_at=len(session.transcript),
        )

    def _record(
        self, session: Session, plan: Plan, running: Compaction, outcome: Outcome
    ) -> Compaction:
        """The record of how a compaction ended."""
        entry = outcome.entry
        return replace(
            running,
            summary=entry.content if entry else "",
            tokens_after=self._tokens_after(session, plan, entry) if entry else 0,
            cost=running.cost + outcome.cost,
            status=outcome.status,
            reason=outcome.reason,
            code=outcome.code,
        )

    def _tokens_after(self, session: Session, plan: Plan, entry: Entry) -> int:
        """The context after, by the measure of the context before.

        The counts before and after are made the same way and set in proportion to what
        the provider reported, so that both figures are of one kind.
        """
        before = self.floor_tokens + self.counter.count_entries(session.history)
        saved = plan.tokens_covered - self.counter.count_entry(entry)
        return round(plan.tokens_before * (before - saved) / max(before, 1))


def _facts_budget(covered_tokens: int) -> int:
    share = int(covered_tokens * FACTS_SHARE)
    return max(covered_tokens // 10, min(FACTS_TOKENS, share))
