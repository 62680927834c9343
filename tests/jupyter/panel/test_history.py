"""Queries for pages of history, the text of a message, and the list of sessions."""

import json
from typing import Any

import pytest
from panel_protocol import known

from nbchat.agent.agent import Agent
from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError
from nbchat.jupyter.panel.protocol import MessageText
from nbchat.jupyter.panel.queries import (
    MOST_SESSIONS,
    PAGE_ENTRIES,
    history_page,
    message_text,
    session_text,
    sessions_list,
)
from nbchat.storage.serialization import SessionInfo
from nbchat.testing import ScriptedProvider


def brought(name: str) -> Entry:
    return Entry("user", name, "", "file", json.dumps({"name": name, "data": "x"}))


ODD = '/not a command\n\n  "two" spaces, {braces} and $HOME & <b>\n'


def shown_page(*arguments: Any, **options: Any) -> dict[str, Any]:
    """A page of the history as it is sent."""
    return known(history_page(*arguments, **options))


def positions(page: dict[str, Any]) -> list[int | None]:
    """The positions of a page's items, in order."""
    return [item["position"] for item in page["items"]]


@pytest.mark.slow
def test_history_has_pages_from_the_newest_backwards() -> None:
    session = Session([("user", f"question {n}") for n in range(250)])
    newest = shown_page(session)
    assert positions(newest) == list(range(250 - PAGE_ENTRIES, 250))
    assert (newest["total"], newest["has_more"]) == (250, True)
    middle = shown_page(session, before=150)
    oldest = shown_page(session, before=50)
    assert positions(oldest) + positions(middle) + positions(newest) == list(range(250))
    assert (oldest["has_more"], oldest["total"]) == (False, 250)


@pytest.mark.slow
def test_pages_of_long_messages_are_shorter() -> None:
    session = Session([("assistant", "x" * 190_000)] * 5)
    page = shown_page(session)
    assert positions(page) == [2, 3, 4]
    assert page["has_more"]


def test_history_is_searched_for_any_word_and_the_best_come_first() -> None:
    said = [
        ("user", "The PRINTER of Ann"),
        ("assistant", "Ann?"),
        ("assistant", "", "c1", "look_up", '{"name": "ann", "what": "printer"}'),
        ("tool", "ann's printer is offline", "c1", "look_up"),
        ("thinking", "a printer for Ann"),
        ("user", "printer"),
        *[("user", "The roof and the garden, and nothing else.")] * 20,
    ]
    page = shown_page(Session(said), "ann Printer")
    assert set(positions(page)[:4]) == {0, 2, 3, 4}
    assert set(positions(page)[4:]) == {1, 5}
    assert (page["total"], page["has_more"]) == (6, False)
    labels = {item["position"]: item["label"] for item in page["items"]}
    assert [labels[index] for index in (0, 2, 3, 4)] == [
        "You",
        "Call",
        "Result of look_up",
        "Thinking",
    ]
    assert positions(shown_page(Session(said), "inter"))[-1] == 0
    assert shown_page(Session(said), "toner")["total"] == 0


def test_of_a_long_message_a_search_shows_the_part_that_matches() -> None:
    hay = "straw " * 2_000
    session = Session([("user", f"{hay} the golden needle {hay}")])
    (item,) = shown_page(session, "golden needles")["items"]
    assert "the golden needle" in item["html"]
    assert len(item["html"]) < 3_000
    (item,) = shown_page(session)["items"]
    assert len(item["html"]) > len(hay)


def test_history_says_how_the_model_sees_each_message() -> None:
    said = [Entry("user", "one"), Entry("assistant", "two")] * 3
    records = [
        Compaction("c1", 0, 2, "<summary>S</summary>", committed_at=3),
        Compaction(
            "c2", 4, 5, "", kind="pruning", replacements=((4, "…"),), committed_at=5
        ),
    ]
    page = shown_page(Session(said, compactions=records))
    assert [item["seen"] for item in page["items"] if item["position"] is not None] == [
        *("summarized", "summarized", "whole", "whole", "shortened", "whole")
    ]
    assert positions(page) == [0, 1, 2, None, 3, 4, None, 5]
    assert "Compaction occurred" in page["items"][3]["html"]
    assert None not in positions(
        shown_page(Session(said, compactions=records), "one two")
    )


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 100, 149, 150, 151, 250])
def test_a_compaction_is_on_exactly_one_page(place: int) -> None:
    record = Compaction("c1", 0, place, "<summary>S</summary>", committed_at=place)
    session = Session([("user", "x")] * 250, compactions=[record])
    pages = [shown_page(session, before=before) for before in (50, 150, None)]
    assert [each for page in pages for each in positions(page)].count(None) == 1


def test_empty_thinking_is_not_listed() -> None:
    page = shown_page(Session([("user", "hm"), ("thinking", "", "", "openai", "{}")]))
    assert (positions(page), page["total"]) == ([0], 1)


def test_history_escapes_hostile_text() -> None:
    hostile = "<img src=x onerror=alert(1)>\ud800"
    said = [
        ("user", hostile),
        ("assistant", "", "c1", hostile, "{}"),
        ("tool", hostile, "c1", hostile),
    ]
    page = shown_page(Session(said))
    json.dumps(page).encode()
    assert "<img" not in "".join(item["html"] for item in page["items"])
    assert "\ud800" not in "".join(item["label"] for item in page["items"])


def test_the_text_of_a_message_is_returned_as_typed():
    said = [
        ("user", f"{ODD}\u202e"),
        ("assistant", "x"),
        ("user", "\ud800"),
        brought("f"),
    ]
    agent = Agent(ScriptedProvider(), session=Session(said))
    assert known(message_text(agent.session, 0))["text"] == f"{ODD}\u202e"
    assert known(message_text(agent.session, 1))["text"] == "x"
    for place, reason in (
        (9, "Only messages and answers"),
        (3, "Only messages and answers"),
        (2, "can't show"),
    ):
        with pytest.raises(NbchatError, match=reason):
            message_text(agent.session, place)


def test_a_long_text_is_read_in_parts_that_begin_where_the_one_before_ends():
    said = "".join(f"line {number}\n" for number in range(50_000)) + "x" * 300_000
    session = Session([("user", said), ("assistant", "Yes.")])
    parts, start = [], 0
    while start < len(said):
        part = message_text(session, 0, start=start)
        parts.append(part.text)
        start = part.end
    assert "".join(parts) == said
    assert max(map(len, parts)) <= 100_000
    assert all(part.count("\n") <= 2_000 for part in parts)
    assert all(part.endswith("\n") for part in parts[:20])
    assert message_text(session, 0) == MessageText(said, end=len(said))


@pytest.mark.slow
def test_sessions_are_listed_and_the_current_one_is_marked(panel, store):
    panel.ask("/new")
    panel.ask("about the roof")
    assert panel.wait(60)
    found = known(sessions_list(panel.session, "", store))
    assert [row["title"] for row in found["sessions"]] == ["about the roof", "first"]
    assert found["sessions"][0]["id"] == found["current"] == panel.session.session_id
    assert [row["messages"] for row in found["sessions"]] == [2, 4]
    found = known(sessions_list(panel.session, "SECOND two", store))
    assert [row["title"] for row in found["sessions"]] == ["first"]
    assert found["sessions"][0]["snippet"] in ("second", "Two.")
    assert found["total"] == 1


def test_a_session_of_the_list_is_given_as_markdown(panel, store):
    panel.ask("/new")
    panel.ask("about the roof \ud800")
    assert panel.wait(60)
    current, other = (row.id for row in store.sessions())
    text = known(session_text(panel.session, current, store))["text"]
    assert "about the roof \ufffd" in text
    assert "second" not in text
    text = known(session_text(panel.session, other, store))["text"]
    assert "second" in text
    assert "roof" not in text
    with pytest.raises(NbchatError, match="no session 'x'"):
        session_text(panel.session, "x", store)


def test_of_many_sessions_the_newest_are_listed(panel):
    def row(number: int) -> SessionInfo:
        return SessionInfo(str(number), "\ud800", "", "m", "", 1, "", str(number), 1)

    class Many:
        def count_sessions(self) -> int:
            return MOST_SESSIONS + 50

        def sessions(self, *, query: str, limit: int) -> list[SessionInfo]:
            return [row(number) for number in range(MOST_SESSIONS + 50)]

        def load(self, session_id: str) -> Session:
            return Session()

    found = known(sessions_list(panel.session, "", Many()))
    assert len(found["sessions"]) == MOST_SESSIONS
    assert found["total"] == MOST_SESSIONS + 50
    assert found["sessions"][0]["title"] == "\ufffd"
