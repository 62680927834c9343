"""How a conversation is compacted: one engine, told what to do by a policy.

The engine decides, plans and proposes; it never changes a session. Whoever runs it
appends the record it returns, and until then the history is what it was.
"""

import uuid
from collections.abc import Generator, Sequence
from dataclasses import replace
from threading import Event as Flag

from nbchat.compaction import ledger
from nbchat.compaction.attempts import Outcome, write_summary
from nbchat.compaction.envelope import summary_entry
from nbchat.compaction.extract import extract
from nbchat.compaction.meter import Decision, Reading, read_meters
from nbchat.compaction.plan import Plan, make_plan
from nbchat.compaction.policies import Policy, policy_named
from nbchat.compaction.summary import summary_request
from nbchat.errors import CompactionError, ConfigError
from nbchat.events import CompactionStarted, RetryScheduled
from nbchat.history import Compaction, Entry, Session, Usage, prefix_hash
from nbchat.models import ModelInfo
from nbchat.providers.base import Provider, Request
from nbchat.tokens import TokenCounter

DEFAULT_THRESHOLD = 5_000
WINDOW_SHARE_OF_THRESHOLD = 0.75
"""The threshold as a share of the window when none is set."""

HARD_TRIGGERS = ("window", "overflow")
"""Causes for which a failed summary would leave a conversation that cannot go on."""

PATIENCE = 8
"""How much longer to wait after each failure in a row, as a factor."""

LARGEST_SHARE = 0.9
"""A summary entry must be at most this share of what it replaces."""

FACTS_TOKENS, FACTS_SHARE = 500, 0.3
"""Facts take a tenth of what is folded, or this many tokens, but never over 30 %."""

COUNT_ERROR = 1.3
"""Local counts fall up to 28 % short of other vendors' own (measured on real usage)."""

REQUEST_OVERHEAD = 400
"""Tokens of instruction and tags around a transcript, generously."""


class CompactionEngine:
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
        self.policy = policy_named(policy)
        self.summary_prompt = summary_prompt
        self.summary_model = summary_model
        self._writer = None if isinstance(summary_model, str) else summary_model
        self.input_tokens = 0
        self.floor_tokens = 0
        """Tokens of the system prompt and the tools, which no compaction removes."""
        self._threshold = context_token_threshold
        self._anchor: tuple[int, Usage] | None = None
        self._cooldown = (0, 0)
        self._failures = 0
        self.fit(info or ModelInfo("unknown"))

    def __repr__(self) -> str:
        """The policy and how far the count has come."""
        return (
            f"<CompactionEngine {self.policy.name} {self.input_tokens:,} of "
            f"{self.context_token_threshold or 'no threshold'}>"
        )

    @property
    def context_token_threshold(self) -> int | None:
        """Input tokens after which to compact; None when that meter is off."""
        if not self.policy.is_cumulative:
            return None
        if self._threshold is None and self.info.window is not None:
            return int(self.info.window * WINDOW_SHARE_OF_THRESHOLD)
        return self._threshold

    def set_threshold(self, tokens: int | None) -> None:
        """Compact at another sum; refused when the floor alone would exceed it."""
        if tokens is not None and tokens <= 0:
            raise ConfigError(
                f"context_token_threshold {tokens} is no token count; set one above 0"
            )
        if tokens is not None and tokens <= self.floor_tokens:
            raise ConfigError(
                f"context_token_threshold {tokens:,} is not above the "
                f"{self.floor_tokens:,} tokens of the system prompt and tools alone, "
                f"which no compaction removes; set at least {4 * self.floor_tokens:,}"
            )
        self._threshold = tokens

    def fit(self, info: ModelInfo, *, floor_tokens: int = 0) -> None:
        """Learn the model's window and what a request costs at the least."""
        self.info = info
        self.counter = TokenCounter(info.encoding)
        self.floor_tokens = floor_tokens
        self.set_threshold(self._threshold)

    def resume(self, session: Session) -> None:
        """Count a loaded session as if it had never been away."""
        changes = [c for c in session.compactions if c.status != "failed"]
        since = max((change.committed_at for change in changes), default=0)
        self.reset()
        for position, usage in session.usages:
            if position > since:
                self.update_token_count(usage, position=position)

    def update_token_count(self, usage: Usage, *, position: int | None = None) -> None:
        """Add a response's input tokens.

        `position` is the length of the transcript when the response had joined it;
        with it the size of the context is known exactly up to there.
        """
        self.input_tokens += usage.input_tokens
        if position is not None:
            self._anchor = (position, usage)

    def reset(self) -> None:
        """Begin to count anew, as after a compaction."""
        self.input_tokens = 0
        self._anchor = None
        self._cooldown = (0, 0)
        self._failures = 0

    def context_tokens(self, session: Session) -> int:
        """What the next request holds: the last report plus an estimate of the rest."""
        if self._anchor is not None:
            position, usage = self._anchor
            added = self.counter.count_entries(session.transcript[position:])
            return usage.total_tokens + added
        return self.floor_tokens + self.counter.count_entries(session.history)

    def should_compact(self, session: Session) -> Decision:
        """Whether it is time, which meter says so, and why."""
        tokens, context = self._cooldown
        threshold = self.context_token_threshold
        return read_meters(
            Reading(
                self.input_tokens,
                None if threshold is None else tokens + threshold,
                self.context_tokens(session),
                self._window_limit(context),
            )
        )

    def cool_down(self, session: Session, *, thresholds: int = 1) -> None:
        """Let the meters rest: the next try comes some thresholds' worth later."""
        waited = (self.context_token_threshold or 0) * (thresholds - 1)
        self._cooldown = (self.input_tokens + waited, self.context_tokens(session))

    def record_failure(self, session: Session) -> None:
        """After a failed compaction: rest for eight thresholds' worth, then for 64.

        So a summariser that never succeeds costs little, and one that recovers is
        found out.
        """
        self._failures += 1
        self.cool_down(session, thresholds=PATIENCE**self._failures)

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
        yield CompactionStarted(
            plan.trigger, plan.stop - plan.start, plan.tokens_before
        )
        writer = self._writer or provider
        outcome = yield from write_summary(
            writer,
            request_for=lambda refusal: self.create_summary_request(
                plan, refusal=refusal
            ),
            entry_of=lambda text: self._summary_entry(session, plan, text),
            without_model=(lambda: self._extract(plan))
            if plan.trigger in HARD_TRIGGERS
            else None,
            answers=1 if self._failures else 2,
            stop=stop,
        )
        return self._record(session, plan, writer, outcome)

    def undo(self, session: Session) -> Compaction | None:
        """The record that takes back the compaction in force; None if there is none."""
        newest = session.compaction
        if newest is None:
            return None
        return replace(newest, status="undone", committed_at=len(session.transcript))

    def _window_limit(self, cooldown_context: int) -> int | None:
        if self.info.window is None:
            return None
        usable = self.info.window - self.info.output_reserve
        return max(int(usable * self.policy.window_share), cooldown_context * 11 // 10)

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
        if self.counter.count_entry(entry) > size * LARGEST_SHARE:
            raise CompactionError(
                "not-smaller",
                f"the summary has {self.counter.count_entry(entry):,} tokens, "
                f"what it replaces has {size:,}",
            )
        return entry

    def _extract(self, plan: Plan) -> str:
        budget = plan.summary_max_tokens
        return extract(plan.covered, budget_tokens=budget, counter=self.counter)

    def _record(
        self, session: Session, plan: Plan, writer: Provider, outcome: Outcome
    ) -> Compaction:
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
            model=writer.name,
            trigger=plan.trigger,
            policy=self.policy.name,
            status=outcome.status,
            reason=outcome.reason,
            code=outcome.code,
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
