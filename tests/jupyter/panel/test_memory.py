import json
from dataclasses import replace

import pytest
from panel_protocol import known

from nbchat.agent.agent import Agent
from nbchat.conversation.entries import Compaction, Entry, Fact
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError
from nbchat.jupyter.panel.queries import Quotes, memory_view
from nbchat.testing import ScriptedProvider

SAID = (
    Entry("user", "Order W107 costs $1,299.00, \ud800 please."),
    Entry("assistant", "", "c", "look_up", json.dumps({"order": "SO-12"})),
    Entry("tool", "due on 2026-05-16", "c", "look_up"),
    Entry("assistant", "It is due."),
    Entry("user", "Thank you."),
)


def remembering(story: str, *facts: Fact) -> Agent:
    summary = f"<summary>\n{story}\n</summary>"
    record = Compaction("c", 0, 4, summary, 900, 90, facts=facts)
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


def test_each_fact_names_its_message_and_no_text_can_break_the_answer() -> None:
    evil = "<img src=x onerror=x>\ud800"
    seen = known(memory_view(remembering(evil, Fact(evil, "due", evil, 2))))
    assert 'data-position="2"' in seen["facts"]
    assert "<img" not in seen["html"] + seen["facts"]
    json.dumps(seen).encode()


def test_a_quote_names_the_newest_message_that_says_it() -> None:
    quotes = 'Open request:\n- "Order W107 […] please."\n- "Never said."\nCalls made: 1'
    story = f"Ann ordered.\n</summary>\n<facts>\n{quotes}\n</facts>"
    session = remembering("x").session
    record = replace(session.compactions[0], summary=f"<summary>\n{story}")
    session = Session(SAID, compactions=[record])
    seen = known(memory_view(Agent(ScriptedProvider(), session=session)))
    assert seen["facts"].count("data-position") == 1
    assert '<span data-position="0">&quot;Order W107' in seen["facts"]
    assert "Calls made: 1" in seen["facts"]


def test_without_a_compaction_there_is_nothing_to_remember() -> None:
    with pytest.raises(NbchatError, match="the model sees all messages"):
        memory_view(Agent(ScriptedProvider(), session=Session(SAID)))


def test_each_message_is_read_once_for_all_quotes() -> None:
    class Counted(Entry):
        @property
        def content(self) -> str:
            read.append(self)
            return "Order W107, please."

    read: list[Entry] = []
    quotes = Quotes([Counted("user", "")] * 3)
    assert [quotes.find(line) for line in ('"W107"', '"W108"', '"please"')] == [
        2,
        None,
        2,
    ]
    assert len(read) == 3
