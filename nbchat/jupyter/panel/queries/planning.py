"""What a compaction would do, in figures a person can decide by; calls no model."""

from typing import Any

from nbchat.agent.agent import Agent
from nbchat.compaction.plan import Plan
from nbchat.rendering.markdown import displayable


def planned(agent: Agent, keep: int | None) -> dict[str, Any]:
    """The dry run of a compaction by hand, or in `skip` the reason why there is none.

    `keep` is how many tokens of the newest messages stay word for word.
    """
    session = agent.session
    plan = agent.engine.plan(session, keep=keep)
    said, known = len(session.transcript), session.compaction
    start = known.stop if known else 0
    stop = start if plan.skip else plan.stop
    before = agent.engine.tracker.context_tokens(session)
    return {
        "type": "planned",
        "messages": said,
        "summarized": start,
        "folded": stop - start,
        "kept": said - stop,
        "tokens_before": before,
        "tokens_after": before if plan.skip else max(0, plan.tokens_after),
        "skip": displayable(plan.skip),
        "warning": _warning(plan, least_tokens=agent.engine.policy.least_tokens),
    }


def _warning(plan: Plan, *, least_tokens: int) -> str:
    if plan.skip or plan.tokens_covered >= least_tokens:
        return ""
    return (
        f"Only {plan.tokens_covered:,} tokens would be folded. A summary is hardly "
        "shorter than that, so this may fail or save nothing."
    )
