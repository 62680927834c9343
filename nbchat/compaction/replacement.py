"""What stands in for all that is folded: the story, the facts, the live variables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nbchat.compaction.envelope import summary_entry
from nbchat.compaction.facts import ledger
from nbchat.compaction.fitting import within
from nbchat.compaction.plan import Plan
from nbchat.compaction.story.extract import extract
from nbchat.compaction.story.gates import LARGEST_STORY_SHARE, check_size
from nbchat.history import Entry
from nbchat.session import Session
from nbchat.tokens import TokenCounter

FACTS_TOKENS, FACTS_SHARE = 500, 0.4
"""Facts take a tenth of what is folded, or this many tokens, but never over 40 %."""

EXTRACT_TOKENS, EXTRACT_SLACK = 26, 0.9
"""What an extract takes at the least when there is no story: its opening and a count;
and how nearly it may come to the length at which a story is refused."""

TAGS_TOKENS = 20
"""Of the tags around a story and its facts."""

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
    counter: TokenCounter
    live_variables: LiveVariables | None = None

    def entry(self, story: str) -> Entry:
        """The entry with its facts; raises CompactionError when it would not pay."""
        return self._checked(story, self._facts(self._facts_tokens))

    def extract(self) -> str:
        """A story by no model, as long as one may be."""
        share = LARGEST_STORY_SHARE * EXTRACT_SLACK
        budget = int(self.plan.tokens_covered * share)
        budget = min(self.plan.summary_max_tokens, budget)
        return extract(self.plan.covered, budget_tokens=budget, counter=self.counter)

    def extractive_entry(self) -> Entry:
        """The facts, and of the newest words what the room for facts has left.

        Raises CompactionError when it would not pay.
        """
        room = self._facts_tokens - TAGS_TOKENS
        facts = self._facts(room - EXTRACT_TOKENS)
        room -= self.counter.count("\n".join(facts))
        story = extract(self.plan.covered, budget_tokens=room, counter=self.counter)
        return self._checked(story, facts)

    def _checked(self, story: str, facts: list[str]) -> Entry:
        entry, count = summary_entry(story, facts), self.counter.count
        replaced = self.plan.tokens_covered
        check_size(count(story), count(entry.content), replaced_tokens=replaced)
        return entry

    @property
    def _facts_tokens(self) -> int:
        covered = self.plan.tokens_covered
        return max(covered // 10, min(FACTS_TOKENS, int(covered * FACTS_SHARE)))

    def _facts(self, budget_tokens: int) -> list[str]:
        transcript, stop = self.session.transcript, self.plan.stop
        lines = ledger.facts(
            transcript[:stop],
            last=ledger.last_exchange(transcript, stop),
            budget_tokens=budget_tokens,
            counter=self.counter,
        )
        return lines + self._variables()

    def _variables(self) -> list[str]:
        if self.live_variables is None:
            return []
        lines = self.live_variables(self.session.transcript)[:VARIABLES_LINES]
        share = int(self.plan.tokens_covered * VARIABLES_SHARE)
        kept = within(lines, min(VARIABLES_TOKENS, share), self.counter.count)
        return [VARIABLES_TITLE, *kept] if kept else []
