"""One number for the context, from whatever usage a server reports (gate C3).

Twelve shapes of usage, as each of two SDKs brings them over the wire. The guard, the
banner, `/context` and the panel must read the same number from each.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nbchat.agent.agent import Agent
from nbchat.chat.context_commands import _context
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import Policy
from nbchat.conversation.entries import Entry, Usage
from nbchat.conversation.events import Compacted, UsageReported
from nbchat.providers.anthropic import EventReader
from nbchat.providers.base import Reply, Request
from nbchat.providers.model_info import ModelInfo
from nbchat.providers.openai_chat import ChunkReader
from nbchat.providers.tokens import TokenCounter
from nbchat.providers.wire_format import finished_reply

Json = dict[str, Any]

STORY = "The customer asks about order W100 and its parcel. " * 40
COUNTED = TokenCounter().count_entry(Entry("user", "Hi"))
SAID = TokenCounter().count_entry(Entry("assistant", STORY))
GUESS = Usage(COUNTED, SAID, is_estimated=True)
HUGE = 10**15

OPENAI: dict[str, tuple[Json | None, Usage, int]] = {
    "plain": ({"prompt_tokens": 900, "completion_tokens": 50}, Usage(900, 50), 950),
    "cached": (
        {
            "prompt_tokens": 900,
            "completion_tokens": 50,
            "prompt_tokens_details": {"cached_tokens": 800},
        },
        Usage(900, 50, 800),
        950,
    ),
    "cache written": (
        {
            "prompt_tokens": 900,
            "completion_tokens": 50,
            "prompt_tokens_details": {"cached_tokens": 500, "cache_write_tokens": 300},
        },
        Usage(900, 50, 500, 300),
        950,
    ),
    "None fields": (
        {
            "prompt_tokens": 900,
            "completion_tokens": None,
            "prompt_tokens_details": {"cached_tokens": None, "audio_tokens": None},
        },
        Usage(900, 0),
        900,
    ),
    "no details": (
        {"prompt_tokens": 900, "completion_tokens": 50, "prompt_tokens_details": None},
        Usage(900, 50),
        950,
    ),
    "missing": (None, GUESS, GUESS.context_tokens),
    "empty": ({}, GUESS, GUESS.context_tokens),
    "zero": (
        {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
        GUESS,
        GUESS.context_tokens,
    ),
    "all None": (
        {"prompt_tokens": None, "completion_tokens": None},
        GUESS,
        GUESS.context_tokens,
    ),
    "huge": (
        {"prompt_tokens": HUGE, "completion_tokens": 1},
        GUESS,
        GUESS.context_tokens,
    ),
    "huge answer": (
        {"prompt_tokens": 900, "completion_tokens": HUGE},
        GUESS,
        GUESS.context_tokens,
    ),
    "reasoning": (
        {
            "prompt_tokens": 900,
            "completion_tokens": 300,
            "completion_tokens_details": {"reasoning_tokens": 250},
        },
        Usage(900, 300, dropped_tokens=250),
        950,
    ),
    "unknown fields": (
        {"prompt_tokens": 900, "completion_tokens": 50, "cost": 0.1, "is_byok": False},
        Usage(900, 50),
        950,
    ),
}

ROUND = {"input_tokens": 800, "output_tokens": 90, "type": "compaction"}
LAST = {
    "type": "message",
    "input_tokens": 10,
    "cache_creation_input_tokens": 100,
    "cache_read_input_tokens": 200,
    "output_tokens": 50,
}

ANTHROPIC: dict[str, tuple[Json | None, Usage, int]] = {
    "plain": ({"input_tokens": 900, "output_tokens": 50}, Usage(900, 50), 950),
    "cached": (
        {"input_tokens": 100, "cache_read_input_tokens": 800, "output_tokens": 50},
        Usage(900, 50, 800),
        950,
    ),
    "cache written": (
        {
            "input_tokens": 100,
            "cache_read_input_tokens": 500,
            "cache_creation_input_tokens": 300,
            "output_tokens": 50,
        },
        Usage(900, 50, 500, 300),
        950,
    ),
    "None fields": (
        {
            "input_tokens": 900,
            "cache_read_input_tokens": None,
            "cache_creation_input_tokens": None,
            "cache_creation": None,
            "output_tokens": None,
        },
        Usage(900, 0),
        900,
    ),
    "all from the cache": (
        {"input_tokens": 0, "cache_read_input_tokens": 900, "output_tokens": 50},
        Usage(900, 50, 900),
        950,
    ),
    "missing": (None, GUESS, GUESS.context_tokens),
    "only output": ({"output_tokens": 50}, GUESS, GUESS.context_tokens),
    "zero": ({"input_tokens": 0, "output_tokens": 0}, GUESS, GUESS.context_tokens),
    "one round": (
        {"input_tokens": 0, "output_tokens": 0, "iterations": [LAST]},
        Usage(310, 50, 200, 100),
        360,
    ),
    "compacted by the server": (
        {"input_tokens": 10, "output_tokens": 50, "iterations": [ROUND, LAST]},
        Usage(1_110, 140, 200, 100, dropped_tokens=890),
        360,
    ),
    "huge": ({"input_tokens": HUGE, "output_tokens": 1}, GUESS, GUESS.context_tokens),
    "no iterations": (
        {"input_tokens": 900, "output_tokens": 50, "iterations": None},
        Usage(900, 50),
        950,
    ),
}


def openai_reply(usage: Json | None, request: Request) -> Reply:
    reader = ChunkReader()
    choice = {"delta": {"content": STORY}, "finish_reason": "stop"}
    for chunk in ({"choices": [choice]}, {"choices": [], "usage": usage}):
        list(reader.read(chunk))
    return finished_reply(
        reader.answer(), request, model="m", window=None, counter=TokenCounter()
    )


def anthropic_reply(usage: Json | None, request: Request) -> Reply:
    reader = EventReader()
    block = {"type": "text", "text": STORY}
    for event in (
        {"type": "message_start", "message": {"usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ):
        list(reader.read(event))
    return finished_reply(
        reader.answer(), request, model="m", window=None, counter=TokenCounter()
    )


class WireProvider:
    """Answers once over the wire with a given usage, then writes summaries."""

    name = "wire:model"

    def __init__(self, answer: Callable[[Request], Reply], window: int) -> None:
        self._answer = answer
        self._window = window

    def info(self) -> ModelInfo:
        return ModelInfo(self.name, window=self._window, output_limit=0)

    def stream(self, request: Request, *, stop=None):
        yield from ()
        if request.answer_tag:
            short = Entry("assistant", "<summary>Short.</summary>")
            return Reply((short,), Usage(500, 9), "end_turn", self.name)
        return self._answer(request)


@pytest.mark.parametrize(
    ("wire", "reported", "expected", "context"),
    [
        pytest.param(reply, *row, id=f"{sdk}-{shape}")
        for sdk, reply, table in (
            ("openai", openai_reply, OPENAI),
            ("anthropic", anthropic_reply, ANTHROPIC),
        )
        for shape, row in table.items()
    ],
)
def test_trigger_banner_command_and_panel_read_one_number(
    wire, reported, expected: Usage, context: int
):
    provider = WireProvider(lambda request: wire(reported, request), window=context)
    engine = CompactionEngine(policy=Policy("guarded", "window", window_share=1))
    agent = Agent(provider, engine=engine)
    events = list(agent.run("Hi"))
    (report,) = [event for event in events if isinstance(event, UsageReported)]
    told = replace(expected, model=report.usage.model)
    assert (report.usage, report.context_tokens) == (told, context)
    assert agent.session.usage_at(1) == told
    guarded = [e.compaction for e in events if isinstance(e, Compacted)]
    assert [record.tokens_before for record in guarded] == [context]
    after = guarded[0].tokens_after
    assert engine.tracker.context_tokens(agent.session) == after < context
    assert f" {after:,} of {context:,} tokens" in _context(agent, "", None).text


def test_what_was_said_since_the_last_report_is_estimated_on_top_of_it():
    agent = Agent(WireProvider(lambda _: openai_reply(OPENAI["cached"][0], _), 10**6))
    agent.ask("Hi")
    agent.session.append(Entry("user", STORY))
    added = agent.engine.tracker.counter.count_entry(Entry("user", STORY))
    assert agent.engine.tracker.context_tokens(agent.session) == 950 + added


def test_a_loaded_session_holds_what_the_banner_said():
    agent = Agent(WireProvider(lambda _: openai_reply(OPENAI["plain"][0], _), 10**6))
    agent.ask("Hi")
    (record,) = [e.compaction for e in agent.compact() if isinstance(e, Compacted)]
    again = CompactionEngine()
    again.tracker.resume(agent.session)
    assert again.tracker.context_tokens(agent.session) == record.tokens_after
