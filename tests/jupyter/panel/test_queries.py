"""What views ask: the plan of a compaction, pages of history, what can be set."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from panel_protocol import known

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import Policy
from nbchat.config.preferences import SettingInForce
from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.session import Session
from nbchat.jupyter.panel.queries.choices import settings_list
from nbchat.jupyter.panel.queries.context import compaction_plan
from nbchat.jupyter.panel.queries.history import (
    PAGE_CHARACTERS,
    PAGE_ENTRIES,
    history_page,
)
from nbchat.testing import ScriptedProvider, says

LONG = "The printer on the second floor is offline. " * 40


def agent_that_said(*texts: str, **options: Any) -> Agent:
    """An agent in whose session a person said each text and was answered."""
    said = [
        entry
        for text in texts
        for entry in (Entry("user", text), Entry("assistant", f"Yes: {text}"))
    ]
    return Agent(ScriptedProvider(), session=Session(said), **options)


def positions(page: dict[str, Any]) -> list[int | None]:
    """The positions of a page's items, in order."""
    return [item["position"] for item in page["items"]]


def test_a_plan_tells_what_would_be_folded_and_what_stays() -> None:
    engine = CompactionEngine(policy=Policy("mine", keep=2))
    plan = known(
        compaction_plan(agent_that_said(LONG, LONG, LONG, engine=engine), None)
    )
    assert plan["messages"] == 6
    assert (plan["summarized"], plan["compacted"], plan["kept"]) == (0, 4, 2)
    assert 0 < plan["tokens_after"] < plan["tokens_before"]
    assert plan["skip"] == plan["warning"] == ""


def test_a_plan_after_a_compaction_counts_what_was_folded_before() -> None:
    agent = Agent(ScriptedProvider(says(LONG), says("<summary>S</summary>")))
    agent.ask(LONG)
    list(agent.compact())
    agent.session.append(Entry("user", LONG))
    agent.session.append(Entry("assistant", LONG))
    plan = known(compaction_plan(agent, None))
    assert (plan["messages"], plan["summarized"], plan["compacted"]) == (4, 2, 2)


def test_a_plan_for_nothing_gives_the_reason_and_the_figures_of_now() -> None:
    plan = known(compaction_plan(agent_that_said(), None))
    assert "nothing new to fold" in plan["skip"]
    assert plan["tokens_after"] == plan["tokens_before"]
    waiting = agent_that_said("one")
    waiting.session.append(Entry("assistant", "", "c1", "look_up", "{}"))
    plan = known(compaction_plan(waiting, None))
    assert "waits for its result" in plan["skip"]
    assert plan["kept"] == plan["messages"] == 3


def test_a_plan_for_very_little_works_and_warns() -> None:
    plan = known(compaction_plan(agent_that_said("Hi."), None))
    assert plan["compacted"] == 2
    assert plan["warning"].startswith("Only 1")
    assert plan["skip"] == ""


def test_a_plan_from_another_thread_loses_nothing_the_agent_says() -> None:
    agent = agent_that_said(LONG)
    with ThreadPoolExecutor(1) as pool:
        for number in range(100):
            looked = pool.submit(lambda: compaction_plan(agent, None))
            agent.session.append(Entry("user", f"new {number}"))
            looked.result()
    assert agent.session.history == list(agent.session.transcript)


def test_a_plan_calls_no_model_and_changes_nothing() -> None:
    agent = agent_that_said(LONG)
    compaction_plan(agent, None)
    assert agent.provider.requests == []
    assert agent.session.compactions == []


def test_history_comes_in_pages_from_the_newest_backwards() -> None:
    session = Session([("user", f"question {n}") for n in range(250)])
    newest = known(history_page(session))
    assert positions(newest) == list(range(250 - PAGE_ENTRIES, 250))
    assert (newest["total"], newest["has_more"]) == (250, True)
    middle = history_page(session, before=150)
    oldest = history_page(session, before=50)
    assert positions(oldest) + positions(middle) + positions(newest) == list(range(250))
    assert (oldest["has_more"], oldest["total"]) == (False, 250)


def test_history_of_long_messages_comes_in_shorter_pages() -> None:
    session = Session([("user", "x" * (PAGE_CHARACTERS // 2))] * 5)
    page = history_page(session)
    assert positions(page) == [3, 4]
    assert page["has_more"]


def test_history_is_searched_for_all_words_wherever_case_and_in_order() -> None:
    said = [
        ("user", "The PRINTER of Ann"),
        ("assistant", "Ann?"),
        ("assistant", "", "c1", "look_up", '{"name": "ann", "what": "printer"}'),
        ("tool", "ann's printer is offline", "c1", "look_up"),
        ("thinking", "a printer for Ann"),
        ("user", "printer"),
    ]
    page = known(history_page(Session(said), "ann Printer"))
    assert positions(page) == [0, 2, 3, 4]
    assert [item["label"] for item in page["items"]] == [
        "You",
        "Call",
        "Result of look_up",
        "Thinking",
    ]
    assert history_page(Session(said), "toner")["total"] == 0


def test_history_says_how_the_model_sees_each_entry_now() -> None:
    said = [Entry("user", "one"), Entry("assistant", "two")] * 3
    records = [
        Compaction("c1", 0, 2, "<summary>S</summary>", committed_at=3),
        Compaction(
            "c2", 4, 5, "", kind="pruning", replacements=((4, "…"),), committed_at=5
        ),
    ]
    page = known(history_page(Session(said, compactions=records)))
    assert [item["seen"] for item in page["items"] if item["position"] is not None] == [
        *("summarized", "summarized", "whole", "whole", "shortened", "whole")
    ]
    assert positions(page) == [0, 1, 2, None, 3, 4, None, 5]
    assert "Compaction occurred" in page["items"][3]["html"]
    assert None not in positions(
        history_page(Session(said, compactions=records), "one two")
    )


@pytest.mark.parametrize("place", [0, 100, 149, 150, 151, 250])
def test_a_compaction_is_on_one_page_wherever_a_page_ends(place: int) -> None:
    record = Compaction("c1", 0, place, "<summary>S</summary>", committed_at=place)
    session = Session([("user", "x")] * 250, compactions=[record])
    pages = [history_page(session, before=before) for before in (50, 150, None)]
    assert [each for page in pages for each in positions(page)].count(None) == 1


def test_what_a_provider_does_not_show_of_its_thinking_is_no_entry() -> None:
    page = history_page(Session([("user", "hm"), ("thinking", "", "", "openai", "{}")]))
    assert (positions(page), page["total"]) == ([0], 1)


def test_history_shows_hostile_text_as_text() -> None:
    hostile = "<img src=x onerror=alert(1)>\ud800"
    said = [
        ("user", hostile),
        ("assistant", "", "c1", hostile, "{}"),
        ("tool", hostile, "c1", hostile),
    ]
    page = known(history_page(Session(said)))
    json.dumps(page).encode()
    assert "<img" not in "".join(item["html"] for item in page["items"])
    assert "\ud800" not in "".join(item["label"] for item in page["items"])


def test_settings_are_listed_with_the_scopes_of_the_model() -> None:
    agent = Agent(ScriptedProvider(name="openai:gpt-5"))
    share = SettingInForce("window_share", "0.8", "Help.", "float", "default")
    policies = ("auto", "off")
    policy = SettingInForce("policy", "auto", "Help.", "choice", "default", policies)
    answer = known(settings_list(agent, lambda _agent: [share, policy]))
    assert (answer["provider"], answer["model"]) == ("openai", "openai:gpt-5")
    assert [row["name"] for row in answer["settings"]] == ["window_share", "policy"]
    assert answer["settings"][1]["choices"] == ["auto", "off"]
