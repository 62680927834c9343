"""Changes of a compaction: undone, redone, edited, regenerated; and reloaded."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.summary_format import summary_text
from nbchat.conversation.entries import Compaction, Entry, prefix_hash
from nbchat.conversation.events import (
    EDIT,
    Compacted,
    CompactionChanged,
    CompactionFailed,
    CompactionSkipped,
    Event,
)
from nbchat.conversation.session import Session
from nbchat.errors import RequestRefused
from nbchat.providers.base import Request
from nbchat.storage.factory import autosave_of
from nbchat.storage.store import SessionStore
from nbchat.testing import Line, ScriptedProvider, ScriptedReply, fails, says

LONG = "The customer asks about order W100 and its parcel, which is late. " * 12

CHANGES = {
    "undo": Agent.undo_compaction,
    "redo": Agent.redo_compaction,
    "compact": Agent.compact,
}


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(f"sqlite:///{tmp_path / 'sessions.db'}")


def agent_in(
    store: SessionStore, *lines: ScriptedReply, session: Session | None = None
):
    agent = Agent(ScriptedProvider(*lines), session=session)
    agent.autosave = autosave_of(store, agent.session, agent)
    return agent


def summary(text: str) -> Line:
    return says(f"<summary>{text}</summary>")


def chained(store: SessionStore, *more: ScriptedReply) -> Agent:
    """An agent with two compactions, the second upon the first, and a turn after."""
    lines = (says(LONG), summary("A"), says(LONG), summary("B"), says("three"))
    agent = agent_in(store, *lines, *more)
    agent.session.append(Entry("user", "My order is W100-7."))
    agent.session.append(Entry("assistant", LONG))
    agent.ask("one")
    do(agent, "compact")
    agent.ask("two")
    do(agent, "compact")
    agent.ask("three?")
    return agent


def do(agent: Agent, name: str) -> Event:
    return list(CHANGES[name](agent))[-1]


def stories(session: Session) -> list[str]:
    """The view as a person would tell it: summaries by their text."""
    return [
        f"<{summary_text(entry.content)}>" if entry.role == "summary" else entry.content
        for entry in session.history
    ]


def reloaded(store: SessionStore, agent: Agent) -> Session:
    return store.load(agent.session.session_id)


@pytest.mark.slow
def test_undo_goes_back_through_a_chain_and_redo_comes_forward_again(store):
    agent = chained(store)
    views = [agent.session.history]
    assert stories(agent.session) == ["<B>", "three?", "three"]
    do(agent, "undo")
    views.append(agent.session.history)
    assert stories(agent.session) == ["<A>", "two", LONG, "three?", "three"]
    do(agent, "undo")
    assert agent.session.history == agent.session.transcript
    assert reloaded(store, agent).history == agent.session.transcript
    assert isinstance(do(agent, "undo"), CompactionSkipped)
    for view in reversed(views):
        do(agent, "redo")
        assert agent.session.history == view
        assert reloaded(store, agent).history == view
    assert isinstance(do(agent, "redo"), CompactionSkipped)


@pytest.mark.slow
def test_a_redo_after_new_turns_keeps_the_new_turns(store):
    agent = chained(store, says("four"))
    do(agent, "undo")
    agent.ask("four?")
    event = do(agent, "redo")
    assert isinstance(event, CompactionChanged)
    assert event.change == "redone"
    assert stories(agent.session) == ["<B>", "three?", "three", "four?", "four"]


@pytest.mark.slow
def test_nothing_can_be_redone_once_something_newer_replaced_it(store):
    agent = chained(store, summary("C"))
    do(agent, "undo")
    do(agent, "compact")
    assert stories(agent.session) == ["<C>"]
    assert isinstance(do(agent, "redo"), CompactionSkipped)
    do(agent, "undo")
    list(agent.edit_compaction("A, in my words"))
    assert isinstance(do(agent, "redo"), CompactionSkipped)
    assert stories(agent.session)[0] == "<A, in my words>"


def test_an_undone_and_redone_degraded_summary_is_still_called_degraded(store):
    agent = agent_in(store, says(LONG))
    agent.ask("one")
    record = Compaction(
        "c", 0, 2, "<summary>x</summary>", status="degraded", reason="w"
    )
    agent.session.compactions.append(record)
    do(agent, "undo")
    event = do(agent, "redo")
    assert isinstance(event, CompactionChanged)
    assert (event.compaction.status, event.compaction.reason) == ("degraded", "w")


@pytest.mark.slow
def test_the_usage_from_before_a_change_triggers_nothing_also_after_a_reload(store):
    lines = (says(LONG), summary("A"), summary("B"), says("two", tokens=70))
    agent = agent_in(store, *lines)
    agent.ask("one")
    steps: list[Callable[[], Iterator[Event]]] = [
        agent.compact,
        agent.regenerate_compaction,
        lambda: agent.edit_compaction("mine"),
        agent.undo_compaction,
        agent.redo_compaction,
    ]
    for step in steps:
        agent.engine.update_token_count(agent.session.usages[0][1])
        list(step())
        again = Agent(ScriptedProvider(), session=reloaded(store, agent))
        assert agent.engine.input_tokens == again.engine.input_tokens == 0
    agent.ask("two")
    again = Agent(ScriptedProvider(), session=reloaded(store, agent))
    assert agent.engine.input_tokens == again.engine.input_tokens == 70
    assert not agent.engine.should_compact(agent.session)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["edit", "redo", "regenerate"])
def test_turns_since_a_compaction_count_when_it_is_changed(store, name: str):
    """Live and after a reload: the guard would be blind to them."""
    lines = (says(LONG), summary("A"), says(LONG * 9), summary("AA"))
    agent = agent_in(store, *lines)
    agent.ask("one")
    do(agent, "compact")
    agent.ask("two")
    change_late(agent, name)
    counted = agent.engine.tracker.counter.count_entries(agent.session.history)
    again = Agent(ScriptedProvider(), session=reloaded(store, agent))
    for each in (agent, again):
        known = each.engine.tracker.context_tokens(each.session)
        assert known == pytest.approx(counted, rel=0.03)
        assert each.engine.plan(each.session).tokens_before == known


def change_late(agent: Agent, name: str) -> None:
    match name:
        case "edit":
            list(agent.edit_compaction("All is well."))
        case "redo":
            do(agent, "undo")
            do(agent, "redo")
        case "regenerate":
            list(agent.regenerate_compaction())


def in_a_full_window(store: SessionStore, session: Session | None = None) -> Agent:
    provider = ScriptedProvider(says(LONG), summary("A"), window=260)
    agent = Agent(provider, engine=CompactionEngine(10_000), session=session)
    agent.autosave = autosave_of(store, agent.session, agent)
    return agent


@pytest.mark.slow
def test_after_an_undo_a_full_window_does_not_compact_at_once_again(store):
    agent = in_a_full_window(store)
    agent.ask("one")
    assert agent.session.compaction is not None  # the window guard
    do(agent, "undo")
    again = in_a_full_window(store, reloaded(store, agent))
    for each in (agent, again):
        assert not each.engine.should_compact(each.session)
        each.session.append(Entry("user", LONG))
        assert each.engine.should_compact(each.session).trigger == "window"


def test_new_messages_after_an_undo_end_its_cooldown_after_a_restart_too(store):
    agent = in_a_full_window(store)
    agent.ask("one")
    do(agent, "undo")
    loaded = reloaded(store, agent)
    loaded.append(Entry("user", LONG))
    engine = in_a_full_window(store, loaded).engine
    assert engine.should_compact(loaded).trigger == "window"


def test_a_summary_of_changed_entries_gives_a_full_window_no_rest(store):
    agent = in_a_full_window(store)
    agent.ask("one")
    said = [("user", "another"), *agent.session.transcript[1:]]
    session = Session(said, compactions=agent.session.compactions)
    assert session.compaction is None
    engine = in_a_full_window(store, session).engine
    assert engine.should_compact(session).trigger == "window"


@pytest.mark.slow
def test_an_edited_summary_keeps_its_facts(store):
    agent = chained(store)
    facts = agent.session.history[0].content.partition("</summary>")[2]
    assert "W100" in facts
    event = list(agent.edit_compaction("All is <summary>well</summary>.</facts>"))[-1]
    assert isinstance(event, CompactionChanged)
    told = agent.session.history[0].content
    words = "All is &lt;summary>well&lt;/summary>.&lt;/facts>"
    assert told == f"<summary>\n{words}\n</summary>{facts}"
    assert told.endswith("</facts>")
    assert event.compaction.reason == ""
    assert (event.compaction.revision, event.compaction.model) == ("edited", "")
    assert reloaded(store, agent).history == agent.session.history
    do(agent, "undo")
    assert stories(agent.session)[0] == "<A>"
    do(agent, "redo")
    assert summary_text(agent.session.history[0].content) == words


@pytest.mark.slow
def test_an_edit_that_cannot_be_a_summary_changes_nothing_and_says_why(store):
    agent = chained(store)
    before = agent.session.history
    blank = list(agent.edit_compaction(" \n\t"))[-1]
    assert blank == CompactionSkipped("The summary would be empty.", EDIT)
    huge = list(agent.edit_compaction("word " * 100_000))[-1]
    assert isinstance(huge, CompactionSkipped)
    assert "would have 100," in huge.reason
    assert agent.session.history == before
    fresh = list(agent_in(store, says("x")).edit_compaction("mine"))[-1]
    assert fresh == CompactionSkipped("There's no summary.", EDIT)


@pytest.mark.slow
def test_an_edit_larger_than_what_it_replaces_is_allowed_and_says_so(store):
    agent = chained(store)
    event = list(agent.edit_compaction("word " * 1_000))[-1]
    assert isinstance(event, CompactionChanged)
    assert event.compaction.reason.startswith("It's larger than what it replaces: 1,1")
    assert "larger than what it replaces" in event.compaction.reason
    assert event.compaction.tokens_after > 1_000


def test_the_counts_of_an_edit_follow_its_size(store):
    agent = chained(store)
    before = agent.session.compaction
    list(agent.edit_compaction("one two three four five six seven eight nine ten"))
    after = agent.session.compaction
    assert before is not None
    assert after is not None
    grown = agent.engine.tracker.counter.count_entry(after.entry)
    grown -= agent.engine.tracker.counter.count_entry(before.entry)
    assert after.tokens_after - before.tokens_after == grown > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["</summary>" * 10_000, "x" * 100_000, "\ud800<facts>"]
)
def test_any_text_may_be_an_edit_and_only_our_tags_are_tags(store, text: str):
    agent = chained(store)
    agent.engine.tracker.use_model(
        agent.engine.tracker.info.__class__("m")
    )  # no window: any length
    list(agent.edit_compaction(text))
    told = agent.session.history[0].content
    assert told.count("<summary>") == told.count("</summary>") == 1
    assert told.count("<facts>") == told.count("</facts>") == 1
    assert reloaded(store, agent).history == agent.session.history


@pytest.mark.slow
def test_a_regenerated_summary_covers_the_same_entries(store):
    asked: list[Request] = []

    def regenerated(request: Request) -> Line:
        asked.append(request)
        return summary("B, better")

    agent = chained(store, regenerated)
    first = agent.provider.requests[3]  # type: ignore[attr-defined]
    cost = agent.session.usage
    event = list(agent.regenerate_compaction(focus="the parcel"))[-1]
    assert isinstance(event, CompactionChanged)
    assert event.change == "regenerated"
    prompt = asked[0].history[0].content
    data, _, _ = first.history[0].content.partition("</transcript>")
    assert prompt.startswith(data)  # the previous summary and the same entries
    assert "<previous_summary>\nA\n</previous_summary>" in data
    assert "three?" not in prompt
    assert "Pay special attention to: the parcel" in prompt
    assert stories(agent.session) == ["<B, better>", "three?", "three"]
    assert reloaded(store, agent).history == agent.session.history
    assert event.compaction.revision == "regenerated"
    assert agent.session.usage.input_tokens > cost.input_tokens + 100
    assert reloaded(store, agent).usage == agent.session.usage


def test_one_undo_takes_a_rewritten_summary_back_to_the_original(store):
    agent = agent_in(store, says(LONG), summary("A"), summary("AA"))
    agent.ask("one")
    do(agent, "compact")
    list(agent.regenerate_compaction())
    assert stories(agent.session) == ["<AA>"]
    do(agent, "undo")
    assert agent.session.history == agent.session.transcript
    do(agent, "redo")
    assert stories(agent.session) == ["<AA>"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", [fails(RequestRefused("no such model")), says("no tags"), summary(LONG * 9)]
)
def test_a_failed_rewrite_leaves_the_old_summary_in_force_and_is_reported(store, line):
    agent = chained(store, line, line)
    before, cost = agent.session.history, agent.session.usage
    events = list(agent.regenerate_compaction())
    assert isinstance(events[-1], CompactionFailed)
    assert events[-1].reason
    assert agent.session.history == before
    assert reloaded(store, agent).history == before
    spent = agent.session.usage
    assert (spent == cost) == (line.error is not None)
    assert reloaded(store, agent).usage == spent
    do(agent, "undo")
    assert stories(agent.session)[0] == "<A>"
    assert agent.session.usage == spent


def test_without_a_summary_there_is_nothing_to_regenerate(store):
    agent = agent_in(store, says("x"))
    assert list(agent.regenerate_compaction()) == [
        CompactionSkipped("There's no summary.", EDIT)
    ]
    assert agent.provider.requests == []  # type: ignore[attr-defined]


def test_undo_takes_back_the_newest_change_also_when_it_shortened_outputs():
    said = [
        ("user", "q"),
        ("assistant", "", "1", "look", "{}"),
        ("tool", LONG, "1", "look"),
    ]
    kept = Session([*said, ("assistant", "found")])
    engine = CompactionEngine()
    pruned = Compaction(
        "p", 0, 3, "", kind="pruning", replacements=((2, "short"),), status="done"
    )
    kept.compactions.append(pruned)
    assert kept.history[2].content == "short"
    kept.compactions.append(Compaction("c", 0, 2, "<summary>S</summary>"))
    assert [entry.content for entry in kept.history[1:]] == ["short", "found"]
    views = [kept.history]
    for _ in range(2):
        undone = engine.undo(kept)
        assert undone is not None
        kept.compactions.append(undone)
        views.append(kept.history)
    assert views[1][2].content == "short"
    assert views[2] == kept.transcript
    for view in (views[1], views[0]):
        redone = engine.redo(kept)
        assert redone is not None
        kept.compactions.append(redone)
        assert kept.history == view


def test_a_rewrite_sees_pruned_outputs_whole_as_every_compaction_does():
    said = [
        ("user", "q"),
        ("assistant", "", "1", "look", "{}"),
        ("tool", LONG, "1", "look"),
    ]
    kept = Session([*said, ("assistant", LONG)])
    pruned = Compaction("p", 0, 3, "", kind="pruning", replacements=((2, "short"),))
    kept.compactions += [pruned, Compaction("c", 0, 4, "<summary>S</summary>")]
    provider = ScriptedProvider(summary("T"))
    list(CompactionEngine().regenerate(kept, provider))
    prompt = provider.requests[0].history[0].content
    assert f'<result tool="look">{LONG}</result>' in prompt


@pytest.mark.slow
def test_twenty_compactions_leave_the_transcript_byte_equal(store):
    def answer(request: Request) -> Line:
        return summary("short") if request.answer_tag else says(LONG)

    agent = agent_in(store, *[answer] * 40)
    said = []
    for number in range(20):
        agent.ask(f"{number} \U0001f600 é\x00")
        said += [("user", f"{number} \U0001f600 é\x00"), ("assistant", LONG)]
        assert isinstance(do(agent, "compact"), Compacted)
        assert len(agent.session.history) == 1
    expected = [Entry(role, text) for role, text in said]
    assert agent.session.transcript == expected
    loaded = reloaded(store, agent)
    assert [tuple(entry) for entry in loaded.transcript] == expected
    assert loaded.history == agent.session.history
    assert len(loaded.active_compactions) == 20


def test_a_text_that_cannot_be_encoded_keeps_its_compaction_in_force(store):
    agent = agent_in(store, says(LONG), summary("A"))
    agent.ask("half a face: \ud83d")
    do(agent, "compact")
    assert reloaded(store, agent).history == agent.session.history


@dataclass
class Model:
    """What the view must be, in the plainest words."""

    said: list[str] = field(default_factory=list)
    summaries: list[tuple[int, str]] = field(default_factory=list)
    undone: list[tuple[int, str]] = field(default_factory=list)
    folded: int = 0

    @property
    def view(self) -> list[str]:
        if not self.summaries:
            return self.said
        stop, text = self.summaries[-1]
        return [f"<{text}>", *self.said[stop:]]

    def play(self, step: str, text: str) -> None:
        stop = self.summaries[-1][0] if self.summaries else 0
        match step:
            case "turn":
                self.said += [text, LONG]
            case "compact" if len(self.said) > stop:
                self.summaries.append((len(self.said), text))
                self.undone = []
            case "undo" if self.summaries:
                self.undone.append(self.summaries.pop())
            case "redo" if self.undone:
                self.summaries.append(self.undone.pop())
            case "edit" | "regenerate" if self.summaries:
                self.summaries[-1] = (stop, text)
                self.undone = []


STEPS = st.lists(
    st.sampled_from(
        ["turn", "turn", "compact", "compact", "undo", "undo", "redo", "redo"]
        + ["edit", "regenerate", "failed compact", "failed regenerate", "reload"]
    ),
    min_size=4,
    max_size=16,
)


def play(agent: Agent, step: str, text: str) -> None:
    failed = step.startswith("failed")
    answer = says("no tags") if failed else summary(text)
    provider = ScriptedProvider(says(LONG) if step == "turn" else answer, answer)
    agent.use(provider)
    match step.removeprefix("failed "):
        case "turn":
            agent.ask(text)
        case "compact" | "undo" | "redo" as name:
            do(agent, name)
        case "edit":
            list(agent.edit_compaction(text))
        case "regenerate":
            list(agent.regenerate_compaction())


@pytest.mark.slow
@given(STEPS)
def test_whatever_is_done_the_view_is_what_a_simple_model_says(tmp_path_factory, steps):
    file = tmp_path_factory.mktemp("store") / "sessions.db"
    store = SessionStore(f"sqlite:///{file}")
    agent, model = agent_in(store), Model()
    for number, step in enumerate(["turn", *steps]):
        text = f"{step} {number}"
        if step == "reload":
            agent = agent_in(store, session=reloaded(store, agent))
        else:
            play(agent, step, text)
            model.play(step, text)
        assert stories(agent.session) == model.view
        assert [entry.content for entry in agent.session.transcript] == model.said
    loaded = reloaded(store, agent)
    store.close()
    assert loaded.history == agent.session.history
    assert loaded.transcript == agent.session.transcript
    assert loaded.usage == agent.session.usage
    assert all(record.status != "running" for record in loaded.compactions)
    again = Agent(ScriptedProvider(), session=loaded)
    assert again.engine.input_tokens == agent.engine.input_tokens


def test_a_changed_entry_deactivates_every_summary_that_covers_it():
    said = [Entry("user" if n % 2 == 0 else "assistant", str(n)) for n in range(8)]
    records = [
        Compaction(f"c{stop}", 0, stop, "s", prefix_hash=prefix_hash(said[:stop]))
        for stop in (2, 4, 6)
    ]
    for changed, in_force in [(0, []), (2, [2]), (4, [2, 4]), (6, [2, 4, 6])]:
        edited = [*said[:changed], Entry("user", "changed"), *said[changed + 1 :]]
        loaded = Session(edited, compactions=records)
        assert [record.stop for record in loaded.active_compactions] == in_force
        gone = loaded.compactions[len(in_force) :]
        assert {record.reason for record in gone} <= {
            "The messages it covers were changed."
        }
    shorter = Session(said[:5], compactions=records)
    assert [record.stop for record in shorter.active_compactions] == [2, 4]
    assert CompactionEngine().redo(shorter) is None
