"""How a running chat follows a setting that was changed; all else in it stays."""

from typing import cast

from nbchat.agent.agent import Agent
from nbchat.compaction.policies import policy_named
from nbchat.compaction.summarizer.strategies import ShapeChoice
from nbchat.config.factory import (
    connect_as,
    encoding_of,
    kind_of,
    offers_recall,
    policy_of,
    writer_model,
)
from nbchat.config.preferences import WRITERS
from nbchat.config.settings import NbChat
from nbchat.conversation.search import TOOL_NAME, recall_tool
from nbchat.conversation.tools import as_tools
from nbchat.errors import NbchatError
from nbchat.providers import KINDS, connect, default_model
from nbchat.providers.base import Provider, SupportsSiblings


def apply_setting(agent: Agent, config: NbChat, name: str) -> None:
    """Let a running chat follow one setting; raises ConfigError if it cannot."""
    engine = agent.engine
    match name:
        case "context_token_threshold":
            engine.tracker.set_threshold(config.context_token_threshold)
        case "summary_prompt":
            engine.summary_prompt = config.summary_prompt or None
        case "summary_model":
            engine.summary_model = writer_model(
                config.summary_model, config, agent.provider
            )
        case "fallback_model":
            engine.fallback_model = writer_model(
                config.fallback_model, config, agent.provider
            )
        case "window":
            agent.use(_measured(agent.provider, config.window), window=config.window)
        case "max_output_tokens":
            agent.max_output_tokens = config.max_output_tokens
            agent.use(agent.provider, window=config.window)
        case "policy":
            base = policy_named(config.policy)
            engine.tracker.use_policy(policy_of(config), base=base)
        case _:
            base = engine.tracker.base_policy
            engine.tracker.use_policy(policy_of(config, base), base=base)


def apply_configured(agent: Agent, config: NbChat, name: str) -> None:
    """Let a running chat follow a setting that only a configuration has."""
    match name:
        case "base_url":
            _move(agent, config)
        case "system_prompt":
            _instruct(agent, config)
        case "max_steps":
            agent.max_steps = config.max_steps
        case "recall":
            _offer_recall(agent, config)
        case "tokenizer":
            agent.engine.tracker.encoding = encoding_of(config)
            agent.use(agent.provider, window=config.window)
        case "summary_shape":
            agent.engine.summary_shape = cast("ShapeChoice", config.summary_shape)
        case "log_folder":
            _keep_log(agent, config)


def keep_writers(agent: Agent, config: NbChat, provider: Provider) -> None:
    """Let models that go by name alone stay with `provider` if the chat has left it."""
    kind = kind_of(provider.name)
    if kind == kind_of(agent.provider.name) or kind not in KINDS:
        return
    engine = agent.engine
    if isinstance(name := engine.summary_model, str):
        engine.summary_model = connect_as(config, f"{kind}:{name}", provider)
    if isinstance(name := engine.fallback_model, str):
        engine.fallback_model = connect_as(config, f"{kind}:{name}", provider)


def _measured(provider: Provider, window: int | None) -> Provider:
    """The provider, or without a window a new one: the old may have begun with one."""
    if window is None and isinstance(provider, SupportsSiblings):
        return provider.sibling(provider.name.partition(":")[2])
    return provider


def _move(agent: Agent, config: NbChat) -> None:
    """Ask the chat's models at another address, if they are of its provider."""
    provider, kind = agent.provider, kind_of(config.model or default_model())
    if kind == kind_of(provider.name) and isinstance(provider, SupportsSiblings):
        url, window = config.base_url, config.window
        agent.use(connect(provider.name, base_url=url, window=window))
    for each in WRITERS:
        if ":" in getattr(config, each):  # one named alone is asked where it was
            apply_setting(agent, config, each)


def _instruct(agent: Agent, config: NbChat) -> None:
    before, agent.system = agent.system, config.system_prompt
    try:
        agent.use(agent.provider, window=config.window)
    except NbchatError:
        agent.system = before
        raise


def _offer_recall(agent: Agent, config: NbChat) -> None:
    others = tuple(each for each in agent.tools if each.name != TOOL_NAME)
    found = recall_tool(lambda: agent.session, count=agent.engine.tracker.counter.count)
    is_offered = offers_recall(config, agent.provider)
    agent.tools = (*others, *as_tools([found] * is_offered))
    agent.use(agent.provider, window=config.window)


def _keep_log(agent: Agent, config: NbChat) -> None:
    if agent.recorder is not None:
        agent.recorder.write_log_to(config.log_folder)
