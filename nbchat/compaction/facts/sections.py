"""Sections of facts that a policy asks for: rules, files, commands, exchanges."""

from collections.abc import Sequence

from nbchat.compaction.facts.artifacts import artifact_lines
from nbchat.compaction.facts.exchanges import exchange_lines
from nbchat.compaction.facts.rules import Quote, rule_lines, rules_in_force
from nbchat.compaction.policies import Policy
from nbchat.compaction.shortening import within
from nbchat.compaction.summary_format import summary_facts
from nbchat.conversation.entries import Entry
from nbchat.providers.tokens import TokenCounter

IMPORTED_TITLE = "From another session:"

SHARE = 0.5
"""Share of the facts' budget for artifacts and exchanges; rules may take all."""


def kept_sections(
    covered: Sequence[Entry],
    policy: Policy,
    budget_tokens: int,
    counter: TokenCounter,
    *,
    quotes: Sequence[Quote] | None = None,
    rules_tokens: int | None = None,
) -> list[str]:
    """The rules in force, then the sections of a policy, within a budget.

    `quotes` are what people said that is in force, if it is known. `rules_tokens` is
    what they may take; None is the whole budget.
    """
    quotes = rules_in_force(covered) if quotes is None else quotes
    limit = budget_tokens if rules_tokens is None else rules_tokens
    lines = rule_lines(quotes, limit, counter)
    budget_tokens -= counter.count("\n".join(lines))
    imported = _imported(covered, int(budget_tokens * SHARE), counter)
    lines += imported
    budget_tokens -= counter.count("\n".join(imported))
    limit = int(budget_tokens * SHARE)
    if policy.summarizer == "hybrid":
        lines += artifact_lines(covered, limit, counter)
    if policy.bullets:
        lines += exchange_lines(covered, policy.bullets, limit, counter)
    return lines


def _imported(
    covered: Sequence[Entry], budget_tokens: int, counter: TokenCounter
) -> list[str]:
    """The facts in the newest summary imported from another session."""
    summaries = (entry for entry in reversed(covered) if entry.role == "summary")
    found = next(summaries, None)
    if found is None:
        return []
    lines = [IMPORTED_TITLE, *summary_facts(found.content)]
    kept = within(lines, budget_tokens, lambda line: counter.count(line) + 1)
    return kept if len(kept) > 1 else []
