"""The models that can be chosen in the panel, as a view lists them."""

from typing import Any

from nbchat.agent.agent import Agent
from nbchat.providers.model_list import list_models
from nbchat.rendering.markdown import displayable


def models_list(agent: Agent) -> dict[str, Any]:
    """Names that `/model` takes, and why the present server has listed none."""
    found = list_models(agent.provider)
    return {
        "type": "models_list",
        "models": list(map(displayable, found.models)),
        "problem": displayable(found.problem),
    }
