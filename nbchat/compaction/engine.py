"""How a conversation is compacted: one engine, told what to do by a policy.

The engine decides, plans and proposes; it never changes a session. Whoever runs it
appends the record it returns, and until then the history is what it was.
"""

import uuid
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from threading import Event as Flag

from nbchat.compaction import ledger
from nbchat.compaction.attempts import Outcome, write_summary
from nbchat.compaction.envelope import summary_entry
from nbchat.compaction.extract import extract
from nbchat.compaction.fitting import within
from nbchat.compaction.gauge import Gauge
from nbchat.compaction.plan import Plan, make_plan
from nbchat.compaction.policies import Policy, policy_named
from nbchat.compaction.pruning import TARGET_SHARE, make_pruning
from nbchat.compaction.summary import summary_request
from nbchat.compaction.units import open_calls
from nbchat.errors import CompactionError
from nbchat.events import CompactionStarted, RetryScheduled
from nbchat.history import Compaction, Entry, Session, prefix_hash
from nbchat.models import ModelInfo
from nbchat.providers.base import Provider, Request
from nbchat.recall import TOOL_NAME

DEFAULT_THRESHOLD = 5_000

HARD_TRIGGERS = ("window", "overflow")
"""Causes for which a failed summary would leave a conversation that cannot go on."""

LARGEST_SHARE = 0.9
"""A summary entry must be at most this share of what it replaces."""

FACTS_TOKENS, FACTS_SHARE = 500, 0.3
"""Facts take a tenth of what is folded, or this many tokens, but never over 30 %."""

VARIABLES_TOKENS, VARIABLES_SHARE, VARIABLES_LINES = 300, 0.1, 20
"""Live variables take a tenth of what is folded, at most so many tokens and lines."""

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
        live_variables: Callable[[Sequence[Entry]], list[str]] | None = None,
    ) -> None:
        """A threshold of None is 75 % of the model's window, or off if that is unknown.

        `summary_model` is another model of the same provider, by name, or a provider.
        `info` is told by the agent when it is left out here. `live_variables` is asked
        for lines on what the kernel holds of what these entries mention.
        """
        super().__init__(context_token_threshold, policy_named(policy), info)
        self.summary_prompt = summary_prompt
        self.summary_model = summary_model
        self._live_variables = live_variables
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
            answers=1 if self.failures else 2,
            stop=stop,
        )
        return self._record(session, plan, writer, outcome)

    def prune(self, session: Session, *, trigger: str = "manual") -> Compaction | None:
        """The record that shortens old tool outputs; asks no model, costs nothing.

        None when the policy does not prune and when a summary would still be due: too
        little would come free, or the window would stay too full.
        """
        if not self.policy.prunes or open_calls(session.history):
            return None
        pruning = make_pruning(
            session, self.counter, protected=self.policy.protected_tools
        )
        before = self.context_tokens(session)
        after = self._scaled(session, before, pruning.saved_tokens)
        limit = self._window_limit(0)
        if not pruning.pays(before) or (limit and after > limit * TARGET_SHARE):
            return None
        stop = pruning.replacements[-1][0] + 1
        return Compaction(
            id=uuid.uuid4().hex[:12],
            start=pruning.replacements[0][0],
            stop=stop,
            summary="",
            tokens_before=before,
            tokens_after=after,
            trigger=trigger,
            policy=self.policy.name,
            prefix_hash=prefix_hash(session.transcript[:stop]),
            committed_at=len(session.transcript),
            kind="pruning",
            replacements=pruning.replacements,
        )

    def undo(self, session: Session) -> Compaction | None:
        """The record that takes back the newest one in force; None if there is none."""
        newest = next(reversed(session.active_compactions), None)
        if newest is None:
            return None
        return replace(newest, status="undone", committed_at=len(session.transcript))

    def _summary_entry(self, session: Session, plan: Plan, text: str) -> Entry:
        """The summary entry with its facts; raises when it would not be smaller."""
        said = session.transcript[: plan.stop]
        covered = [entry for entry in said if entry.tool_name != TOOL_NAME]
        size = plan.tokens_covered
        facts = ledger.facts(
            covered,
            open_request=_open_request(session.transcript, plan.stop),
            budget_tokens=max(size // 10, min(FACTS_TOKENS, int(size * FACTS_SHARE))),
            counter=self.counter,
        )
        facts += self._variable_lines(session.transcript, size)
        entry = summary_entry(text, facts)
        if self.counter.count_entry(entry) > size * LARGEST_SHARE:
            raise CompactionError(
                "not-smaller",
                f"the summary has {self.counter.count_entry(entry):,} tokens, "
                f"what it replaces has {size:,}",
            )
        return entry

    def _variable_lines(self, entries: Sequence[Entry], size: int) -> list[str]:
        """What the kernel holds now, within its share of a context of some size."""
        lines = self._live_variables(entries) if self._live_variables else []
        room = min(VARIABLES_TOKENS, int(size * VARIABLES_SHARE))
        kept = within(lines[:VARIABLES_LINES], room, self.counter.count)
        return ["Variables in the kernel now:", *kept] if kept else []

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
        """The context after, by the measure of the context before."""
        saved = plan.tokens_covered - self.counter.count_entry(entry)
        return self._scaled(session, plan.tokens_before, saved)

    def _scaled(self, session: Session, tokens_before: int, saved: int) -> int:
        """What is left of the context when so many tokens are saved.

        The counts before and after are made the same way and set in proportion to what
        the provider reported, so that both figures are of one kind.
        """
        before = self.floor_tokens + self.counter.count_entries(session.history)
        return round(tokens_before * (before - saved) / max(before, 1))


def _open_request(transcript: Sequence[Entry], stop: int) -> str:
    """The user's words that still wait for an answer and would be folded away."""
    if not transcript or transcript[-1].role != "tool":
        return ""
    for place in range(len(transcript) - 1, -1, -1):
        if transcript[place].role == "user":
            return transcript[place].content if place < stop else ""
    return ""
