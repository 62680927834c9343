"""How a conversation is compacted: one engine, told what to do by a policy.

The engine decides, plans and proposes; it never changes a session. Whoever runs it
appends the record it returns, and until then the history is what it was.
"""

import uuid
from collections.abc import Generator, Sequence
from dataclasses import replace
from threading import Event as Flag

from nbchat.compaction import ledger
from nbchat.compaction.attempts import Heard, Outcome, write_summary
from nbchat.compaction.drafts import make_draft
from nbchat.compaction.envelope import summary_entry
from nbchat.compaction.extract import extract
from nbchat.compaction.gates import LARGEST_STORY_SHARE, check_size
from nbchat.compaction.gauge import Gauge
from nbchat.compaction.plan import Plan, make_plan
from nbchat.compaction.policies import Policy, policy_named
from nbchat.compaction.sizes import COUNT_ERROR, COUNT_MARGIN, Sizes
from nbchat.compaction.summary import Assignment
from nbchat.compaction.writers import (
    HARD_TRIGGERS,
    Chat,
    Model,
    ShapeChoice,
    writers,
)
from nbchat.errors import CompactionError
from nbchat.events import CompactionStarted
from nbchat.history import Compaction, Entry, Session, Usage, prefix_hash
from nbchat.models import ModelInfo
from nbchat.providers.base import Provider, Request

DEFAULT_THRESHOLD = 5_000

FACTS_TOKENS, FACTS_SHARE = 500, 0.3
"""Facts take a tenth of what is folded, or this many tokens, but never over 30 %."""


class CompactionEngine(Gauge):
    """Counts what a conversation costs and folds it into a summary when it is time."""

    def __init__(
        self,
        context_token_threshold: int | None = DEFAULT_THRESHOLD,
        summary_prompt: str | None = None,
        summary_model: Model = None,
        policy: str | Policy = "single-summary",
        *,
        info: ModelInfo | None = None,
        fallback_model: Model = None,
        summary_shape: ShapeChoice = "auto",
    ) -> None:
        """A threshold of None is 75 % of the model's window, or off if that is unknown.

        `summary_model` is another model of the same provider, by name, or a provider;
        `fallback_model`, of the same kinds, is asked when that one has failed.
        `summary_shape` is what is tried first: "shared" goes on from the chat's own
        request, "plain" writes the conversation down anew, and "auto" shares where the
        last answer was read from the provider's cache. `info` is told by the agent when
        it is left out here.
        """
        super().__init__(context_token_threshold, policy_named(policy), info)
        self.summary_prompt = summary_prompt
        self.summary_model = summary_model
        self.fallback_model = fallback_model
        self.summary_shape = summary_shape

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
        return make_plan(
            session,
            self.policy,
            trigger=trigger,
            focus=focus,
            counter=self.counter,
            tokens_before=self.context_tokens(session),
        )

    def create_summary_request(self, plan: Plan, *, refusal: str = "") -> Request:
        """The request that asks for the `<summary>` of a plan's entries, plain.

        Of a conversation too long for one request it is the first part's. `refusal`
        says why an earlier answer was refused.
        """
        model = self.summary_model
        info = self.info if model is None or isinstance(model, str) else model.info()
        assignment = self._assignment(plan)
        draft = make_draft(
            assignment,
            Sizes(info, self.counter),
            rest=assignment.said,
            previous=assignment.previous,
            model=model if isinstance(model, str) else "",
        )
        reason = CompactionError("refused", refusal) if refusal else None
        return draft.request(0, assignment.previous, reason)

    def compact(
        self,
        session: Session,
        provider: Provider,
        plan: Plan,
        *,
        stop: Flag | None = None,
        base: Request | None = None,
    ) -> Generator[CompactionStarted | Heard, None, Compaction]:
        """The record of a compaction, done or failed, for the caller to append.

        `base` is the chat's own next request; without it the summary is never asked for
        in its place. Model, server and gate faults end in a failed record, or, where
        the window is full, in a degraded one that code has made. A stop or an interrupt
        passes through. The session is only read.
        """
        yield CompactionStarted(
            plan.trigger, plan.stop - plan.start, plan.tokens_before
        )
        is_hard = plan.trigger in HARD_TRIGGERS
        outcome = yield from write_summary(
            self._assignment(plan, base),
            writers(
                self._chat(session, provider, plan),
                self.summary_model,
                self.fallback_model,
                self.summary_shape,
            ),
            entry_of=lambda text: self._summary_entry(session, plan, text),
            without_model=(lambda: self._extract(plan)) if is_hard else None,
            stop=stop,
        )
        return self._record(session, plan, outcome)

    def undo(self, session: Session) -> Compaction | None:
        """The record that takes back the compaction in force; None if there is none."""
        newest = session.compaction
        if newest is None:
            return None
        return replace(newest, status="undone", committed_at=len(session.transcript))

    def _summary_entry(self, session: Session, plan: Plan, text: str) -> Entry:
        """The summary entry with its facts; raises when it would not be smaller."""
        covered = session.transcript[: plan.stop]
        size = plan.tokens_covered
        facts = ledger.facts(
            covered,
            open_request=_open_request(session.transcript, plan.stop),
            budget_tokens=max(size // 10, min(FACTS_TOKENS, int(size * FACTS_SHARE))),
            counter=self.counter,
        )
        entry = summary_entry(text, facts)
        count = self.counter.count
        check_size(count(text), count(entry.content), replaced_tokens=size)
        return entry

    def _assignment(self, plan: Plan, base: Request | None = None) -> Assignment:
        return Assignment(
            plan.covered,
            tokens=plan.tokens_covered,
            max_tokens=plan.summary_max_tokens,
            recent=plan.recent,
            prompt=self.summary_prompt or "",
            focus=plan.focus,
            base=base,
        )

    def _chat(self, session: Session, provider: Provider, plan: Plan) -> Chat:
        usage = self._last_usage(session)
        return Chat(
            provider,
            self.info,
            self.counter,
            plan.trigger,
            self.failures,
            usage,
            self._count_error(session, usage),
        )

    def _count_error(self, session: Session, usage: Usage | None) -> float:
        """By what the server counts more than is counted here, as it last reported.

        Where it is more than ever measured, something else was counted, too.
        """
        if usage is None or usage.is_estimated:
            return COUNT_ERROR
        counted = self.floor_tokens + self.counter.count_entries(session.history)
        share = self.context_tokens(session) / max(counted, 1)
        return min(max(1.0, share) * COUNT_MARGIN, COUNT_ERROR)

    def _last_usage(self, session: Session) -> Usage | None:
        """The usage of the last answer, if the model still sees what it saw then."""
        records = (each for each in session.compactions if each.status != "failed")
        changed = max((record.committed_at for record in records), default=0)
        if not session.usages or session.usages[-1][0] <= changed:
            return None
        return session.usages[-1][1]

    def _extract(self, plan: Plan) -> str:
        budget = int(plan.tokens_covered * LARGEST_STORY_SHARE * 0.9)
        budget = min(plan.summary_max_tokens, budget)
        return extract(plan.covered, budget_tokens=budget, counter=self.counter)

    def _record(self, session: Session, plan: Plan, outcome: Outcome) -> Compaction:
        """The record of how a compaction ended."""
        entry = outcome.entry
        return Compaction(
            id=uuid.uuid4().hex[:12],
            start=plan.start,
            stop=plan.stop,
            summary=entry.content if entry else "",
            tokens_before=plan.tokens_before,
            tokens_after=self._tokens_after(session, plan, entry) if entry else 0,
            cost=outcome.cost,
            model=outcome.model,
            trigger=plan.trigger,
            policy=self.policy.name,
            status=outcome.status,
            reason=outcome.reason,
            code=outcome.code,
            note=outcome.note,
            prefix_hash=prefix_hash(session.transcript[: plan.stop]),
            committed_at=len(session.transcript),
        )

    def _tokens_after(self, session: Session, plan: Plan, entry: Entry) -> int:
        """The context after, by the measure of the context before.

        The counts before and after are made the same way and set in proportion to what
        the provider reported, so that both figures are of one kind.
        """
        before = self.floor_tokens + self.counter.count_entries(session.history)
        saved = plan.tokens_covered - self.counter.count_entry(entry)
        return round(plan.tokens_before * (before - saved) / max(before, 1))


def _open_request(transcript: Sequence[Entry], stop: int) -> str:
    """The user's words that still wait for an answer and would be folded away."""
    if not transcript or transcript[-1].role != "tool":
        return ""
    for place in range(len(transcript) - 1, -1, -1):
        if transcript[place].role == "user":
            return transcript[place].content if place < stop else ""
    return ""
