"""What a person leaves out the model sees no more, and nothing is lost by it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nbchat.agent.agent import Agent
from nbchat.chat.commands import Commands
from nbchat.conversation.entries import EXCLUDED_TEXT, Entry
from nbchat.conversation.events import Compacted, CompactionUndone, Event
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError
from nbchat.jupyter.panel.queries import history_page
from nbchat.providers import anthropic as anthropic_wire
from nbchat.providers.base import Request
from nbchat.rendering.banners import compaction_html, compaction_text, notice_text
from nbchat.storage.factory import autosave_of
from nbchat.storage.session_log import monitoring, session_log
from nbchat.storage.store import SessionStore
from nbchat.testing import Line, ScriptedProvider, calls, says

SECRET = "The code of the safe is KX-4711-PQ, and Ann keeps it. " * 30


def look_up(ticket: int) -> str:
    """Read a ticket."""
    return SECRET


def agent_that(*lines: Line, **options: object) -> Agent:
    return Agent(ScriptedProvider(*lines), tools=[look_up], **options)  # type: ignore[arg-type]


def contents(request: Request) -> list[str]:
    return [entry.content for entry in request.history]


def only(events: object) -> Event:
    (event,) = events  # type: ignore[misc]
    return event


def test_the_model_sees_a_placeholder_and_the_transcript_keeps_the_words():
    agent = agent_that(says("one"), says("two"))
    agent.ask(SECRET)
    event = only(agent.exclude(0))
    assert isinstance(event, Compacted)
    assert event.compaction.trigger == "excluded"
    agent.ask("next")
    assert contents(agent.provider.requests[-1]) == [EXCLUDED_TEXT, "one", "next"]
    assert agent.session.transcript[0].content == SECRET


def test_an_included_message_is_word_for_word_the_same():
    agent = agent_that(says("one"), says("two"))
    agent.ask(SECRET)
    before = agent.session.history
    list(agent.exclude(0))
    event = only(agent.include(0))
    assert isinstance(event, CompactionUndone)
    assert agent.session.history == before
    assert agent.session.excluded == {}
    assert notice_text(event) == "Message included: the model sees #0 again."
    assert compaction_text(event.compaction) == "Message included: #0"


def test_the_context_shrinks_and_grows_by_an_excluded_message():
    agent = agent_that(says("one"), says("two"))
    agent.ask(SECRET)
    full, spent = (
        agent.engine.tracker.context_tokens(agent.session),
        agent.engine.input_tokens,
    )
    list(agent.exclude(0))
    less = agent.engine.tracker.context_tokens(agent.session)
    assert less < full / 4
    assert agent.engine.input_tokens == spent > 0
    assert full - less == pytest.approx(
        agent.engine.tracker.counter.count(SECRET), rel=0.1
    )
    list(agent.include(0))
    assert agent.engine.tracker.context_tokens(agent.session) == full
    list(agent.exclude(1))
    assert agent.engine.tracker.context_tokens(agent.session) == pytest.approx(
        full, abs=10
    )


def test_a_tools_output_is_replaced_and_its_call_keeps_a_result():
    agent = agent_that(calls("look_up", ticket=1), says("Read."), says("Bye."))
    agent.ask("Read ticket 1.")
    list(agent.exclude(2))
    agent.ask("Thanks.")
    sent = agent.provider.requests[-1].history
    assert [entry.role for entry in sent] == [
        "user",
        *["assistant", "tool"],
        "assistant",
        "user",
    ]
    assert sent[2].content == EXCLUDED_TEXT
    assert sent[2].tool_id == sent[1].tool_id != ""


def test_a_file_goes_with_its_message():
    file = Entry(
        "user",
        "The file a.txt",
        "",
        "file",
        json.dumps({"media_type": "text/plain", "data": SECRET, "name": "a.txt"}),
    )
    agent = agent_that(
        says("one"), session=Session([file, ("user", "See."), ("assistant", "Yes.")])
    )
    list(agent.exclude(0))
    agent.ask("next")
    assert agent.provider.requests[-1].history[0] == Entry("user", EXCLUDED_TEXT)


def test_neither_summary_nor_facts_contain_an_excluded_message():
    agent = agent_that(
        calls("look_up", ticket=1),
        says("Read."),
        says("Fine. " * 300),
        says("<summary>They talked.</summary>"),
    )
    agent.ask("Read ticket 1.")
    list(agent.exclude(2))
    agent.ask("How is the weather in KX?")
    list(agent.compact())
    asked = "".join(contents(agent.provider.requests[-1]))
    assert "4711" not in asked
    summary = agent.session.compaction
    assert summary is not None
    assert "They talked." in summary.summary
    assert "4711" not in summary.summary


def thought(text: str, provider: str = "anthropic") -> Entry:
    block = {"type": "thinking", "thinking": text, "signature": "abc"}
    return Entry("thinking", text, "", provider, json.dumps(block))


def test_what_was_thought_for_an_answer_goes_with_it_and_comes_back_with_it():
    said = [("user", "The code?"), thought(SECRET), ("assistant", SECRET)]
    agent = agent_that(says("<summary>They talked.</summary>"), session=Session(said))
    before = agent.session.history
    event = only(agent.exclude(2))
    assert isinstance(event, Compacted)
    assert compaction_text(event.compaction).startswith("Message excluded: #2, ")
    assert "4711" not in json.dumps(anthropic_wire.body(agent.next_request()))
    list(agent.compact())
    assert "4711" not in "".join(contents(agent.provider.requests[-1]))
    list(agent.undo_compaction())
    list(agent.include(2))
    assert agent.session.history == before


def test_the_thoughts_of_other_messages_and_the_signatures_of_calls_stay():
    signature = Entry("thinking", "", "", "gemini", '{"extra_content": {}}')
    call = Entry("assistant", "", "c", "look_up", "{}")
    said = [
        ("user", "Look."),
        *[thought("First."), ("assistant", "Well."), signature, call],
        ("tool", "Nothing.", "c", "look_up"),
        *[thought("Then."), ("assistant", "No.")],
    ]
    agent = agent_that(session=Session(said))
    list(agent.exclude(2))
    out = [place for place, _ in agent.session.compactions[0].replacements]
    assert out == [1, 2]
    list(agent.exclude(0))
    assert agent.session.history[3:] == agent.session.transcript[3:]


def test_recall_does_not_return_it_to_the_model():
    agent = Agent(
        ScriptedProvider(
            says("one"),
            calls("recall", query="0"),
            calls("recall", query="safe code"),
            says("I cannot."),
        ),
        recall=True,
    )
    agent.ask(SECRET)
    list(agent.exclude(0))
    agent.ask("What was the code?")
    assert "4711" not in "".join(contents(agent.provider.requests[-1]))
    assert "4711" in agent.session.recall("safe").text()


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (9, "There's no message 9"),
        (-1, "There's no message -1"),
        (1, "a tool call or thinking"),
        (0, "is already excluded"),
    ],
)
def test_what_cannot_be_excluded_is_refused_with_the_reason(place, said):
    agent = agent_that(calls("look_up", ticket=1), says("Read."))
    agent.ask("Read ticket 1.")
    list(agent.exclude(0))
    with pytest.raises(NbchatError, match=said):
        list(agent.exclude(place))
    assert len(agent.session.compactions) == 1


def test_what_is_compacted_can_be_neither_excluded_nor_included():
    agent = agent_that(says("Fine. " * 300), says("<summary>S</summary>"))
    agent.ask("hello")
    list(agent.exclude(0))
    list(agent.compact())
    with pytest.raises(NbchatError, match="is compacted"):
        list(agent.exclude(1))
    with pytest.raises(NbchatError, match="is compacted"):
        list(agent.include(0))
    with pytest.raises(NbchatError, match="isn't excluded"):
        list(agent.include(1))


def test_undo_takes_it_in_and_redo_leaves_it_out_again():
    agent = agent_that(says("one"))
    agent.ask(SECRET)
    list(agent.exclude(0))
    list(agent.undo_compaction())
    assert agent.session.history[0].content == SECRET
    list(agent.redo_compaction())
    assert agent.session.history[0].content == EXCLUDED_TEXT


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(f"sqlite:///{tmp_path / 'sessions.db'}")


def compacted(agent: Agent) -> None:
    list(agent.compact(keep=600))
    assert agent.session.compaction is not None


def edited_after_a_compaction(agent: Agent) -> None:
    compacted(agent)
    list(agent.exclude(3))
    list(agent.edit_compaction("They talked."))


@pytest.mark.slow
@pytest.mark.parametrize("change", [compacted, edited_after_a_compaction])
def test_an_excluded_message_counts_once_beside_a_compaction(
    store: SessionStore, change: Callable[[Agent], None]
) -> None:
    lines = says(SECRET * 2), says(SECRET), says("<summary>They talked.</summary>")
    agent = agent_that(*lines)
    agent.autosave = autosave_of(store, agent.session, agent)
    agent.ask(SECRET)
    agent.ask("two")
    list(agent.exclude(1))
    change(agent)
    loaded = store.load(agent.session.session_id)
    again = agent_that(session=loaded)
    known = agent.engine.tracker.context_tokens(agent.session)
    assert again.engine.tracker.context_tokens(loaded) == known
    sent = again.provider.count_tokens(again.next_request())
    assert known == pytest.approx(sent, abs=60)


@pytest.mark.parametrize("change", [lambda agent: (), lambda agent: agent.include(0)])
def test_a_session_that_comes_back_shows_and_counts_the_same(
    store: SessionStore, change: Callable[[Agent], object]
) -> None:
    agent = agent_that(says("one"), says("two"))
    agent.autosave = autosave_of(store, agent.session, agent)
    agent.ask(SECRET)
    list(agent.exclude(0))
    list(change(agent))  # type: ignore[call-overload]
    again = Agent(
        ScriptedProvider(),
        tools=[look_up],
        session=store.load(agent.session.session_id),
    )
    assert again.session.history == agent.session.history
    assert again.engine.tracker.context_tokens(
        again.session
    ) == agent.engine.tracker.context_tokens(agent.session)
    assert again.engine.input_tokens == agent.engine.input_tokens


def test_the_banner_the_history_and_the_log_call_it_what_it_is():
    agent = agent_that(says("one"))
    agent.ask(SECRET)
    event = only(agent.exclude(0))
    assert isinstance(event, Compacted)
    assert compaction_text(event.compaction).startswith("Message excluded: #0, ")
    assert "policy" not in compaction_html(event.compaction)
    items = history_page(agent.session).items
    assert [item.seen for item in items if item.position is not None] == [
        "excluded",
        "whole",
    ]
    assert "Excluded by the user: message #0" in session_log(agent.session)
    assert monitoring(agent.session).outputs_shortened == 0


def test_both_are_commands(store: SessionStore) -> None:
    commands, agent = Commands(store), agent_that(says("one"))
    agent.ask(SECRET)
    list(commands(agent, "/exclude 0"))
    assert agent.session.history[0].content == EXCLUDED_TEXT
    list(commands(agent, "/include 0"))
    assert agent.session.history[0].content == SECRET
    for line in ("/exclude", "/exclude it", "/include -1"):
        with pytest.raises(NbchatError, match="needs the number of a message"):
            commands(agent, line)
