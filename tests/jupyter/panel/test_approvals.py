"""Approval of tool calls in the panel, in every view."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from panel_protocol import is_valid
from panel_views import MakePanel, Panel, View

from nbchat.agent.agent import Agent
from nbchat.agent.approvals import Approvals, PendingCall
from nbchat.chat.chat_events import ApprovalsPending
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import EntryAdded
from nbchat.errors import NbchatError
from nbchat.jupyter.panel.panel_state import PanelState
from nbchat.rendering.arguments import with_invisibles_escaped
from nbchat.rendering.entries import waiting_html
from nbchat.testing import Line, ScriptedProvider, ScriptedReply, calls, says

STOPPED = "error: stopped before it ran"


def refund(order: str, note: str = "") -> str:
    """Give money back."""
    return f"{order} refunded"


def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order} is late"


@pytest.fixture(name="panel_with")
def panel_with_approvals(panel_with: MakePanel) -> MakePanel:
    """Make panels that ask before each call."""

    def make(*lines: ScriptedReply, approve: Approvals | None = None) -> Panel:
        asking = approve or Approvals()
        return panel_with(*lines, tools=[refund, look_up], approve=asking)

    return make


def snapshot(panel: Panel) -> View:
    """What a view shows that is opened now."""
    panel.view_says(type="hello")
    message = [each for each in panel.sent if each["type"] == "snapshot"][-1]
    assert is_valid(message, "kernel_to_view")
    view = View()
    view.receive(message)
    return view


def await_question(panel: Panel, after: str = "") -> str:
    """The ticket of the call that waits, once there is another one than `after`."""
    return _await(lambda: [t for t in _tickets(panel) if t != after])[0]


def _tickets(panel: Panel) -> list[str]:
    return [each["ticket"] for each in snapshot(panel).state["waiting"]]


def _await(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while not (value := found()):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return value


def results(panel: Panel) -> list[str]:
    return [e.content for e in panel.session.transcript if e.role == "tool"]


def waiting_item(view: View) -> str:
    """The card of the call that waits."""
    (waiting,) = view.state["waiting"]
    return view.items[waiting["key"]]


def test_an_approved_call_runs_and_its_card_gets_the_result(
    panel_with: MakePanel,
) -> None:
    panel = panel_with(calls("refund", order="W1"), says("done"))
    panel.ask("refund W1")
    ticket = await_question(panel)
    shown = snapshot(panel)
    assert shown.state["waiting"][0]["tool"] == "refund"
    assert f'data-ticket="{ticket}"' in waiting_item(shown)
    panel.view_says(type="approve", ticket=ticket, always=False)
    assert panel.wait(60)
    assert results(panel) == ["W1 refunded"]
    after = snapshot(panel)
    assert after.state["waiting"] == []
    assert "data-ticket" not in "".join(after.items.values())
    assert 'data-state="done"' in "".join(after.items.values())


def test_a_denied_call_does_not_run_and_the_model_gets_a_denial(
    panel_with: MakePanel,
) -> None:
    panel = panel_with(calls("refund", order="W1"), says("as you like"))
    panel.ask("refund W1")
    panel.view_says(type="deny", ticket=await_question(panel))
    assert panel.wait(60)
    assert results(panel) == ["error: denied by the user"]
    assert 'data-state="denied"' in "".join(snapshot(panel).items.values())


@pytest.mark.slow
def test_every_view_shows_a_pending_call_and_its_end(panel_with: MakePanel) -> None:
    panel = panel_with(calls("refund", order="W1"), says("done"))
    seen = len(panel.sent)
    view = snapshot(panel)
    panel.ask("refund W1")
    ticket = await_question(panel)
    panel.view_says(type="approve", ticket=ticket, always=False)
    assert panel.wait(60)
    _await(lambda: not snapshot(panel).state["is_busy"])
    states = []
    for message in panel.sent[seen:]:
        assert is_valid(message, "kernel_to_view")
        is_new = message["type"] == "events" and message["seq"] > (view.sequence or 0)
        if is_new:
            assert view.receive(message)
            states.append([each["ticket"] for each in view.state["waiting"]])
    assert [ticket] in states
    assert states[-1] == []
    assert view.items == snapshot(panel).items


def test_always_approves_later_calls_of_that_tool_only(
    panel_with: MakePanel,
) -> None:
    panel = panel_with(
        calls("refund", order="W1"),
        calls("refund", order="W2"),
        calls("look_up", order="W3"),
        says("done"),
    )
    panel.ask("refund both, look up the third")
    ticket = await_question(panel)
    panel.view_says(type="approve", ticket=ticket, always=True)
    second = await_question(panel, after=ticket)
    assert results(panel) == ["W1 refunded", "W2 refunded"]
    assert snapshot(panel).state["waiting"][0]["tool"] == "look_up"
    panel.view_says(type="deny", ticket=second)
    assert panel.wait(60)


def test_two_calls_with_one_id_are_decided_separately(panel_with: MakePanel) -> None:
    same = [
        Entry("assistant", "", "c1", "refund", json.dumps({"order": order}))
        for order in ("W1", "W2")
    ]
    panel = panel_with(Line(calls=tuple(same), stop_reason="tool_use"), says("done"))
    panel.ask("refund both")
    ticket = await_question(panel)
    assert "W1" in waiting_item(snapshot(panel))
    panel.view_says(type="approve", ticket=ticket, always=False)
    second = await_question(panel, after=ticket)
    for _ in range(3):  # a double click, and the same click on the server's way
        panel.view_says(type="approve", ticket=ticket, always=False)
    assert "W2" in waiting_item(snapshot(panel))
    panel.view_says(type="deny", ticket=second)
    assert panel.wait(60)
    assert results(panel) == ["W1 refunded", "error: denied by the user"]


def test_a_decision_can_be_repeated_but_not_reversed(
    panel_with: MakePanel,
) -> None:
    room = Approvals()
    panel = panel_with(calls("refund", order="W1"), says("done"), approve=room)
    panel.ask("refund")
    ticket = await_question(panel)
    room.approve(ticket)
    room.approve(ticket)
    with pytest.raises(NbchatError, match=r"No tool call .* is waiting"):
        room.deny(ticket)
    panel.view_says(type="deny", ticket=ticket)
    panel.view_says(type="deny", ticket="nonsense")
    assert panel.wait(60)
    assert results(panel) == ["W1 refunded"]


def test_stop_ends_a_turn_that_waits_for_approval(
    panel_with: MakePanel,
) -> None:
    panel = panel_with(calls("refund", order="W1"), says("later"))
    panel.ask("refund W1")
    await_question(panel)
    panel.view_says(type="stop", token="click-1")
    assert panel.wait(60)
    assert results(panel) == [STOPPED]
    assert snapshot(panel).state["waiting"] == []
    assert "data-ticket" not in "".join(snapshot(panel).items.values())


@pytest.mark.slow
def test_a_repeated_stop_does_not_end_the_next_turn(
    panel_with: MakePanel,
) -> None:
    slow = says("word " * 1_000, delay_seconds=0.01)
    panel = panel_with(slow, says("word " * 30, delay_seconds=0.01))
    panel.ask("first")
    _await(lambda: "word" in json.dumps(panel.sent))
    panel.view_says(type="stop", token="click-1")
    assert panel.wait(60)
    panel.ask("second")
    _await(lambda: panel.is_busy)
    panel.view_says(type="stop", token="click-1")
    assert panel.wait(60)
    first, second = [e for e in panel.session.transcript if e.role == "assistant"]
    assert (first.is_incomplete, second.is_incomplete) == (True, False)


def test_the_listener_of_the_approvals_is_still_called(panel_with: MakePanel) -> None:
    told: list[tuple[PendingCall, ...]] = []
    room = Approvals(listener=told.append)
    panel = panel_with(calls("refund", order="W1"), says("done"), approve=room)
    panel.ask("refund")
    panel.view_says(type="approve", ticket=await_question(panel), always=False)
    assert panel.wait(60)
    assert [[each.call.tool_name for each in waiting] for waiting in told] == [
        ["refund"],
        [],
    ]


def test_a_call_of_a_cell_can_be_approved_in_the_panel(panel_with: MakePanel) -> None:
    panel = panel_with(calls("refund", order="W1"), says("done"))
    assert snapshot(panel).state["waiting"] == []
    agent = panel.agent
    turn = threading.Thread(target=agent.ask, args=("refund W1",), daemon=True)
    turn.start()
    ticket = await_question(panel)
    assert "W1" in waiting_item(snapshot(panel))
    panel.refresh(agent)
    assert "W1" in waiting_item(snapshot(panel))
    panel.view_says(type="approve", ticket=ticket, always=False)
    turn.join(60)
    assert results(panel) == ["W1 refunded"]
    assert _await(lambda: not snapshot(panel).state["waiting"])
    panel.refresh()
    assert "data-ticket" not in "".join(snapshot(panel).items.values())


def test_the_card_of_a_cells_call_is_removed_once_decided() -> None:
    state, view = PanelState(), View()
    view.receive({"type": "snapshot", "seq": 0, **state.snapshot()})
    question = PendingCall(Entry("assistant", "", "c1", "refund", "{}"))
    for questions in ((question,), ()):
        for operation in state.fold(ApprovalsPending(questions)):
            view.apply(operation)
        assert len(view.items) == len(questions)
    assert view.state["waiting"] == []


def test_another_agent_has_its_own_pending_calls(
    panel_with: MakePanel,
) -> None:
    panel = panel_with(says("hi"))
    asking = Agent(
        ScriptedProvider(calls("refund", order="W9"), says("done")),
        tools=[refund],
        approve=Approvals(),
    )
    panel.agent.approve = None
    panel.refresh(asking)
    panel.ask("refund W9")
    panel.view_says(type="deny", ticket=await_question(panel))
    assert panel.wait(60)
    assert results(panel) == ["error: denied by the user"]


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        ({"type": "approve", "always": False}, "W1 refunded"),
        ({"type": "stop"}, STOPPED),
    ],
)
def test_a_pending_call_can_be_decided_after_another_agent_took_over(
    panel_with: MakePanel, decision: dict[str, Any], expected: str
) -> None:
    panel = panel_with(calls("refund", order="W1"), says("done"))
    asking = panel.agent
    panel.ask("refund W1")
    ticket = await_question(panel)
    panel.refresh(Agent(ScriptedProvider(says("hi"))))
    assert await_question(panel) == ticket
    where = {"token": "click-1"} if decision["type"] == "stop" else {"ticket": ticket}
    panel.view_says(**decision, **where)
    assert panel.wait(60)
    (result,) = [e.content for e in asking.session.transcript if e.role == "tool"]
    assert result == expected
    assert snapshot(panel).state["waiting"] == []
    panel.ask("hello")
    assert panel.wait(60)
    assert panel.session.last_answer == "hi"


def test_a_pending_call_is_shown_whole_with_invisible_characters() -> None:
    note = "x" * 50_000 + "\u202eEND\u200b"
    call = Entry("assistant", "", "", "re\u2066fund", json.dumps({"note": note}))
    html = waiting_html(call, "0" * 16)
    marks = ('<span class="nbc-invisible" data-mark="U+202E"></span>END', "U+200B")
    assert "x" * 50_000 + marks[0] in html
    assert marks[1] in html
    assert "re\\u2066fund" in html
    assert "\u202e" not in html
    assert "not JSON at all" in waiting_html(
        call._replace(tool_args="not JSON at all"), "0" * 16
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text\n\twith é, 漢字 and 🙂", "plain text\n\twith é, 漢字 and 🙂"),
        ("a\u202eb\u2069", "a\\u202eb\\u2069"),
        ("\x1b[31m\r\x00", "\\u001b[31m\\u000d\\u0000"),
        ("a\u00a0b\u2800\ufe0f\u3164", "a\\u00a0b\\u2800\\ufe0f\\u3164"),
        ("\U000e0041", "\\udb40\\udc41"),
        ("\ud800", "\\ud800"),
    ],
)
def test_invisible_characters_are_escaped(text: str, shown: str) -> None:
    assert with_invisibles_escaped(text) == shown


def test_of_equal_calls_the_one_without_a_result_waits() -> None:
    def call() -> Entry:
        return Entry("assistant", "", "c1", "refund", '{"order": "W1"}')

    state = PanelState()
    for position, entry in enumerate(
        (call(), Entry("tool", "ok", "c1", "refund"), call(), last := call())
    ):
        state.fold(EntryAdded(position, entry))
    state.fold(ApprovalsPending((PendingCall(call()),)))
    assert [each["key"] for each in state.snapshot()["state"]["waiting"]] == [2]
    state.fold(ApprovalsPending((PendingCall(last),)))
    assert [each["key"] for each in state.snapshot()["state"]["waiting"]] == [3]
