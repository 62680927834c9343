import json
import re
from dataclasses import replace
from html import unescape

import pytest
from memory_cases import notebook_work
from panel_protocol import known

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import PRESETS
from nbchat.conversation.entries import Compaction, Entry, MemoryLine
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError
from nbchat.jupyter.panel.queries import memory_view
from nbchat.testing import ScriptedProvider

SAID = (
    Entry("user", "Order W107 costs $1,299.00, \ud800 please."),
    Entry("assistant", "", "c", "look_up", json.dumps({"order": "SO-12"})),
    Entry("tool", "due on 2026-05-16", "c", "look_up"),
    Entry("assistant", "It is due."),
    Entry("user", "Thank you."),
)


def remembering(story: str, *memory: MemoryLine) -> Agent:
    summary = f"<summary>\n{story}\n</summary>"
    record = Compaction("c", 0, 4, summary, 900, 90, memory=memory)
    session = Session(SAID, compactions=[record])
    return Agent(ScriptedProvider(), session=session)


def test_each_value_of_the_summary_names_the_message_it_comes_from() -> None:
    story = "W107 (1299) and SO-12, due May 16, 2026; 4711 [not in the conversation]; 77 left"
    seen = known(memory_view(remembering(story)))
    assert [tuple(each.values()) for each in seen["values"]] == [
        ("W107", 0),
        ("1299", 0),
        ("SO-12", 1),
        ("May 16, 2026", 2),
        ("77", None),
    ]
    assert (seen["covered"], seen["kept"]) == (4, 1)


def test_each_copied_line_names_its_message_and_no_text_can_break_the_answer() -> None:
    evil = "<img src=x onerror=x>\ud800"
    lines = (MemoryLine("calls", "Calls:", None), MemoryLine("calls", evil, 2))
    seen = known(memory_view(remembering(evil, *lines)))
    assert 'data-position="2"' in seen["facts"]
    assert "<img" not in seen["html"] + seen["facts"]
    json.dumps(seen).encode()


def test_without_a_compaction_there_is_nothing_to_remember() -> None:
    with pytest.raises(NbchatError, match="the model sees all messages"):
        memory_view(Agent(ScriptedProvider(), session=Session(SAID)))


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 3])
def test_no_line_of_an_analysts_memory_is_a_bare_number_or_type(number: int) -> None:
    policy = replace(PRESETS["single-summary"], summarizer="extractive")
    session = Session(notebook_work("dseval")[number].entries)
    engine = CompactionEngine(policy=policy)
    agent = Agent(ScriptedProvider(window=60_000), engine=engine, session=session)
    list(agent.compact())
    lines = re.findall(r"<li[^>]*>(.*?)</li>", memory_view(agent).facts, re.DOTALL)
    shown = [unescape(re.sub(r"<[^>]+>", "", each)) for each in lines]
    assert len(shown) > 9
    junk = r"[\d.,%]+|(u?int|float|object|dtype)\d*|conversation \d+|```.*"
    assert [each for each in shown if re.fullmatch(junk, each)] == []
