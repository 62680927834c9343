"""Build the summary entry of a plan: the summary, and the memory that code copies."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from nbchat.compaction.memory.memory import (
    Material,
    Memory,
    Readings,
    masked,
    memory_of,
)
from nbchat.compaction.memory.words import is_said, rules_in_force
from nbchat.compaction.plan import Plan, largest_entry
from nbchat.compaction.policies import Policy
from nbchat.compaction.shortening import shorten_to_tokens
from nbchat.compaction.summarizer.reply_validation import check_budget, check_size
from nbchat.compaction.summary_format import (
    summary_entry,
    summary_text,
)
from nbchat.conversation.entries import (
    Entry,
    Fact,
    Rule,
)
from nbchat.conversation.rules_file import rules_in
from nbchat.conversation.secret_masking import environment_secrets, without_secrets
from nbchat.conversation.session import Session
from nbchat.conversation.tools import Tool
from nbchat.conversation.turns import count_messages
from nbchat.providers.tokens import TokenCounter

OPENING = "(Written without a model. Code copied what was said and done.)"

HEADING = "## Conversation Summary"
"""Above a summary with code's lists below headings of their own (seed 002)."""

OMISSION = "({count} earlier messages are omitted to save space; all are kept.)"
"""The summary where not even a memory fits: 16 tokens."""

TAGS_TOKENS = 20
"""Tokens of the tags around a summary and its memory."""

VARIABLES_LINES = 40
"""Lines about variables that are looked at: two screens."""

LiveVariables = Callable[[Sequence[Entry]], list[str]]
"""Returns lines about the kernel's variables that entries mention."""


class SummaryBuilder:
    """Builds the summary entry of one plan, with a summary by a model or without."""

    def __init__(
        self,
        session: Session,
        plan: Plan,
        policy: Policy,
        counter: TokenCounter,
        live_variables: LiveVariables | None,
        *,
        tools: tuple[Tool, ...],
        readings: Readings,
    ) -> None:
        """`tools` of the chat say which calls only read; `readings` are of before."""
        self.session, self.plan, self.policy = session, plan, policy
        self.counter, self.live_variables = counter, live_variables
        self.tools, self.readings = tools, readings
        self.transcript = readings.masked.of(session.included_transcript)
        """Without secrets and what was excluded, as the plan found it."""
        self.to_cover = self.transcript[: plan.stop]
        """That of it which the plan and earlier compactions cover."""
        covered = (each for each in plan.covered if each.role == "summary")
        before = next(covered, None)
        self.before = masked(before) if before else None
        """The summary that the plan covers, without secrets."""
        self._memories: dict[str, Memory] = {}
        """The memory in each entry that was built, by the entry's content."""

    def entry(self, summary: str) -> Entry:
        """The entry with a model's summary and the memory beside it.

        Raises CompactionError when it saves too little.
        """
        summary, _ = without_secrets(summary)
        self._check(summary, self._made(summary, Memory()))  # before all is copied
        return self._checked(summary, self._copied(summary))

    def extract_entry(self) -> Entry:
        """The entry without a model: the summary before, if any, and the memory.

        Raises CompactionError when it saves too little.
        """
        story = summary_text(self.before.content) if self.before else ""
        story = story.replace(OPENING, "").strip()
        budget, count = self.plan.budget.summary, self.counter.count
        story = shorten_to_tokens(story, budget, count)
        summary = "\n\n".join(filter(None, (story, OPENING)))
        memory = self._copied(summary, is_told=False)
        if not (story or memory.lines):
            return self.omission_entry()
        return self._checked(summary, memory)

    def smaller_entry(self) -> Entry:
        """The current summary again, within the budget: its text, and new memory.

        Raises CompactionError when the entry is too large even so.
        """
        budget, count = self.plan.budget, self.counter.count
        text = summary_text(self.before.content) if self.before else ""
        story = shorten_to_tokens(text, budget.summary, count)
        entry = self._made(story, self._copied(story))
        check_budget(count(entry.content), budget.limit)
        return entry

    def omission_entry(self) -> Entry:
        """The last resort, where no memory fits: a line on what is missing.

        Raises CompactionError when even that would save too little.
        """
        count = count_messages(
            self.session.transcript[self.plan.start : self.plan.stop]
        )
        return self._checked(OMISSION.format(count=f"{count:,}"), Memory())

    def memory_in(self, content: str) -> Memory:
        """The memory in an entry; facts of the compaction before take no room again."""
        found = self._memories.get(content, Memory())
        before = self.session.compactions[-1:]
        known = {fact: fact for record in before for fact in record.facts}
        facts = tuple(known.get(each, each) for each in found.facts)
        return replace(found, facts=facts)

    def _copied(self, summary: str, *, is_told: bool = True) -> Memory:
        """The lines that code copies beside a summary, within what both may take.

        With `is_told` the summary says what it covers, so that its values come last.
        """
        count = self.counter.count
        room = self._largest - count(summary) - TAGS_TOKENS
        rules = rules_in_force(
            rules_of(self.session, self.plan.start),
            summary if is_told else "",
            self.to_cover,
            self.session.dropped_rules,
        )
        material = Material(
            rules=tuple(rules),
            variables=tuple(self._variables()),
            dropped=self.session.dropped_rules,
            summary=summary if is_told else "",
            bullets=self.policy.bullets,
            has_headings=self.policy.summarizer == "hybrid",
        )
        budget = min(self.plan.budget.facts, room)
        with self.readings.of(self.to_cover, self.tools) as reading:
            material = replace(material, file=_file_lines(reading.rules_file))
            memory = memory_of(reading, material, budget, count)
        return replace(memory, rules=(*rules, *self._dropped_before()))

    def _dropped_before(self) -> Iterator[Rule]:
        """The rules of before that the person dropped, and may take back."""
        dropped = self.session.dropped_rules
        rules = _newest_rules(self.session, self.plan.start)
        return (rule for rule in rules if rule.text in dropped)

    @property
    def _largest(self) -> int:
        """The most tokens that the entry may have."""
        largest = largest_entry(self.policy, self.plan.tokens_covered)
        limit = self.plan.budget.limit
        return largest if limit is None else min(largest, limit)

    def _checked(self, summary: str, memory: Memory) -> Entry:
        entry = self._made(summary, memory)
        self._check(summary, entry)
        return entry

    def _check(self, summary: str, entry: Entry) -> None:
        count = self.counter.count
        entry_tokens = count(entry.content)
        check_size(
            count(summary),
            entry_tokens,
            replaced_tokens=self.plan.tokens_covered,
            largest_tokens=largest_entry(self.policy, self.plan.tokens_covered),
        )
        check_budget(entry_tokens, self.plan.budget.limit)

    def _made(self, summary: str, memory: Memory) -> Entry:
        memory = _without_secrets(memory)
        if self.policy.summarizer == "hybrid" and not summary.startswith(HEADING):
            summary = f"{HEADING}\n{summary}"
        entry = summary_entry(summary, [line.text for line in memory.lines])
        self._memories[entry.content] = memory
        return entry

    def _variables(self) -> list[str]:
        if self.live_variables is None:
            return []
        return self.live_variables(self.transcript)[:VARIABLES_LINES]


def _file_lines(entry: Entry | None) -> tuple[str, ...]:
    """The title and the lines of a rules file that is in force."""
    found = rules_in([entry]) if entry else None
    return (found.title, *found.text.splitlines()) if found else ()


def rules_of(session: Session, stop: int | None = None) -> tuple[Rule, ...]:
    """The rules in force with the newest summary, or the newest one before an index.

    Without those that the person has dropped since, and those that no message says, as
    in a file from another person.
    """
    rules = _newest_rules(session, stop)
    kept = (rule for rule in rules if rule.text not in session.dropped_rules)
    return tuple(rule for rule in kept if _is_said(session, rule))


def _newest_rules(session: Session, stop: int | None) -> tuple[Rule, ...]:
    """The rules of the newest summary, also those that the person dropped since."""
    records = [r for r in session.active_compactions if r.kind == "summary"]
    if stop is not None:
        records = [record for record in records if record.stop <= stop]
    newest = max(records, key=lambda record: record.stop, default=None)
    return newest.rules if newest else ()


def _is_said(session: Session, rule: Rule) -> bool:
    """True if the message at its position says it; secrets are hidden in rules."""
    if not 0 <= rule.position < len(session.transcript):
        return False
    return is_said(rule, masked(session.transcript[rule.position]))


def _without_secrets(memory: Memory) -> Memory:
    """The memory with the secrets hidden that only a whole line shows."""
    environment = environment_secrets()
    shown = [without_secrets(line.text, environment) for line in memory.lines]
    if not any(count for _, count in shown):
        return memory
    lines = [
        line._replace(text=text)
        for line, (text, _) in zip(memory.lines, shown, strict=True)
    ]
    facts = tuple(each for each in memory.facts if not _is_secret(each))
    return replace(memory, lines=tuple(lines), facts=facts)


def _is_secret(fact: Fact) -> bool:
    """True if it holds a secret, such as an argument of the call that it is about."""
    return without_secrets(f"{fact.entity}\n{fact.field}: {fact.value}")[1] > 0
