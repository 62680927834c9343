"""Queries of the page of models: providers, servers of one's own, a test, a choice."""

from typing import TYPE_CHECKING

from nbchat.agent.agent import Agent
from nbchat.jupyter.panel import protocol
from nbchat.providers.sdk_provider import SdkProvider
from nbchat.rendering.plain_text import displayable

if TYPE_CHECKING:
    from nbchat.chat.models import KnownModel, KnownProvider, Models

MOST_MODELS = 5_000
"""Names of one server that reach the page; the largest known one has 3,000."""


def models_page(
    agent: Agent, models: "Models", trial: protocol.Trial
) -> protocol.ModelsPage:
    """The chat's model, and all that can be chosen; asks no server."""
    provider, info = agent.provider, agent.engine.tracker.info
    own = provider if isinstance(provider, SdkProvider) else None
    return protocol.ModelsPage(
        model=displayable(provider.name),
        address=own.endpoint.url if own is not None and own.own_address else "",
        origin=models.origin(agent),
        always=models.for_new_chats,
        window=info.window,
        is_assumed=info.is_assumed,
        is_locked=models.is_locked,
        providers=tuple(map(_provider, models.providers())),
        trial=trial,
    )


def server_models(models: "Models", asked: protocol.AskServer) -> protocol.ServerModels:
    """What a server says it has."""
    found = models.served(
        asked.provider, asked.address, asked.key, sends_key=asked.sends_key
    )
    return protocol.ServerModels(
        provider=found.kind,
        address=found.address,
        server=found.server,
        models=tuple(map(_row, found.models[:MOST_MODELS])),
        problem=displayable(found.problem),
        wants_key=found.wants_key,
        variable=found.variable,
        place=found.place,
    )


def model_tested(models: "Models", asked: protocol.TestModel) -> protocol.ModelTested:
    """How a model answered one short request."""
    found = models.test(asked.model, asked.address)
    return protocol.ModelTested(
        model=displayable(found.model),
        seconds=found.seconds,
        tokens_per_second=found.tokens_per_second,
        calls_tools=found.calls_tools,
    )


def model_chosen(
    agent: Agent, models: "Models", chosen: protocol.ChooseModel
) -> protocol.ModelChosen:
    """Use a model from now on."""
    text = models.choose(
        agent,
        chosen.model.strip(),
        chosen.address,
        always=chosen.always,
        unlisted=chosen.unlisted,
    )
    return protocol.ModelChosen(text)


def model_forgotten(models: "Models") -> protocol.ModelChosen:
    """Choose no model for new chats any more."""
    return protocol.ModelChosen(models.forget())


def _provider(known: "KnownProvider") -> protocol.ModelProvider:
    return protocol.ModelProvider(
        kind=known.kind,
        name=known.name,
        variable=known.variable,
        place=known.place,
        needs_key=known.needs_key,
        models=tuple(map(_row, known.models)),
    )


def _row(known: "KnownModel") -> protocol.ModelRow:
    dollars = known.dollars or (None, None)
    return protocol.ModelRow(displayable(known.name), known.window, *dollars)
