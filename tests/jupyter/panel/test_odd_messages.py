"""Whatever comes from a view, in whatever order and shape, the panel goes on."""

import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from panel_protocol import FROM_VIEWS
from panel_views import Replying

from nbchat.agent.agent import Agent
from nbchat.chat.chat_events import ChatEvent, CommandReplied
from nbchat.jupyter.panel.chat_ui import ChatUI
from nbchat.testing import ScriptedProvider, says

TYPES = [schema["properties"]["type"]["const"] for schema in FROM_VIEWS]
FIELDS = sorted({name for schema in FROM_VIEWS for name in schema["properties"]})

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=30)
    | st.sampled_from(["/undo", "/exclude 0", "@x", "\ud800", "0", "a" * 70_000]),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(st.text(max_size=5), inside, max_size=3)
    ),
    max_leaves=5,
)

MESSAGES = st.builds(
    lambda kind, fields: {**fields, "type": kind},
    st.sampled_from(TYPES) | VALUES,
    st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), VALUES, max_size=5),
)


def reply(_agent: Agent, line: str, _stop: threading.Event) -> list[ChatEvent]:
    """Commands that do nothing."""
    return [CommandReplied(line)]


@pytest.mark.slow
@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(messages=st.lists(MESSAGES, min_size=1, max_size=6))
def test_no_message_of_a_view_can_break_the_panel(messages: list[dict[Any, Any]]):
    provider = ScriptedProvider(*[says("Still here.")] * 50)
    panel = ChatUI(Agent(provider), commands=Replying(reply))
    try:
        for message in (*messages, *messages):  # twice: nothing has to come once
            panel.receive(message)
        panel.stop()
        assert panel.wait(60)
        panel.ask("Are you there?")
        assert panel.wait(60)
        assert panel.session.last_answer == "Still here."
    finally:
        panel.close()


@pytest.mark.slow
def test_ten_megabytes_are_one_message_like_any_other():
    text = "word " * 2_000_000
    provider = ScriptedProvider(says("That was long."), window=None)
    panel = ChatUI(Agent(provider))
    try:
        panel.receive({"type": "send", "text": text})
        assert panel.wait(60)
        assert panel.session.transcript[0].content == text
        assert panel.session.last_answer == "That was long."
    finally:
        panel.close()
