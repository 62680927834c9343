"""What a policy wants kept beside the ledger: rules, artifacts, a line an exchange."""

from collections.abc import Sequence

from nbchat.compaction.envelope import facts_of
from nbchat.compaction.facts.artifacts import artifact_lines
from nbchat.compaction.facts.exchanges import exchange_lines
from nbchat.compaction.facts.rules import rule_lines
from nbchat.compaction.fitting import within
from nbchat.compaction.policies import Policy
from nbchat.history import Entry
from nbchat.tokens import TokenCounter

IMPORTED_TITLE = "From another session:"

SHARE = 0.5
"""Of the room for facts what artifacts and exchanges may take; rules may take all."""


def kept_sections(
    folded: Sequence[Entry], policy: Policy, budget_tokens: int, counter: TokenCounter
) -> list[str]:
    """The lines of all sections that the policy asks for, within a budget."""
    lines = _imported(folded, int(budget_tokens * SHARE), counter)
    budget_tokens -= counter.count("\n".join(lines))
    if policy.keeps_rules:
        lines += rule_lines(folded, budget_tokens, counter)
        budget_tokens -= counter.count("\n".join(lines))
    room = int(budget_tokens * SHARE)
    if policy.summarizer == "hybrid":
        lines += artifact_lines(folded, room, counter)
    if policy.bullets:
        lines += exchange_lines(folded, policy.bullets, room, counter)
    return lines


def _imported(
    folded: Sequence[Entry], budget_tokens: int, counter: TokenCounter
) -> list[str]:
    """The facts that came with the summary of another session, of the newest one."""
    summaries = (entry for entry in reversed(folded) if entry.role == "summary")
    found = next(summaries, None)
    if found is None:
        return []
    lines = [IMPORTED_TITLE, *facts_of(found.content)]
    kept = within(lines, budget_tokens, lambda line: counter.count(line) + 1)
    return kept if len(kept) > 1 else []
