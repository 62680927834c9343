"""What the header says of a chat: model, policy, summary, how full, how dear."""

from typing import Any

from nbchat.agent.agent import Agent
from nbchat.conversation.events import UsageReported
from nbchat.conversation.session import Session
from nbchat.jupyter.panel.view_model.costs import session_text
from nbchat.rendering.entries import summary_html
from nbchat.rendering.markdown import displayable


def figures(agent: Agent) -> dict[str, Any]:
    """All of it as it is now; commands change it, and so do compactions."""
    engine, session = agent.engine, agent.session
    return {
        "model": displayable(agent.provider.name),
        "policy": displayable(engine.policy.name),
        "summary": _summary(session),
        "spent": session_text(session),
        "meter": {
            "tokens": engine.input_tokens,
            "threshold": engine.context_token_threshold,
            "context": engine.tracker.context_tokens(session),
            "window": engine.tracker.info.window,
        },
    }


def meter(event: UsageReported) -> dict[str, int | None]:
    """How full the context is after a response."""
    return {
        "tokens": event.input_tokens,
        "threshold": event.threshold,
        "context": event.context_tokens,
        "window": event.window,
    }


def _summary(session: Session) -> dict[str, Any] | None:
    """What stands in for the beginning of a session, and for how much of it."""
    record = session.compaction
    if record is None:
        return None
    return {"messages": record.stop, "html": summary_html(record.summary)}
