"""What can be done with what stands in the transcript: undone, edited, taken in again.

A view shows a button only where the command behind it would work.
"""

from collections.abc import Mapping
from typing import Any

from nbchat.agent.agent import Agent
from nbchat.compaction.markup import facts_of, story
from nbchat.errors import NbchatError
from nbchat.rendering.markdown import displayable


def marks(agent: Agent, banners: Mapping[str, int]) -> dict[str, Any]:
    """Pins, places left out, and the items whose compaction can be changed.

    `banners` are the items of the compactions by their ids.
    """
    session, engine = agent.session, agent.engine
    records = {
        "undo": engine.undo(session),
        "rewrite": session.compaction,
        "redo": engine.redo(session),
    }
    return {
        "pins": list(map(displayable, session.pins)),
        "left_out": sorted(session.excluded),
        "changes": {
            change: banners.get(record.id) if record else None
            for change, record in records.items()
        },
    }


def summary_in_force(agent: Agent) -> dict[str, Any]:
    """The story of the summary in force, to be edited, and the facts beside it."""
    compaction = agent.session.compaction
    if compaction is None:
        raise NbchatError("there is no summary to edit")
    return {
        "type": "summary_text",
        "story": displayable(story(compaction.summary)),
        "facts": displayable("\n".join(facts_of(compaction.summary))),
    }
