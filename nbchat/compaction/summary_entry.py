"""What stands in for all that is folded: the story, the facts, the live variables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nbchat.compaction.facts import facts
from nbchat.compaction.facts.sections import kept_sections
from nbchat.compaction.markup import story, summary_entry
from nbchat.compaction.plan import Plan
from nbchat.compaction.policies import Policy
from nbchat.compaction.summarizer.validation import (
    LARGEST_STORY_SHARE,
    check_room,
    check_size,
)
from nbchat.compaction.truncation import shorten, within
from nbchat.conversation.entries import Entry
from nbchat.conversation.session import Session
from nbchat.providers.tokens import TokenCounter

OPENING = "(No model wrote this. The newest words themselves, shortened:)"

LINE_LIMIT = 160
"""Characters kept of one message."""


def extract(
    covered: Sequence[Entry], *, budget_tokens: int, counter: TokenCounter
) -> str:
    """The newest of what was said, oldest first, with the earlier summary before it."""
    lines = [_line(entry) for entry in covered if _is_said(entry)]
    room = budget_tokens - counter.count(OPENING)
    kept = within(reversed(lines), room, lambda line: counter.count(line) + 1)
    missing = len(lines) - len(kept)
    note = [f"({missing} earlier messages left out)"] if missing else []
    return "\n".join([OPENING, *note, *reversed(kept)])


def _is_said(entry: Entry) -> bool:
    return entry.is_answer or entry.role in ("user", "summary")


def _line(entry: Entry) -> str:
    text = story(entry.content) if entry.role == "summary" else entry.content
    who = "before" if entry.role == "summary" else entry.role
    return f"- {who}: {shorten(' '.join(text.split()), LINE_LIMIT)}"


EXTRACT_TOKENS, EXTRACT_SLACK = 26, 0.9
"""What an extract takes at the least when there is no story: its opening and a count;
and how nearly it may come to the length at which a story is refused."""

TAGS_TOKENS = 20
"""Of the tags around a story and its facts."""

CUT_OFF = "({count} earlier entries are left out to make room; all are kept.)"
"""What a conversation says that had to be cut: 17 tokens."""

VARIABLES_TOKENS, VARIABLES_SHARE, VARIABLES_LINES = 300, 0.1, 20
"""Live variables take a tenth of what is folded, at most so many tokens and lines."""

VARIABLES_TITLE = "Variables in the kernel now:"

LiveVariables = Callable[[Sequence[Entry]], list[str]]
"""Lines on what the kernel holds of what entries mention."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """The summary entry of one plan, with a story from whoever writes it."""

    session: Session
    plan: Plan
    policy: Policy
    counter: TokenCounter
    live_variables: LiveVariables | None = None

    def entry(self, story: str) -> Entry:
        """The entry with its facts; raises CompactionError when it would not pay."""
        return self._checked(story, self._facts(self.plan.budget.facts))

    def stand_in(self) -> Entry:
        """The entry with a story by no model, as long as one may be."""
        share = min(LARGEST_STORY_SHARE * EXTRACT_SLACK, self.policy.largest_share / 2)
        budget = min(self.plan.budget.summary, int(self._covered * share))
        return self.entry(self._extract(budget))

    def extractive_entry(self) -> Entry:
        """The facts, and of the newest words what the room for facts has left.

        Raises CompactionError when it would not pay.
        """
        room = self.plan.budget.facts - TAGS_TOKENS
        facts = self._facts(room - EXTRACT_TOKENS)
        room -= self.counter.count("\n".join(facts))
        return self._checked(self._extract(room), facts)

    def cut_off(self) -> Entry:
        """The last resort, where not even facts fit: a line on what is missing.

        Raises CompactionError when even that would not pay.
        """
        count = self.plan.stop - self.plan.start
        return self._checked(CUT_OFF.format(count=f"{count:,}"), [])

    @property
    def _covered(self) -> int:
        return self.plan.tokens_covered

    def _extract(self, budget_tokens: int) -> str:
        return extract(
            self.plan.covered, budget_tokens=budget_tokens, counter=self.counter
        )

    def _checked(self, story: str, facts: list[str]) -> Entry:
        entry, count = summary_entry(story, facts), self.counter.count
        check_size(
            count(story),
            count(entry.content),
            replaced_tokens=self._covered,
            largest_share=self.policy.largest_share,
        )
        check_room(count(entry.content), self.plan.budget.room)
        return entry

    def _facts(self, budget_tokens: int) -> list[str]:
        transcript, stop = self.session.included_transcript, self.plan.stop
        sections = kept_sections(
            transcript[:stop], self.policy, budget_tokens, self.counter
        )
        taken = self.counter.count("\n".join(sections)) if sections else 0
        lines = facts.facts(
            transcript[:stop],
            last=facts.last_exchange(transcript, stop),
            budget_tokens=budget_tokens - taken,
            counter=self.counter,
        )
        return [*sections, *lines, *self._variables()]

    def _variables(self) -> list[str]:
        if self.live_variables is None:
            return []
        lines = self.live_variables(self.session.included_transcript)[:VARIABLES_LINES]
        share = int(self.plan.tokens_covered * VARIABLES_SHARE)
        kept = within(lines, min(VARIABLES_TOKENS, share), self.counter.count)
        return [VARIABLES_TITLE, *kept] if kept else []
