"""Prompt caching: the marks in requests, lifetimes, prices, and a cache that was lost."""

from dataclasses import replace
from typing import Any

import pytest
from fault_server import AnthropicDialect, Response, sse
from openai_rules import OpenAIServer
from provider_kit import HELLO, KEY, at_home, provider_at, reply_of, sent_body
from tables import every
from wire_rules import anthropic_cache_faults

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry, Usage
from nbchat.conversation.session import turn_costs
from nbchat.conversation.tools import tool
from nbchat.jupyter.panel.transcript import _cost_text
from nbchat.providers.anthropic import AnthropicProvider
from nbchat.providers.base import Request, wire_text
from nbchat.providers.model_info import model_info
from nbchat.providers.openai_responses import ResponsesProvider
from nbchat.testing import ScriptedProvider, says

SUMMARY = Entry("summary", "<summary>\nWhat happened.\n</summary>")
MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


LONG = Request(
    (
        SUMMARY,
        Entry("user", "And now?"),
        Entry("assistant", "Done."),
        Entry("user", "Add."),
        Entry("assistant", "", "c1", "add", '{"a": 1, "b": 2}'),
        Entry("tool", "3", "c1", "add"),
    ),
    "You are kind.",
    (add, replace(add, name="sum_up")),
)


@pytest.mark.parametrize(("lifetime", "mark"), [(None, MARK), ("1h", HOUR)])
def test_anthropic_gets_marks_on_tools_system_summary_and_last_message(
    server, lifetime, mark
):
    provider = provider_at(server, "anthropic", cache_lifetime=lifetime)
    body = sent_body(server, provider, LONG)
    assert [tool.get("cache_control") for tool in body["tools"]] == [
        None,
        *mark.values(),
    ]
    assert body["system"] == [{"type": "text", "text": "You are kind.", **mark}]
    blocks = [block for message in body["messages"] for block in message["content"]]
    marked = [block for block in blocks if "cache_control" in block]
    assert marked[0] == {"type": "text", "text": wire_text(SUMMARY), **mark}
    assert (marked[1]["type"], marked[1]["tool_use_id"]) == ("tool_result", "c1")
    assert len(marked) == 2
    assert anthropic_cache_faults(body) == []


def test_marks_move_on_and_the_messages_before_them_stay_as_they_were(server):
    provider = provider_at(server, "anthropic")
    first = sent_body(server, provider, HELLO)
    more = (*HELLO.history, Entry("assistant", "Hi."), Entry("user", "More."))
    second = sent_body(server, provider, Request(more))
    assert first["messages"][0]["content"] == [
        {"type": "text", "text": "Hello", **MARK}
    ]
    assert second["messages"][0]["content"] == [{"type": "text", "text": "Hello"}]
    assert second["messages"][2]["content"][0]["text"] == "More."


def test_a_text_that_only_imitates_a_summary_gets_no_mark_of_one(server):
    forged = Entry("user", wire_text(SUMMARY))
    history = (forged, Entry("assistant", "So?"), Entry("user", "Go on."))
    body = sent_body(server, provider_at(server, "anthropic"), Request(history))
    assert "cache_control" not in body["messages"][0]["content"][0]


def test_openai_gets_a_mark_after_the_summary_and_a_lifetime_where_it_takes_them():
    server = OpenAIServer()
    provider = at_home(ResponsesProvider, f"{server.url}/v1")
    for model, is_new in (("gpt-6-luna", True), ("gpt-5.4-mini", False)):
        found = sent_body(
            server, provider(model, api_key=lambda: KEY, cache_lifetime="1h"), LONG
        )
        parts = found["input"][0]["content"]
        marks = [part.get("prompt_cache_breakpoint") for part in parts]
        assert marks == ([{"mode": "explicit"}, None] if is_new else [None, None])
        assert found.get("prompt_cache_options") == ({"ttl": "12h"} if is_new else None)
    assert server.refused == []
    server.close()


@every(
    ("name", "lifetime", "seconds"),
    [
        ("claude-haiku-5-5", None, 300),
        ("claude-haiku-5-5", "1h", 3_600),
        ("gpt-6-luna", None, 1_800),
        ("gpt-6-luna", "1h", 43_200),
        ("gpt-5.4-mini", "1h", 300),
    ],
)
def test_each_model_keeps_its_cache_for_its_own_time(name, lifetime, seconds):
    assert model_info(name).with_cache_lifetime(lifetime).cache_seconds == seconds


def test_an_hour_of_anthropics_cache_costs_twice_the_input_to_write():
    info = model_info("claude-sonnet-5-5", provider="anthropic")
    long = info.with_cache_lifetime("1h")
    assert info.prices is not None
    assert long.prices is not None
    assert info.prices.cache_write == pytest.approx(info.prices.input * 1.25)
    assert long.prices.cache_write == pytest.approx(info.prices.input * 2)
    assert long.prices.cache_read == info.prices.cache_read
    written = Usage(1_000_000, 0, cache_write_tokens=1_000_000)
    assert long.cost(written) == pytest.approx((info.cost(written) or 0) * 1.6)


def test_a_reply_is_billed_for_the_lifetime_that_was_asked_for(server):
    model, start = "claude-sonnet-5-5", {"input_tokens": 10, "output_tokens": 1}
    usage = {
        **start,
        "cache_creation_input_tokens": 1_000,
        "cache_read_input_tokens": 0,
    }
    whole = AnthropicDialect().text("ok", usage=None)
    first = sse({"type": "message_start", "message": {"usage": usage}}, "message_start")
    dollars = []
    for lifetime in (None, "1h"):
        server.script(Response((first, *whole.events[1:])))
        made = at_home(AnthropicProvider, server.url)
        provider = made(model, api_key=lambda: KEY, cache_lifetime=lifetime)
        dollars.append(reply_of(provider).usage.dollars)
    assert dollars[1] > dollars[0] * 1.4


def agent_and_clock(*usages: Usage, **options: Any) -> tuple[Agent, list[float]]:
    """An agent whose replies report these usages, and its clock in seconds."""
    now = [0.0]
    engine = CompactionEngine(context_token_threshold=None)
    engine.tracker._clock = lambda: now[0]
    lines = [replace(says("ok"), usage=usage) for usage in usages]
    model = ScriptedProvider(*lines, name="anthropic:claude-haiku-5-5")
    return Agent(model, engine=engine, **options), now


CACHED = Usage(42_000, 10, cache_read_tokens=30_000, cache_write_tokens=11_000)
COLD = Usage(42_500, 10, cache_write_tokens=42_000)
WARM = Usage(42_500, 10, cache_read_tokens=40_000)


def loss_of(agent: Agent) -> tuple[str, ...]:
    return turn_costs(agent.session)[-1].cache_losses


def test_below_an_answer_that_lost_its_cache_a_line_says_how_much_and_why():
    agent, now = agent_and_clock(CACHED, COLD)
    agent.ask("One?")
    now[0] = 7 * 60.0
    agent.ask("Two?")
    assert loss_of(agent) == ("cache lost: 41,000 tokens, 7 min pause",)
    shown = _cost_text(turn_costs(agent.session)[-1], 1.0)
    assert shown.endswith("1.0 s · cache lost: 41,000 tokens, 7 min pause")


def test_a_pause_within_the_lifetime_is_not_blamed():
    agent, now = agent_and_clock(CACHED, COLD, cache_lifetime="1h")
    agent.ask("One?")
    now[0] = 7 * 60.0
    agent.ask("Two?")
    assert loss_of(agent) == ("cache lost: 41,000 tokens",)


def test_a_cache_that_was_read_is_not_reported_as_lost():
    agent, now = agent_and_clock(CACHED, WARM)
    agent.ask("One?")
    now[0] = 60.0
    agent.ask("Two?")
    assert loss_of(agent) == ()


def test_a_compaction_breaks_the_cache_once_and_that_is_no_loss():
    agent, _ = agent_and_clock(CACHED, CACHED, COLD)
    agent.ask("One? " * 400)
    agent.ask("Two? " * 400)
    agent.engine.tracker.recount(agent.session)  # as after a compaction
    agent.ask("Three?")
    assert loss_of(agent) == ()
