"""The header, the status line and the meter of the panel."""

from pathlib import Path

import pytest
from panel_views import (
    agent_with,
    folded,
    ran,
    shown,
    shown_page,
)

from nbchat.agent.agent import Agent
from nbchat.chat.chat_events import (
    AgentReady,
    Idle,
    QueueChanged,
    Refused,
    RulesOffered,
    SessionLoaded,
    TurnStarted,
)
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import PRESETS, Policy
from nbchat.conversation.entries import Compaction, Entry, Usage
from nbchat.conversation.events import (
    Compacted,
    CompactionFailed,
    CompactionProgress,
    CompactionStarted,
    ContentLeftOut,
    Event,
    RetryScheduled,
    SavingFailed,
    TextDelta,
    TurnFailed,
    TurnFinished,
    UsageReported,
)
from nbchat.conversation.rules_file import RulesFile
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError, RequestRefused
from nbchat.jupyter.panel.panel_state import PanelState
from nbchat.testing import ScriptedProvider, fails, says

RECORD = Compaction("c1", 0, 2, "<summary>S</summary>", 5_000, 500, committed_at=2)


def test_the_status_shows_the_progress_of_a_compaction() -> None:
    started = CompactionStarted("manual", 4, 900)
    view = shown(started, CompactionProgress(1, 5))
    assert view.state["activity"] == "Compacting, part 2 of 5"
    view = shown(started, CompactionProgress(1, 5), Compacted(RECORD))
    assert view.state["activity"] == ""


def test_a_policy_without_a_preset_name_is_shown() -> None:
    engine = CompactionEngine(policy=Policy("mine", meter="off"))
    view = shown(AgentReady(Agent(ScriptedProvider(), engine=engine)))
    assert view.state["policy"] == "mine"
    assert [each["name"] for each in view.state["policies"]] == list(PRESETS)
    assert all(each["about"] for each in view.state["policies"])
    engine = CompactionEngine(policy="off")
    assert (
        shown(AgentReady(Agent(ScriptedProvider(), engine=engine))).state["policy"]
        == "off"
    )


def test_a_retry_is_shown_until_text_arrives() -> None:
    retry = RetryScheduled(2, 3.5, "busy \ud800")
    assert shown(retry).state["retry"] == {
        "attempt": 2,
        "seconds": 3.5,
        "reason": "busy \ufffd",
    }
    assert shown(retry, TextDelta("x")).state["retry"] is None


@pytest.mark.parametrize(
    "event",
    [CompactionProgress(1, 5), Compacted(RECORD), CompactionFailed(RECORD)],
)
def test_a_retry_of_a_summary_ends_when_the_compaction_continues(event: Event) -> None:
    started = CompactionStarted("manual", 4, 900)
    view = shown(started, RetryScheduled(1, 2.0, "busy"), event)
    assert view.state["retry"] is None


def test_the_meter_shows_the_reported_usage() -> None:
    view = shown(UsageReported(Usage(10, 5), 1_234, 5_000, 900, None))
    assert view.state["meter"] == {
        "tokens": 1_234,
        "threshold": 5_000,
        "context": 900,
        "window": None,
        "guard": None,
    }


def test_errors_and_early_ends_are_shown() -> None:
    view = shown(
        TurnStarted("x"),
        SavingFailed("disk full"),
        TurnFinished("max_tokens", 1),
        TurnFailed("no key"),
        QueueChanged(("next",)),
        QueueChanged(()),
        Idle(),
    )
    text = "".join(view.items.values())
    for words in ("disk full", "output limit", "no key"):
        assert words in text
    assert view.state["is_busy"] is False


def test_what_a_model_did_not_take_is_one_line_that_opens() -> None:
    parts = (
        "the picture <b>.png",
        "the tool search",
        "the thinking of an earlier model",
    )
    view = shown(TurnStarted("x"), ContentLeftOut(parts, "openai:m", "no <images>"))
    (html,) = [each for each in view.items.values() if "nbc-left-out" in each]
    assert (
        "m doesn&#x27;t accept the picture &lt;b&gt;.png and 2 more. They were left out "
        "of the request and stay in the chat."
    ) in html
    assert "no &lt;images&gt;" in html
    assert html.startswith("<details")


def test_a_queued_message_makes_the_panel_busy() -> None:
    assert shown(QueueChanged(("hi",))).state["is_busy"] is True


def test_a_later_view_gets_the_remaining_seconds_of_a_retry():
    times = iter((100.0, 109.0, 130.0))
    state = PanelState(clock=lambda: next(times))
    state.fold(RetryScheduled(1, 20.0, "slow down"))
    retries = [state.snapshot()["state"]["retry"] for _ in range(2)]
    assert [retry["seconds"] for retry in retries] == [11.0, 0.0]
    assert retries[0]["reason"] == "slow down"


def test_the_costs_of_compactions_are_shown_apart():
    paid = Usage(100, 10, dollars=0.02, priced_tokens=110)
    record = Compaction("c", 0, 1, "S", cost=paid)
    said = [Entry("user", "a"), Entry("assistant", "b")]
    usage = Usage(200, 20, dollars=0.1, priced_tokens=220)
    session = Session(said, compactions=[record], usages=[(2, usage)])
    told = "300 in · 30 out · $0.12, including $0.020 for compactions"
    state = PanelState()
    folded(state, AgentReady(agent_with(session=session)))
    assert state.snapshot()["state"]["spent"] == told


def test_a_failed_turn_offers_to_try_again_until_it_is_answered():
    agent = agent_with(fails(RequestRefused("no such model")), says("One."))
    state = PanelState()
    ran(state, [AgentReady(agent)])
    ran(state, agent.run("first"))
    assert 'class="nbc-error" data-retry' in shown_page(state)[-1]
    failed = shown_page(state)
    ran(state, [Refused(NbchatError("No command named /hlep."))])
    line = '<div class="nbc-error" data-refusal><p>No command named /hlep.</p></div>'
    assert shown_page(state) == [*failed, line]
    ran(state, [TurnStarted("/again")])
    assert shown_page(state) == failed
    ran(state, agent.retry())
    assert not any("nbc-error" in html for html in shown_page(state))
    assert "One." in str(shown_page(state))


def test_only_the_newest_error_of_a_message_is_shown():
    agent = agent_with(*[fails(RequestRefused(text)) for text in ("a1", "b2", "c3")])
    state = PanelState()
    ran(state, [AgentReady(agent)])
    ran(state, agent.run("first"))
    ran(state, agent.retry())
    assert [html for html in shown_page(state) if "nbc-error" in html] == [
        '<div class="nbc-error" data-retry><p>b2</p></div>'
    ]
    ran(state, agent.run("second"))
    errors = [html for html in shown_page(state) if "nbc-error" in html]
    assert len(errors) == 2


def test_the_stored_messages_are_drawn_before_the_agent_is_built():
    agent = agent_with(says("Two."))
    agent.session = Session([("user", "first"), ("assistant", "One.")])
    state = PanelState()
    ran(state, [SessionLoaded(agent.session)])
    early = shown_page(state)
    assert "first" in early[0]
    assert "One." in early[1]
    assert state.snapshot()["state"]["phase"] == "starting"
    ran(state, [AgentReady(agent)])
    assert shown_page(state) == early


RULES = RulesFile(Path("/p/AGENTS.md"), "Be <b>brief</b>.\u200b", "0" * 32)


def test_rules_of_a_file_wait_on_a_card_below_what_was_said() -> None:
    agent = agent_with(says("a"))
    state = PanelState()
    events = [RulesOffered(RULES), AgentReady(agent), *agent.run("Hello")]
    ran(state, events)
    card = shown_page(state)[-1]
    assert 'class="nbc-entry nbc-rules" open' in card
    assert "AGENTS.md in this project has rules for the model. Use them?" in card
    assert "Be &lt;b&gt;brief&lt;/b&gt;.\\u200b" in card
    folded(state, RulesOffered())
    assert not any("nbc-rules" in each for each in shown_page(state))
    folded(state, RulesOffered(), AgentReady(agent_with()))
    assert not any("nbc-rules" in each for each in shown_page(state))


def test_the_card_of_rules_stays_in_another_session() -> None:
    agent = agent_with(says("a"))
    view = shown(AgentReady(agent), RulesOffered(RULES), *agent.run("Hello"))
    assert sum("nbc-rules" in html for html in view.items.values()) == 1
    other = Agent(ScriptedProvider())
    view = shown(AgentReady(agent), RulesOffered(RULES), AgentReady(other))
    assert ["nbc-rules" in html for html in view.items.values()] == [True]


def test_why_a_file_of_rules_is_not_used_is_a_notice() -> None:
    view = shown(RulesOffered(None, "AGENTS.md can't be read: <denied>."))
    text = "AGENTS.md can&#x27;t be read: &lt;denied&gt;."
    assert list(view.items.values()) == [f'<div class="nbc-notice">{text}</div>']
