"""What public values show as the last line of a cell: one line, and a small table."""

import re

import pytest

from nbchat import Agent, Compaction, CompactionEngine, Session, Usage
from nbchat.testing import ScriptedProvider, says

SECRET = "<script>alert('sk-secret')</script>"
LONG = f"{SECRET} The parcel of W100 is late. " * 50


def values() -> dict[str, object]:
    provider = ScriptedProvider(says(LONG, tokens=101), says("<summary>A</summary>"))
    agent = Agent(provider, engine=CompactionEngine(), system=SECRET)
    agent.ask(SECRET)
    plan = agent.engine.plan(agent.session)
    list(agent.compact())
    return {
        "agent": agent,
        "session": agent.session,
        "compaction": agent.session.compactions[-1],
        "usage": agent.session.usage,
        "plan": plan,
        "skipped plan": agent.engine.plan(agent.session),
        "turn": agent.run(SECRET),
        "empty session": Session(),
        "failed": Compaction("1", 0, 1, "", 7, status="failed", reason=SECRET),
        "paid": Usage(1_000, 20, dollars=0.0123, priced_tokens=1_020, model="m"),
    }


@pytest.fixture(scope="module")
def shown() -> dict[str, object]:
    return values()


@pytest.mark.parametrize(
    ("name", "text", "cells"),
    [
        ("agent", "<Agent scripted:model: <Session of 2 m", ["scripted:model", "idle"]),
        ("session", "<Session of 2 messages, 1 compaction>", ["not saved", " in, "]),
        ("compaction", "<Compaction ", ["done", "tokens", "manual", "single-summary"]),
        ("usage", "Usage(input_tokens=", ["Input tokens", "Output tokens"]),
        ("plan", "<Plan manual: ", ["about", "Messages to compact"]),
        ("skipped plan", "<Plan manual: There's nothing", ["Skipped"]),
        ("turn", "<Turn not started", ["not started"]),
        ("empty session", "<Session of 0 messages, 0 compactions>", ["Messages"]),
        ("failed", "<Compaction 1 failed: 7 tokens>", ["failed", "&lt;script&gt;"]),
        ("paid", "Usage(input_tokens=1000, ", ["1,000", "$0.012"]),
    ],
)
def test_a_value_shows_a_line_and_a_safe_table(shown, name, text, cells):
    value = shown[name]
    assert repr(value).startswith(text)
    assert "\n" not in repr(value)
    html = value._repr_html_()
    assert [cell for cell in cells if cell not in html] == []
    assert "<script" not in html
    assert set(re.findall(r"</?(\w+)", html)) <= {
        "table",
        "caption",
        "strong",
        "tbody",
        "tr",
        "th",
        "td",
    }


@pytest.mark.parametrize("name", ["agent", "session", "compaction", "usage", "plan"])
def test_what_a_saved_notebook_keeps_of_a_value_is_counts(shown, name):
    for kept in (repr(shown[name]), shown[name]._repr_html_()):
        assert "sk-secret" not in kept
