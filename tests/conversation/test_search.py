"""What left the model's view is found again, by its place or by its words."""

import time
from pathlib import Path

import pytest

from nbchat.agent.agent import Agent
from nbchat.chat.commands import Commands
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import Policy
from nbchat.config.factory import build_agent
from nbchat.config.layers import settings
from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.search import BUDGET_TOKENS, TOOL_NAME, find
from nbchat.conversation.session import Session
from nbchat.errors import ConfigError
from nbchat.providers.tokens import TokenCounter
from nbchat.storage.store import SessionStore
from nbchat.testing import ScriptedProvider, calls, says

STORY = "The customer asks about a parcel. " * 30
LOG = "\n".join(f"line {n}: worker {n % 7} did step {n * 31 % 97}" for n in range(800))

TALK = (
    Entry("user", "Order W100 is late."),
    Entry("assistant", "", "1", "get_order", '{"order": "W100"}'),
    Entry("tool", "W100 left Lisbon on 2025-03-01", "1", "get_order"),
    Entry("thinking", "W100 is in Lisbon", tool_name="anthropic"),
    Entry("assistant", "Your order left Lisbon."),
    Entry("user", "And the late one, was it in Lisbon?"),
)


def places(found) -> list[int]:
    return [place for place, _ in found.entries]


@pytest.mark.parametrize("query", [2, "2", " 2 ", "recall(2)", 'recall("2:3")', "2:3"])
def test_a_number_is_a_place_in_the_transcript(query: int | str):
    found = Session(TALK).recall(query)
    assert found.entries[0] == (2, TALK[2])


def test_a_call_comes_with_its_result_and_a_result_with_its_call():
    kept = Session(TALK)
    assert places(kept.recall(1)) == [1, 2]
    assert places(kept.recall(2)) == [2, 1]
    assert places(kept.recall('{"order": "w100"}')) == [1, 2]


def test_a_text_finds_the_entries_that_hold_all_its_words():
    kept = Session(TALK)
    assert places(kept.recall("lisbon ORDER")) == [4, 1, 2]  # the tool is get_order
    assert places(kept.recall("Lisbon Porto")) == []
    assert kept.recall("Lisbon Porto").text() == "nothing was found"
    assert places(kept.recall("")) == []


def test_the_exact_phrase_comes_first_and_then_the_newest():
    kept = Session(
        [
            ("user", "in late May"),
            ("user", "late or in time"),
            ("user", "be late in May"),
        ]
    )
    assert places(kept.recall("late in")) == [2, 1, 0]
    assert places(kept.recall("in late")) == [0, 2, 1]


def test_a_number_that_is_no_place_is_looked_for_as_a_text():
    kept = Session([("user", "My order is 4760268021."), ("user", "Thanks.")])
    assert places(kept.recall("4760268021")) == [0]
    assert places(kept.recall(99)) == []
    assert places(kept.recall("W1")) == []


def test_what_is_brought_back_is_bounded_and_what_is_not_is_counted():
    kept = Session([("user", f"number {n}: {STORY}") for n in range(50)])
    found = kept.recall("customer number")
    assert places(found) == list(range(49, 39, -1))
    assert found.missing == 40
    text = found.text()
    assert TokenCounter().count(text) <= BUDGET_TOKENS * 1.1
    shown = text.count("] user:")
    assert text.endswith(f"[{50 - shown} more messages match; add words to find fewer]")


def test_a_long_entry_is_read_on_where_the_note_says():
    kept = Session([("user", "Read it."), ("tool", LOG, "1", "read")])
    query, parts = "1", []
    while query:
        text = kept.recall(query).text()
        assert len(text) < 4 * BUDGET_TOKENS
        head, *lines = text.split("\n")
        assert head == "[1] result of read:"
        more = lines.pop() if "characters more;" in lines[-1] else ""
        lines = lines[1:] if "characters before" in lines[0] else lines
        parts.append("\n".join(lines))
        query = more.partition('recall("')[2].rstrip('")]')
    assert len(parts) > 2
    assert "".join(parts) == LOG


def test_of_a_long_entry_the_part_with_the_words_is_shown():
    hay = "straw " * 10_000
    kept = Session([("user", f"{hay} the golden needle {hay}")])
    text = kept.recall("golden needle").text()
    assert "the golden needle" in text
    assert "characters before this]" in text
    assert "characters more; recall(" in text


def test_what_a_recall_brought_back_is_not_found_again():
    kept = Session(TALK)
    kept.append(Entry("assistant", "", "9", TOOL_NAME, '{"query": "lisbon order"}'))
    kept.append(Entry("tool", "[2] W100 left Lisbon", "9", TOOL_NAME))
    assert places(kept.recall("lisbon order")) == [4, 1, 2]
    assert places(kept.recall(7)) == [7, 6]


def test_a_recollection_shows_itself_and_nothing_in_it_runs():
    found = Session([("user", "<script>alert(1)</script> hello")]).recall("hello")
    assert repr(found) == "<SearchResult of 1 entries, 0 more>"
    assert "&lt;script&gt;alert(1)&lt;/script&gt; hello" in found._repr_html_()


def test_what_was_recalled_can_be_displayed_whatever_it_holds() -> None:
    html = find([Entry("user", "half a \ud83d pair")], 0)._repr_html_()
    assert "half a ? pair" in html
    html.encode()


def test_hidden_is_what_a_summary_covers_or_a_pruning_shortens():
    kept = Session(TALK)
    assert kept.hidden_positions == set()
    kept.compactions.append(
        Compaction("p", 2, 3, "", kind="pruning", replacements=((2, "short"),))
    )
    assert kept.hidden_positions == {2}
    kept.compactions.append(Compaction("s", 0, 5, "<summary>x</summary>"))
    assert kept.hidden_positions == {0, 1, 2, 3, 4}


def read() -> str:
    """Read the log."""
    return LOG


def agent_with(*lines: object, **options: object) -> Agent:
    engine = CompactionEngine(None, policy=Policy("p", prunes=True))
    return Agent(
        ScriptedProvider(*lines),  # type: ignore[arg-type]
        tools=[read],
        engine=engine,
        **options,  # type: ignore[arg-type]
    )


def tools(agent: Agent) -> list[str]:
    return [each.name for each in agent.tools]


def test_a_model_is_offered_recall_when_it_is_asked_for():
    assert tools(agent_with()) == ["read"]
    assert tools(agent_with(recall=True)) == ["read", "recall"]

    def recall() -> str:
        """One of the user's own."""
        return ""

    with pytest.raises(ConfigError, match="two tools are named recall"):
        Agent(ScriptedProvider(), tools=[recall], recall=True)


def test_a_model_gets_back_what_it_sees_shortened_by_the_number_in_the_note():
    agent = agent_with(
        calls("read"),
        says("Step 50 is the last."),
        *[says("Fine.")] * 3,
        calls("recall", query="2"),
        says("Worker 3 was first."),
        recall=True,
    )
    for text in ("Read it.", "Well?", "And?", "So?"):
        agent.ask(text)
    record = agent.engine.prune(agent.session)
    agent.session.compactions.append(record)
    assert agent.session.history[2].content.endswith("recall(2) brings them back]")
    agent.ask("Who was third?")
    answer = next(
        e
        for e in agent.session.transcript
        if e.tool_name == "recall" and e.role == "tool"
    )
    assert answer.content.startswith("[2] result of read:\nline 0: worker 0 did step 0")
    assert agent.engine.tracker.counter.count(answer.content) <= BUDGET_TOKENS


def test_a_model_finds_what_a_summary_folded_and_not_what_it_sees_anyway():
    agent = agent_with(
        says(f"Order W100 is in Lisbon. {STORY}"),
        says("<summary>They talked about a parcel.</summary>"),
        calls("recall", query="w100"),
        says("In Lisbon."),
        recall=True,
    )
    agent.ask(STORY)
    list(agent.compact())
    agent.ask("Where is W100?")
    answer = next(e for e in agent.session.transcript if e.role == "tool")
    assert "Order W100 is in Lisbon." in answer.content
    assert "Where is W100?" not in answer.content


def test_where_nothing_was_left_out_the_model_is_told_so():
    agent = agent_with(calls("recall", query="x"), says("Well."), recall=True)
    agent.ask("Look it up.")
    assert agent.session.transcript[2].content.startswith("nothing is hidden")


def test_a_recall_is_no_row_of_the_facts():
    agent = agent_with(
        says(STORY),
        calls("recall", query="zzz"),
        says(STORY),
        says("<summary>A parcel.</summary>"),
        recall=True,
    )
    agent.ask("Hello.")
    agent.ask("What was it?")
    list(agent.compact())
    assert agent.session.compaction.status == "done"
    assert "recall" not in agent.session.compaction.summary


def test_slash_recall_brings_back_what_was_said(tmp_path: Path):
    agent = agent_with(says("In Lisbon."))
    agent.ask("Where is W100?")
    run = Commands(SessionStore(f"sqlite:///{tmp_path / 'sessions.db'}"))
    (found,) = run(agent, "/recall w100")
    assert found.text == "[0] user:\nWhere is W100?"
    (found,) = run(agent, "/recall 1")
    assert found.text == "[1] assistant:\nIn Lisbon."


@pytest.mark.parametrize(
    ("values", "is_offered"),
    [
        ({"model": "openai:gpt-5"}, True),
        ({"model": "anthropic:claude-haiku-4-5"}, True),
        ({"model": "openai:gemma3", "base_url": "http://127.0.0.1:1/v1"}, False),
        (
            {
                "model": "openai:gemma3",
                "base_url": "http://127.0.0.1:1/v1",
                "recall": True,
            },
            True,
        ),
        ({"model": "local:smollm2"}, False),
        ({"model": "openai:gpt-5", "recall": False}, False),
    ],
)
def test_recall_is_offered_where_tools_are_sure_to_work(
    values, is_offered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    url = f"sqlite:///{tmp_path / 'sessions.db'}"
    agent = build_agent(settings(store_url=url, **values))
    assert ("recall" in tools(agent)) == is_offered


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("a" * 100_000, "a" * 100_000),
        ("a b " * 25_000, "a b " * 25_000),
        (" " * 100_000, "x"),
        ("\ud800" * 100_000, "\ud800"),
        ("İ" * 100_000, "i̇"),
        ("7" * 100_000, "7" * 100_000),
        ("y" * 100_000 + "x", "x " * 50_000),
    ],
)
def test_hostile_texts_and_queries_take_no_longer_than_others(text: str, query: str):
    entries = [Entry("user", text)] * 10
    began = time.process_time()
    shown = find(entries, query).text()
    assert time.process_time() - began < 1
    assert len(shown) < 5 * BUDGET_TOKENS
