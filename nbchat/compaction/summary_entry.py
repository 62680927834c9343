"""Build the summary entry of a plan: the summary, the facts, the live variables."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from nbchat.compaction.facts.exchanges import untold_lines
from nbchat.compaction.facts.facts import (
    Facts,
    collect_facts,
    kept_sections,
    record_lines,
)
from nbchat.compaction.facts.quotes import Quote
from nbchat.compaction.facts.read_entries import (
    ReadEntries,
    Readings,
)
from nbchat.compaction.facts.rule_patterns import Kind
from nbchat.compaction.facts.rules import ended_rules, rules_in_force
from nbchat.compaction.facts.sentence_forms import plain
from nbchat.compaction.facts.summary_quotes import SummaryQuotes, not_quoted
from nbchat.compaction.masked_entries import masked
from nbchat.compaction.plan import FACTS_TOKENS, Plan, largest_entry
from nbchat.compaction.policies import LARGEST_SUMMARY_SHARE, Policy
from nbchat.compaction.shortening import shorten, shorten_to_tokens, within
from nbchat.compaction.summarizer.carry_over import (
    carried,
    is_open,
    not_in_rows,
    not_named,
    not_served,
)
from nbchat.compaction.summarizer.coverage import (
    Coverage,
    coverage,
    important,
    share_said,
)
from nbchat.compaction.summarizer.reply_validation import check_budget, check_size
from nbchat.compaction.summary_format import (
    carried_lines,
    carried_list,
    is_quote,
    statements_text,
    summary_entry,
    summary_facts,
    summary_text,
)
from nbchat.conversation.entries import Entry, Fact
from nbchat.conversation.secret_masking import without_secrets
from nbchat.conversation.session import Session
from nbchat.conversation.tools import Tool
from nbchat.conversation.turns import count_messages
from nbchat.providers.tokens import TokenCounter

OPENING = "(Written without a model. The newest messages, shortened:)"

LINE_LIMIT = 160
"""Characters kept of one message in an extract."""

EXTRACT_TOKENS, EXTRACT_SLACK = 26, 0.9
"""Least tokens of an extract (its opening and a count), and how close it may come to
the length at which a summary is refused."""

LEAST_UNTOLD, MOST_READ = 40, 1_000
"""Least tokens for exchanges that a summary does not mention, and the newest entries
that are read for them."""

TAGS_TOKENS = 20
"""Of the tags around a summary and its facts."""

RULES_TOKENS = 1_000
"""Tokens that rules may always take where they fit; in a short conversation they are
more than the facts' share."""

BESIDE_SHARE = 0.2
"""Share of the entry that facts and what is carried over may take beside a good
summary, rules not counted."""

FEW_TOKENS = 60
"""Tokens of facts from before that stay where a good summary lacks them: a few rows."""

RECORDS_TOKENS, RECORDS_SHARE = 1_000, 0.1
"""Most tokens, and share of the covered ones, of records that a summary model reads."""

OTHER_KINDS: tuple[Kind, ...] = ("preference", "decision")
"""Kinds of quotes of which a good summary needs only those that it lacks."""

OMISSION = "({count} earlier messages are omitted to save space; all are kept.)"
"""The summary where not even facts fit: 16 tokens."""

VARIABLES_TOKENS, VARIABLES_SHARE, VARIABLES_LINES = 300, 0.1, 20
"""Most tokens, share of the covered tokens, and lines that live variables take."""

VARIABLES_TITLE = "Variables in the kernel now:"

LiveVariables = Callable[[Sequence[Entry]], list[str]]
"""Returns lines about the kernel's variables that entries mention."""


@dataclass(frozen=True, slots=True)
class SummaryBuilder:
    """Builds the summary entry of one plan, with a summary by a model or by code."""

    session: Session
    plan: Plan
    policy: Policy
    counter: TokenCounter
    live_variables: LiveVariables | None = None
    tools: tuple[Tool, ...] = ()
    """The tools of the chat: their arguments tell what may be needed."""
    readings: Readings = field(default_factory=Readings, compare=False)
    """What was read of the transcript by earlier compactions."""
    facts_of: dict[str, tuple[Fact, ...]] = field(default_factory=dict, compare=False)
    """The facts in each entry that was built, by its content."""
    transcript: Sequence[Entry] = field(init=False, compare=False)
    """The transcript without secrets and what was excluded, as the plan found it."""
    to_cover: Sequence[Entry] = field(init=False, compare=False)
    """That of it which the plan and earlier compactions cover."""
    covered: Sequence[Entry] = field(init=False, compare=False)
    """What the plan covers of the history, without secrets."""

    def __post_init__(self) -> None:
        """Take the transcript once: it is as long as the conversation."""
        masked = self.readings.masked
        transcript = masked.of_transcript(self.session.included_transcript)
        object.__setattr__(self, "transcript", transcript)
        object.__setattr__(self, "to_cover", transcript[: self.plan.stop])
        object.__setattr__(self, "covered", masked.of(self.plan.covered))

    def entry(self, summary: str) -> Entry:
        """The entry with what the summary lacks: statements from before, and facts.

        Raises CompactionError when it saves too little.
        """
        summary, _ = without_secrets(summary)
        self._checked(summary, Facts())  # an endless one is refused before it is read
        is_good = self.coverage(summary).is_good
        beside = self._beside_good if is_good else self._beside_poor
        return self._checked(summary, beside(summary))

    def _beside_good(self, summary: str) -> Facts:
        """Rules, what is open, and a fifth of the entry of whatever else is lacking.

        A good summary is taken at its word on each id that it names.
        """
        count = self.counter.count
        budget = self.plan.budget.facts
        room = self._largest - count(summary) - TAGS_TOKENS
        found = self._facts(
            min(budget, room), summary, beside=self._unsaid_rows(summary)
        )
        lacking = self._lacking(summary, found.lines, is_good=True)
        lacking = not_named(lacking, summary)
        rows = [line for line in found.lines if not is_quote(line)]
        most = _beside(count(summary)) - count("\n".join(rows))
        others = [line for line in lacking if not is_open(line)]
        others = within(others, most, lambda line: count(line) + 1)
        kept = [line for line in lacking if line in others or is_open(line)]
        return self._together(summary, kept, found)

    def _beside_poor(self, summary: str) -> Facts:
        """Statements from before that the summary lacks, and all facts that fit."""
        budget, count = self.plan.budget, self.counter.count
        room = self._largest - count(summary) - TAGS_TOKENS
        found = self._facts(min(budget.facts, room), summary)
        kept = self._lacking(summary, found.lines, is_good=False)
        both = self._together(summary, kept, found)
        carried = both.lines[: len(both.lines) - len(found.lines)]
        most = min(budget.most_facts, room - count("\n".join([*carried, ""])))
        if most > budget.facts:
            found = self._facts(most, summary)
        most = max(most, min(budget.facts, room))
        known = "\n".join([*carried, *found.lines, ""])
        untold = self._untold(f"{known}{summary}", most - count(known))
        return replace(found, lines=(*carried, *found.lines, *untold))

    def _untold(self, told: str, budget_tokens: int) -> list[str]:
        """What was asked in a talk without tools, and a poor summary does not mention.

        Where tools were called, the rows hold what matters and need the space.
        """
        newest = self.to_cover[-MOST_READ:]
        is_talk = not any(entry.is_call for entry in newest)
        if self.policy.bullets or not is_talk or budget_tokens < LEAST_UNTOLD:
            return []
        dropped = self.session.dropped_rules
        return untold_lines(newest, told, budget_tokens, self.counter, dropped=dropped)

    def facts_in(self, content: str) -> tuple[Fact, ...]:
        """The facts in an entry; equal ones of the compaction before take no memory."""
        before = self.session.compactions[-1:]
        known = {fact: fact for record in before for fact in record.facts}
        return tuple(known.get(each, each) for each in self.facts_of.get(content, ()))

    def _lacking(
        self, summary: str, facts: Sequence[str], *, is_good: bool
    ) -> list[str]:
        """Statements from before that this summary lacks, newest first.

        A rule that the facts quote is not said again, nor one that ended, nor what
        calls were given, nor an id that the facts have in a row. Beside a good summary
        facts have no space for all quotes: these count as said.
        """
        covered = self.covered
        earlier = [
            statements_text(entry.content, with_quotes=is_good)
            for entry in covered
            if entry.role == "summary"
        ]
        messages = [entry for entry in covered if entry.is_prompt]
        quoted = [line for line in facts if is_quote(line)]
        with self.readings.of(self.to_cover) as read:
            ended, calls = ended_rules(read.messages), read.calls
            kinds = OTHER_KINDS if is_good else ()
            quotes = self._quotes(read, self.to_cover, summary, *kinds)
        earlier += [quote.text for quote in quotes]
        lacking = carried("\n".join(earlier), messages, "\n".join([summary, *quoted]))
        open_still = not_served(
            [line for line in lacking if plain(line) not in ended],
            self.to_cover,
            calls=calls,
            tools=[tool.name for tool in self.tools],
        )
        return not_in_rows(open_still, facts)

    def _together(self, summary: str, kept: Sequence[str], found: Facts) -> Facts:
        """The facts after what is carried over, as far as it fits.

        It may take what the summary or the facts leave of their budgets.
        """
        budget, count = self.plan.budget, self.counter.count
        summary_tokens, facts_tokens = count(summary), count("\n".join(found.lines))
        wanted = max(budget.facts // 2, budget.summary - summary_tokens)
        left = self._largest - summary_tokens - facts_tokens - TAGS_TOKENS
        lines = within(
            carried_list(kept), min(wanted, left), lambda line: count(line) + 1
        )
        carried_over = lines if len(lines) > 1 else []
        return replace(found, lines=(*carried_over, *found.lines))

    @property
    def _largest(self) -> int:
        """The most tokens that the entry may have."""
        largest = largest_entry(self.policy, self.plan.tokens_covered)
        limit = self.plan.budget.limit
        return largest if limit is None else min(largest, limit)

    def coverage(self, summary: str) -> Coverage:
        """What a summary says of the new values that were talked about.

        Which tools there are does not matter: a summary need not know them.
        """
        found = self._facts(self.plan.budget.facts, are_tools_known=False)
        quotes = [line for line in found.lines if is_quote(line)]
        known = "\n".join([*quotes, *(fact.value for fact in found.facts)])
        return coverage(self._summaries(summary), self.to_cover, known)

    def _summaries(self, summary: str) -> Iterator[tuple[int, str]]:
        """A summary and those before it, newest first, with where its part begins."""
        yield self.plan.start, summary
        for record in reversed(self.session.active_compactions):
            if record.summary and record.stop <= self.plan.start:
                yield record.start, summary_text(record.summary)

    def _unsaid_rows(self, summary: str) -> int:
        """Tokens for facts that were beside the summary before and this one lacks.

        Half of what they took, or all of a few, so that they go as new ones come.
        """
        covered = self.covered
        rows = "\n".join(row for entry in covered for row in _rows_beside(entry))
        with self.readings.of(self.to_cover) as read:
            needed = important(rows, read.said)
        if not needed:
            return 0
        lacking = int(self.counter.count(rows) * (1 - share_said(summary, needed)))
        return min(lacking, max(lacking // 2, FEW_TOKENS))

    def records(self) -> str:
        """What results before said of the records that the covered messages name.

        A summary that was written before it was needed may lack it. Empty where no
        summary is covered.
        """
        covered, tokens = self.covered, self.plan.tokens_covered
        summaries = (e.content for e in covered if e.role == "summary")
        before = "\n".join(map(statements_text, summaries))
        if not before:
            return ""
        new = (e for e in covered if e.role != "summary")
        texts = (text for e in new for text in (e.content, e.tool_args))
        with self.readings.of(self.to_cover) as read:
            lines = record_lines(
                self.to_cover,
                self.plan.start,
                "\n".join([before, *texts]),
                summary=before,
                budget_tokens=min(RECORDS_TOKENS, int(tokens * RECORDS_SHARE)),
                counter=self.counter,
                tools=self.tools,
                read=read,
            )
        return without_secrets("\n".join(lines))[0]

    def extract_entry(self) -> Entry:
        """The entry with an extract, as long as a summary may be."""
        share = LARGEST_SUMMARY_SHARE * EXTRACT_SLACK
        most = min(int(self.plan.tokens_covered * share), self._largest // 2)
        budget = min(self.plan.budget.summary, most)
        return self.entry(self._extract(budget))

    def extractive_entry(self) -> Entry:
        """The facts, and an extract in what they leave of their budget.

        Without a model facts may take what a summary would. Raises CompactionError when
        it saves too little.
        """
        usual = self.plan.budget.facts - TAGS_TOKENS
        short = min(FACTS_TOKENS, int(self._largest * EXTRACT_SLACK)) - TAGS_TOKENS
        found = self._facts(max(usual, short) - EXTRACT_TOKENS)
        budget = usual - self.counter.count("\n".join(found.lines))
        return self._checked(self._extract(budget), found)

    def smaller_entry(self) -> Entry:
        """The current summary again, within the budget: its text, and new facts.

        What was carried over comes before other facts. Raises CompactionError when the
        entry is too large even so.
        """
        budget, count = self.plan.budget, self.counter.count
        before = self.covered[0].content
        story = shorten_to_tokens(summary_text(before), budget.summary, count)
        lines, room = carried_lines(before), budget.facts // 2
        kept = within(lines, room, lambda line: count(line) + 1)
        carried = kept if len(kept) > 1 else []
        taken = count("\n".join(carried)) + 1 if carried else 0
        found = self._facts(budget.facts - taken)
        entry = self._made(story, replace(found, lines=(*carried, *found.lines)))
        check_budget(count(entry.content), budget.limit)
        return entry

    def omission_entry(self) -> Entry:
        """The last resort, where not even facts fit: a line on what is missing.

        Raises CompactionError when even that would save too little.
        """
        count = count_messages(
            self.session.transcript[self.plan.start : self.plan.stop]
        )
        return self._checked(OMISSION.format(count=f"{count:,}"), Facts())

    def _extract(self, budget_tokens: int) -> str:
        return extract(self.covered, budget_tokens=budget_tokens, counter=self.counter)

    def _checked(self, summary: str, found: Facts) -> Entry:
        entry, count = self._made(summary, found), self.counter.count
        entry_tokens = count(entry.content)
        check_size(
            count(summary),
            entry_tokens,
            replaced_tokens=self.plan.tokens_covered,
            largest_tokens=largest_entry(self.policy, self.plan.tokens_covered),
        )
        check_budget(entry_tokens, self.plan.budget.limit)
        return entry

    def _made(self, summary: str, found: Facts) -> Entry:
        shown = [without_secrets(line) for line in found.lines]
        entry = summary_entry(summary, [line for line, _ in shown])
        if any(count for _, count in shown):
            kept = (each for each in found.facts if not _is_secret(each))
            found = replace(found, facts=tuple(kept))
        self.facts_of[entry.content] = found.facts
        return entry

    def _facts(
        self,
        budget_tokens: int,
        summary: str = "",
        *,
        beside: int | None = None,
        are_tools_known: bool = True,
    ) -> Facts:
        """The facts within a budget.

        With `beside` they are those beside a good summary: rules, and so many tokens
        of rows.
        """
        covered, counter = self.to_cover, self.counter
        with self.readings.of(covered) as read:
            kinds = ("rule", *OTHER_KINDS) if beside is None else ("rule",)
            sections = kept_sections(
                covered,
                self.policy,
                budget_tokens,
                counter,
                quotes=self._quotes(read, covered, summary, *kinds),
                rules_tokens=self._rules_tokens(budget_tokens, summary),
                read=read,
            )
            if beside is not None:
                used = counter.count("\n".join(sections)) if sections else 0
                budget_tokens = min(budget_tokens, used + beside)
            found = collect_facts(
                self.transcript,
                self.plan.stop,
                said=summary,
                budget_tokens=budget_tokens,
                counter=counter,
                tools=self.tools if are_tools_known else (),
                read=read,
                is_brief=beside is not None,
                above=sections,
            )
        lines = (*found.lines, *self._variables(self.transcript))
        return Facts(lines, found.facts)

    def _quotes(
        self, read: ReadEntries, covered: Sequence[Entry], summary: str, *kinds: Kind
    ) -> list[Quote]:
        """The quotes of some kinds that are in force and not in the summary."""
        found = quotes_in_force(self.session, covered, summary, read)
        wanted = [quote for quote in found if quote.kind in kinds]
        return not_quoted(wanted, summary)

    def _rules_tokens(self, budget_tokens: int, summary: str) -> int:
        """Tokens for rules: half of the facts', or more where so much is left."""
        taken = max(self.counter.count(summary), EXTRACT_TOKENS) + TAGS_TOKENS
        left = max(budget_tokens, self._largest - taken)
        return max(min(left, RULES_TOKENS), budget_tokens // 2)

    def _variables(self, transcript: Sequence[Entry]) -> list[str]:
        if self.live_variables is None:
            return []
        lines = self.live_variables(transcript)[:VARIABLES_LINES]
        share = int(self.plan.tokens_covered * VARIABLES_SHARE)
        kept = within(lines, min(VARIABLES_TOKENS, share), self.counter.count)
        return [VARIABLES_TITLE, *kept] if kept else []


def quotes_in_force(
    session: Session,
    entries: Sequence[Entry],
    summary: str = "",
    read: ReadEntries | None = None,
) -> list[Quote]:
    """The rules of people in entries of a session, less those that were dropped.

    `read` is what was read of the entries, if it is known.
    """
    if read is None:
        entries = [masked(entry) if entry.is_prompt else entry for entry in entries]
    quoted = read.quoted if read else SummaryQuotes()
    found = rules_in_force(
        entries,
        verified=quoted.of(session.active_compactions, entries, summary),
        messages=read.messages if read else None,
    )
    return [quote for quote in found if quote.text not in session.dropped_rules]


def _beside(summary_tokens: int) -> int:
    """Tokens of facts and of what is carried over beside a good summary."""
    return int(summary_tokens * BESIDE_SHARE / (1 - BESIDE_SHARE))


def _is_secret(fact: Fact) -> bool:
    """Whether it holds a secret, such as an argument of the call that it is about."""
    return without_secrets(f"{fact.entity}\n{fact.field}: {fact.value}")[1] > 0


def _rows_beside(entry: Entry) -> list[str]:
    """The facts beside a summary but for what was carried over to it."""
    if entry.role != "summary":
        return []
    carried = set(carried_lines(entry.content))
    return [line for line in summary_facts(entry.content) if line not in carried]


def extract(
    covered: Sequence[Entry], *, budget_tokens: int, counter: TokenCounter
) -> str:
    """The newest messages, oldest first, after an earlier summary."""
    count = counter.count
    lines = [_line(entry) for entry in covered if _is_message(entry)]
    left = budget_tokens - count(OPENING)
    kept = within(reversed(lines), left, lambda line: count(line) + 1)
    missing = len(lines) - len(kept)
    note = [f"({missing} earlier messages omitted)"] if missing else []
    return "\n".join([OPENING, *note, *reversed(kept)])


def _is_message(entry: Entry) -> bool:
    return entry.is_of_user or entry.is_answer or entry.role == "summary"


def _line(entry: Entry) -> str:
    is_summary = entry.role == "summary"
    text = summary_text(entry.content) if is_summary else entry.content
    text = text.removeprefix(OPENING)  # of an earlier extract
    role = "earlier" if is_summary else entry.role
    return f"- {role}: {shorten(' '.join(text.split()), LINE_LIMIT)}"
