"""What a policy wants kept beside the ledger: rules, artifacts, a line an exchange."""

from collections.abc import Sequence

from nbchat.compaction.facts.artifacts import artifact_lines
from nbchat.compaction.facts.exchanges import exchange_lines
from nbchat.compaction.facts.rules import rule_lines
from nbchat.compaction.policies import Policy
from nbchat.history import Entry
from nbchat.tokens import TokenCounter

SHARE = 0.5
"""Of the room for facts what artifacts and exchanges may take; rules may take all."""


def kept_sections(
    folded: Sequence[Entry], policy: Policy, budget_tokens: int, counter: TokenCounter
) -> list[str]:
    """The lines of all sections that the policy asks for, within a budget."""
    lines: list[str] = []
    if policy.keeps_rules:
        lines += rule_lines(folded, budget_tokens, counter)
        budget_tokens -= counter.count("\n".join(lines))
    room = int(budget_tokens * SHARE)
    if policy.summarizer == "hybrid":
        lines += artifact_lines(folded, room, counter)
    if policy.bullets:
        lines += exchange_lines(folded, policy.bullets, room, counter)
    return lines
