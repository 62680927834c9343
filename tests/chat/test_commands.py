"""The commands, one by one, on a store in a temporary folder."""

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from driving import replied
from sqlite_files import sqlite_file

from nbchat.agent.agent import Agent
from nbchat.chat.chat_events import CommandReplied
from nbchat.chat.commands import Commands
from nbchat.chat.context_commands import NO_RULES
from nbchat.compaction.summary_format import summary_facts, summary_text
from nbchat.compaction.triggers.context_breakdown import LABELS
from nbchat.conversation.events import (
    Branched,
    Compacted,
    CompactionChanged,
    CompactionUndone,
    EntryAdded,
    PinsChanged,
    SavingFailed,
)
from nbchat.conversation.secret_masking import HIDDEN
from nbchat.conversation.session import Session
from nbchat.errors import (
    ConfigError,
    NbchatError,
    RequestRefused,
    Stopped,
    StoreError,
)
from nbchat.providers.model_info import Prices
from nbchat.rendering.banners import notice_text
from nbchat.storage.autosave import Autosave, save_session
from nbchat.storage.export import exported, imported
from nbchat.storage.factory import autosave_of, newest_session
from nbchat.storage.import_checks import checked, claims, without_claims
from nbchat.storage.store import SessionStore
from nbchat.testing import Line, ScriptedProvider, fails, says

STORY = "The customer asks about order W100 and its parcel. " * 20


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(SessionStore(f"sqlite:///{tmp_path / 'sessions.db'}"))


def agent_for(commands: Commands, *lines) -> Agent:
    agent = Agent(ScriptedProvider(*lines), system="Be kind.")
    agent.autosave = autosave_of(commands.store, agent.session, agent)
    return agent


@pytest.mark.parametrize("line", ["/help", "/context", "/settings", "/sessions"])
def test_what_a_command_lists_is_a_table_and_the_same_as_text(commands, line):
    agent = agent_for(commands, says("Hello."))
    agent.ask("What about <b>W1</b>?")
    (reply,) = commands(agent, line)
    assert isinstance(reply, CommandReplied)
    assert {len(row) for row in reply.rows} == {len(reply.columns)}
    assert len(reply.rows) == len(reply.text.splitlines())
    cells = [cell.strip() for row in reply.rows for cell in row]
    assert all(cell in reply.text for cell in cells)


def test_a_listener_gets_the_events_of_the_next_session_too(commands):
    agent, heard = agent_for(commands, says("one"), says("two")), []
    agent.listener = heard.append
    agent.ask("first")
    commands(agent, "/new")
    del heard[:]
    assert agent.ask("second") == "two"
    assert [e.entry.content for e in heard if isinstance(e, EntryAdded)] == [
        "second",
        "two",
    ]


def test_help_lines_has_one_line_per_command(commands):
    assert list(commands.help_lines) == list(commands.table)
    assert commands.help_lines["pin"].startswith("[text]  List the pinned rules")


REFUSED = {
    "/hlep": "No command named /hlep. Did you mean /help?",
    "/xyz": "No command named /xyz. /help lists all commands.",
    "/new a b": "/new takes no arguments.",
    "/plan xyz": "/plan takes keep=N or upto=N, such as /plan keep=2000.",
    "/resume": "/resume needs the id of a session. /sessions lists them.",
    "/import": "/import needs the id of a session.",
    "/delete": "/delete needs the id of a session.",
    "/delete xyz": "There's no session 'xyz'. /sessions lists yours.",
    "/recall": "/recall needs words to look for, or the number of a message.",
    "/unpin": "/unpin needs the number of a rule. /pin lists them.",
    "/exclude one": "/exclude needs the number of a message.",
    "/threshold -1": "/threshold needs a number of tokens, such as",
    "/policy teired": "No policy named 'teired'. Did you mean tiered? Choose one of",
    "/model gpt-6-lana": "'gpt-6-lana' has no provider. Did you mean openai:gpt-6-",
    "/model xyz": "'xyz' has no provider. Write a model as provider:name, with one",
    "/mcp xyz": "No MCP server named xyz.",
    "/redact xyz": "/redact needs 4 characters or more.",
    "/set nothing 3": "No setting named nothing. /settings lists them all.",
}


def test_what_is_refused_says_in_a_line_what_to_type_instead(commands):
    agent = agent_for(commands)
    for line, said in REFUSED.items():
        with pytest.raises(NbchatError) as refused:
            list(commands(agent, line))
        assert said in str(refused.value), line
        assert "\n" not in str(refused.value), line


def test_help_lists_every_command_once_in_groups_the_most_used_first(commands):
    (reply,) = commands(agent_for(commands), "/help")
    names = [row[1].split()[0] for row in reply.rows]
    assert sorted(names) == sorted(f"/{name}" for name in commands.table)
    groups = [row[0] for row in reply.rows if row[0]]
    assert groups == ["Chat", "Sessions", "Context", "Memory", "Settings"]
    assert all(row[2][0].isupper() for row in reply.rows)


def test_a_plan_says_what_a_compaction_would_do_and_does_nothing(commands):
    agent = agent_for(commands, says(STORY))
    assert replied(commands(agent, "/plan")) == (
        "Can't compact now. There's nothing new to compact."
    )
    agent.ask("first")
    text = replied(commands(agent, "/plan"))
    plan = agent.engine.plan(agent.session)
    assert text == (
        "A summary would replace 2 messages, and 0 would stay: "
        f"{plan.tokens_before:,} → about {plan.tokens_after:,} tokens."
    )
    assert agent.session.compactions == []
    assert len(agent.provider.requests) == 1


def test_a_command_compacts_up_to_a_message(commands):
    told = ScriptedProvider(says("<summary>First came hello.</summary>"))
    said = [("user", "hello " * 200), ("assistant", "good day")]
    session = Session([*said, ("user", "well?"), ("assistant", "yes")])
    agent = Agent(told, session=session)
    plan = replied(commands(agent, "/plan upto=1"))
    assert plan.startswith("A summary would replace 2 messages, and 2 would stay")
    list(commands(agent, "/compact upto=1 the hellos"))
    assert agent.session.compaction.stop == 2
    assert "the hellos" in told.requests[0].history[-1].content


@pytest.mark.slow
def test_a_compaction_can_be_undone_redone_edited_and_regenerated(commands):
    lines = (
        says(STORY),
        says("<summary>short</summary>"),
        says("<summary>B</summary>"),
    )
    agent = agent_for(commands, *lines)
    agent.ask("first")
    assert replied(commands(agent, "/edit")) == "There's no summary to edit."
    for line, told in [
        ("/compact", "short"),
        ("/regenerate the order", "B"),
        ("/edit\nIn my\nwords.", "In my\nwords."),
        ("/undo", ""),
        ("/redo", "In my\nwords."),
    ]:
        events = list(commands(agent, line))
        assert isinstance(events[-1], Compacted | CompactionChanged | CompactionUndone)
        found = agent.session.history[0].content if agent.session.compaction else ""
        assert summary_text(found) == told
        if told:
            assert replied(commands(agent, "/edit")) == told
    assert "Pay special attention to: the order" in asked(agent)


def asked(agent: Agent) -> str:
    return agent.provider.requests[-1].history[0].content


@pytest.mark.parametrize("line", ["/compact", "/regenerate"])
def test_a_command_that_calls_the_model_can_be_stopped(commands, line):
    agent = agent_for(commands, says(STORY), says("<summary>A</summary>"), says("x"))
    agent.ask("first")
    if line == "/regenerate":
        list(agent.compact())
    before = agent.session.history
    stop = threading.Event()
    stop.set()
    events = commands(agent, line, stop=stop)
    with pytest.raises(Stopped):
        list(events)
    assert agent.session.history == before


def test_pins_are_listed_added_and_removed(commands):
    agent = agent_for(commands)
    assert replied(commands(agent, "/pin")) == "No rules are pinned."
    events = [*commands(agent, "/pin Never refund  over $50.")]
    assert events == [PinsChanged(("Never refund  over $50.",))]
    list(commands(agent, "/pin In French."))
    assert (
        replied(commands(agent, "/pin")) == "1  Never refund  over $50.\n2  In French."
    )
    assert "Pinned rules       2" in replied(commands(agent, "/context"))
    list(commands(agent, "/unpin 1"))
    assert agent.session.pins == ("In French.",)


def quoting(*rules: str) -> Line:
    """A summary that quotes these sentences as rules in force."""
    quoted = "\n".join(f'"{rule}"' for rule in rules)
    return says(f"<summary>\nThey talked about a yard.\n{quoted}\n</summary>")


@pytest.mark.slow
def test_a_rule_that_a_summary_quotes_is_listed_dropped_and_taken_back(commands):
    said = ["Never use tabs.", "Please always lock the yard."]
    invented = quoting(*said, "Nobody said this, ever.")  # is asked for once more
    lines = [says(STORY), invented, invented]
    agent = agent_for(commands, *lines, says(STORY * 3), quoting(*said))
    agent.ask(" ".join(said))
    list(agent.compact(keep=0))
    listed = replied(commands(agent, "/rules")).splitlines()
    assert listed == [f"{n}  {text}  (#0)" for n, text in enumerate(said, 1)]
    (changed,) = commands(agent, "/rules drop 2")
    assert notice_text(changed) == "0 rules pinned, 1 dropped"
    left = ["1  Never use tabs.  (#0)", "2  Please always lock the yard.  (dropped)"]
    assert replied(commands(agent, "/rules")).splitlines() == left
    agent.ask("What is a tab?")
    list(agent.compact(keep=0))
    kept = summary_facts(agent.session.compaction.summary)
    assert kept[1] == '- "Never use tabs."'
    assert [line for line in kept if "lock the yard" in line] == [
        f"- {' '.join(said)} (The user says: no longer a rule.)"
    ]
    assert "lock the yard" not in agent.next_request().system
    assert replied(commands(agent, "/rules")).splitlines() == left
    with pytest.raises(NbchatError, match="Rule 2 is already dropped"):
        list(commands(agent, "/rules drop 2"))
    list(commands(agent, "/rules keep 2"))
    assert "lock the yard.  (#0)" in replied(commands(agent, "/rules"))
    with pytest.raises(NbchatError, match="Rule 2 is already kept"):
        list(commands(agent, "/rules keep 2"))


@pytest.mark.slow
def test_a_rule_with_a_secret_is_listed_without_it_and_can_be_dropped(commands):
    rule = "Never give the password: hunter2-77 to others."
    hidden = rule.replace("hunter2-77", HIDDEN)
    agent = agent_for(commands, says(STORY), quoting(hidden), says(STORY), quoting())
    agent.ask(rule)
    list(agent.compact(keep=0))
    (listed,) = replied(commands(agent, "/rules")).splitlines()
    assert listed == f"1  {hidden}  (#0)"
    list(commands(agent, "/rules drop 1"))
    agent.ask("What is a tab?")
    list(agent.compact(keep=0))
    kept = summary_facts(agent.session.compaction.summary)
    assert f"- {hidden} (The user says: no longer a rule.)" in kept
    assert f'- "{hidden}"' not in kept
    assert "hunter2-77" not in agent.session.compaction.summary


def test_a_dropped_rule_is_saved_copied_and_exported(commands, tmp_path):
    store = SessionStore(f"sqlite:///{tmp_path}/dropped.db")
    dropped = ("Please always lock the yard.",)
    agent = agent_for(commands, says(STORY), quoting(*dropped))
    agent.autosave = Autosave(store, agent.session, is_saved=False)
    agent.ask(*dropped)
    list(agent.compact(keep=0))
    list(commands(agent, "/rules drop 1"))
    agent.autosave.save()
    saved = store.load(agent.session.session_id)
    assert (saved.pins, saved.dropped_rules) == ((), dropped)
    copy = imported(exported(saved, "json"))
    assert "not a rule: Please always lock the yard." in claims(copy)
    assert without_claims(copy).dropped_rules == ()
    assert checked(copy).dropped_rules == saved.branch(0).dropped_rules == dropped
    list(commands(agent, "/rules keep 1"))
    agent.autosave.save()
    assert store.load(agent.session.session_id).dropped_rules == ()
    store.close()


def test_a_pin_may_begin_with_any_words(commands):
    agent = agent_for(commands, says("Fine."))
    list(commands(agent, "/pin Not a rule: the yard may stay open."))
    assert "Not a rule: the yard may stay open." in agent.next_request().system


def test_without_rules_it_is_said(commands):
    assert replied(commands(agent_for(commands), "/rules")) == NO_RULES


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/rules drop 2", "There's no rule 2. /rules lists them"),
        (
            "/rules drop two",
            "Use /rules, /rules drop N or /rules keep N",
        ),
        ("/rules 1", "Use /rules, /rules drop N or /rules keep N"),
        ("/unpin two", "needs the number of a rule"),
        ("/unpin", "needs the number of a rule"),
        ("/unpin 0", "There's no pin 0. /pin lists them"),
        ("/unpin 2", "There's no pin 2. /pin lists them"),
        ("/pin one", "already pinned as number 1"),
        ("/pin " + "word " * 3_000, r"has 3,00\d tokens. A pin can have 2,000"),
    ],
)
def test_an_invalid_pin_is_refused_with_the_numbers(commands, line, said):
    agent = agent_for(commands)
    list(commands(agent, "/pin one"))
    with pytest.raises(NbchatError, match=said):
        list(commands(agent, line))
    assert agent.session.pins == ("one",)


@pytest.mark.slow
def test_context_shows_the_state_of_the_last_compaction(commands, tmp_path):
    agent = agent_for(commands, says(STORY), says("<summary>short</summary>"))
    agent.ask("first")
    assert "Last compaction    None yet" in replied(commands(agent, "/context"))
    list(agent.compact())
    assert "Last compaction    Compaction occurred: 2" in replied(
        commands(agent, "/context")
    )
    with sqlite_file(tmp_path / "sessions.db") as database:
        database.execute("UPDATE chat_messages SET content = 'x' WHERE position = 0")
    database.close()
    commands(agent, f"/resume {agent.session.session_id}")
    text = replied(commands(agent, "/context"))
    assert "Last compaction    Compaction undone: " in text
    assert ". The messages it covers were changed." in text


def test_context_shows_the_tokens_used_by_each_model(commands):
    prices = Prices(input=2.0, cache_read=0.2, cache_write=2.5, output=10.0)
    lines = says("hello " * 300, tokens=900), says("<summary>S</summary>", tokens=100)
    agent = Agent(ScriptedProvider(*lines, prices=prices))
    agent.ask("hi")
    text = replied(commands(agent, "/context"))
    assert "Tokens used        900 in · 10 out · $0.0019" in text
    assert "scripted:model" not in text.partition("Tokens used")[2]
    list(agent.compact())
    text = replied(commands(agent, "/context"))
    assert "  scripted:model   900 in · 10 out · $0.0019" in text
    assert "  Compactions      100 in · 10 out · $0.00030" in text


def test_context_shows_its_size_and_when_it_is_compacted(commands):
    agent = agent_for(commands, says(STORY, tokens=500))
    agent.ask("first")
    text = replied(commands(agent, "/context"))
    assert "500 of 75,000 input tokens" in text
    assert "Messages           2 of 2 sent to the model" in text
    assert re.search(r"  answer +about \d+ tokens expected", text)
    assert "Leaves about" in text


def test_the_threshold_is_shown_set_and_refused(commands):
    agent = agent_for(commands)
    assert "75,000" in replied(commands(agent, "/threshold"))
    assert "2,000" in replied(commands(agent, "/threshold 2_000"))
    with pytest.raises(ConfigError, match="alone"):
        commands(agent, "/threshold 1")
    with pytest.raises(NbchatError, match="needs a number of tokens"):
        commands(agent, "/threshold lots")
    assert agent.engine.context_token_threshold == 2_000


def test_the_session_before_a_new_one_can_be_resumed(commands):
    agent = agent_for(commands, says("one"), says("two"), says("three"))
    agent.ask("first")
    old = agent.session.session_id
    commands(agent, "/new")
    agent.ask("second")
    assert [e.content for e in agent.session.transcript] == ["second", "two"]
    assert old in replied(commands(agent, "/sessions"))
    commands(agent, f"/resume {old}")
    agent.ask("third")
    again = [e.content for e in commands.store.load(old).transcript]
    assert again == ["first", "one", "third", "three"]


def test_a_session_can_be_deleted_unless_it_is_the_current_one(commands):
    agent = agent_for(commands, says("one"), says("two"))
    agent.ask("first")
    old = agent.session.session_id
    with pytest.raises(
        NbchatError, match=r"can't delete the session you're in. Start another"
    ):
        commands(agent, f"/delete {old}")
    commands(agent, "/new")
    with pytest.raises(NbchatError, match="no session 'missing'"):
        commands(agent, "/delete missing")
    assert replied(commands(agent, f"/delete {old}")) == f"Deleted session {old}."
    assert commands.store.sessions() == []


def test_a_session_keeps_the_title_that_it_was_given(commands):
    agent = agent_for(commands, says("one"), says("two"))
    with pytest.raises(StoreError, match="isn't saved yet"):
        replied(commands(agent, "/rename Orders"))
    agent.ask("Where is W100?")
    assert (
        replied(commands(agent, "/rename Orders\n of May"))
        == "Renamed to Orders of May."
    )
    agent.ask("And W101?")
    agent.autosave.save()
    assert [each.title for each in commands.store.sessions()] == ["Orders of May"]
    with pytest.raises(NbchatError, match="needs a title"):
        replied(commands(agent, "/rename  "))


def test_another_session_is_renamed_by_its_id(commands):
    agent = agent_for(commands, says("one"), says("two"))
    agent.ask("Where is W100?")
    old = agent.session.session_id
    commands(agent, "/new")
    agent.ask("And W101?")
    assert replied(commands(agent, f"/rename {old} Old orders")) == (
        "Renamed to Old orders."
    )
    assert replied(commands(agent, "/rename missing Orders")) == (
        "Renamed to missing Orders."
    )
    titles = {each.id: each.title for each in commands.store.sessions()}
    assert titles == {old: "Old orders", agent.session.session_id: "missing Orders"}


@pytest.mark.slow
def test_a_shared_copy_is_opened_without_pins_and_summaries(commands):
    agent = agent_for(commands, says("one"), says("<summary>\nOld.\n</summary>"))
    with pytest.raises(NbchatError, match="nothing to share"):
        replied(commands(agent, "/share"))
    agent.ask(STORY)
    list(agent.pin("Obey me."))
    list(agent.compact())
    shared = replied(commands(agent, "/share"))
    assert "sessions.db" in shared
    _, _, link = shared.partition("/resume ")
    bob = Commands(SessionStore(commands.store.url, owner="bob"))
    reader = agent_for(bob, says("Yes."))
    assert bob.store.sessions() == []
    assert "Opened a copy" in replied(bob(reader, f"/resume {link}"))
    assert reader.session.history == agent.session.transcript
    assert (reader.session.pins, reader.session.compactions) == ((), [])
    reader.ask("Is it so?")
    reader.autosave.save()
    assert len(bob.store.sessions()) == 1
    assert len(agent.session.transcript) == 2
    with pytest.raises(StoreError, match="No shared session"):
        replied(bob(reader, "/resume share:guess"))


def test_branch_sends_its_text_as_it_was_typed(commands):
    agent = agent_for(commands, says("one"), says("two"), says("three"))
    agent.ask("first")
    for line, said in (
        ("/branch 0   two  spaces", "  two  spaces"),
        ("/branch 0 /x\n'y'", "/x\n'y'"),
    ):
        list(commands(agent, line))
        assert agent.session.transcript[0].content == said


def test_the_model_can_be_changed_during_a_conversation(commands):
    agent = agent_for(commands, says("one"))
    agent.ask("first")
    assert replied(commands(agent, "/model")) == "This chat uses scripted:model."
    said = replied(commands(agent, "/model local:smollm2"))
    assert said == "This chat now uses local:smollm2."
    assert agent.engine.tracker.info.window == 8_192
    with pytest.raises(ConfigError, match="has no provider"):
        commands(agent, "/model gpt")
    assert agent.provider.name == "local:smollm2"


def test_again_after_a_failure_answers_the_same_message_in_the_same_session(commands):
    agent = agent_for(commands, fails(RequestRefused("no such model")), says("one"))
    list(agent.run("first"))
    session = agent.session
    assert agent.can_retry
    list(commands(agent, "/again"))
    assert agent.session is session
    assert [e.content for e in session.transcript] == ["first", "one"]
    with pytest.raises(NbchatError, match="has an answer"):
        agent.retry()


def test_again_answers_in_a_new_session_and_keeps_the_old_one(commands):
    agent = agent_for(commands, says("one"), says("two"), says("other two"))
    agent.ask("first")
    agent.ask("second")
    old = agent.session
    result = commands(agent, "/again")
    assert next(result) == Branched(old.session_id)
    list(result)
    assert [e.content for e in agent.session.transcript] == [
        "first",
        "one",
        "second",
        "other two",
    ]
    assert old.transcript[-1].content == "two"
    again = commands.store.load(agent.session.session_id)
    assert again.transcript == agent.session.transcript
    commands(agent, f"/resume {old.session_id}")
    assert agent.session.last_answer == "two"


@pytest.mark.parametrize(
    "line", ["/new", "/resume {}", "/again", "/branch 0 x", "/model local:smollm2"]
)
def test_a_running_turn_keeps_its_session_and_model(commands, line):
    agent = agent_for(commands, says("one"), says("the second answer"))
    agent.ask("first")
    old, provider = agent.session, agent.provider
    turn = agent.run("second")
    next(turn)
    with pytest.raises(NbchatError, match=r"already answering. Wait for the answer"):
        list(commands(agent, line.format(old.session_id)))
    list(turn)
    assert (agent.session, agent.provider) == (old, provider)
    kept = [e.content for e in commands.store.load(old.session_id).transcript]
    assert kept == ["first", "one", "second", "the second answer"]
    assert [info.id for info in commands.store.sessions()] == [old.session_id]


@pytest.mark.slow
def test_a_session_that_continues_in_another_notebook_belongs_to_it(
    commands, monkeypatch
):
    store = commands.store
    save_session(store, Session([("user", "imported")], session_id="fromfile"))
    monkeypatch.setenv("JPY_SESSION_NAME", "b.ipynb")
    agent = agent_for(commands, says("one"), says("two"))
    agent.ask("first")
    old = agent.session.session_id
    commands(agent, "/resume fromfile")
    commands(agent, f"/resume {old}")
    assert [s.id for s in store.sessions() if s.notebook == "b.ipynb"] == [old]
    commands(agent, "/resume fromfile")
    agent.ask("second")
    assert newest_session(store).transcript == agent.session.transcript
    assert agent.session.transcript[0].content == "imported"
    monkeypatch.setenv("JPY_SESSION_NAME", "")
    commands(agent, "/resume fromfile")
    agent.ask("third")
    assert next(s.id for s in store.sessions() if s.notebook == "b.ipynb") == "fromfile"


class Flaky(SessionStore):
    """A store that another program locks for a while."""

    is_locked = False

    def add_entries(self, *arguments: Any) -> None:
        if self.is_locked:
            raise StoreError("the session store failed: database is locked")
        super().add_entries(*arguments)


@pytest.fixture
def flaky(tmp_path: Path) -> Commands:
    return Commands(Flaky(f"sqlite:///{tmp_path / 'sessions.db'}"))


@pytest.mark.parametrize("line", ["/new", "/resume {}", "/again third"])
def test_unsaved_entries_are_saved_before_another_session_starts(flaky, line):
    agent = agent_for(flaky, says("one"), says("two"), says("again two"))
    agent.ask("first")
    old = agent.session
    flaky.store.is_locked = True
    assert SavingFailed in map(type, agent.run("second"))
    flaky.store.is_locked = False
    list(flaky(agent, line.format(old.session_id)))
    assert agent.session is not old
    assert flaky.store.load(old.session_id).transcript == old.transcript


def test_another_session_starts_and_reports_that_the_old_one_is_not_saved(flaky):
    agent = agent_for(flaky, says("one"))
    flaky.store.is_locked = True
    agent.ask("first")
    _reply, failed = flaky(agent, "/new")
    assert failed.reason.startswith("the session store failed: database is locked")
    assert "Not saved since" in failed.reason
    assert agent.session.transcript == []


def test_leaving_a_session_that_another_kernel_took_reports_nothing(commands):
    agent = agent_for(commands, says("one"), says("two"))
    agent.ask("first")
    twin = Agent(ScriptedProvider(says("ours")))
    commands(twin, f"/resume {agent.session.session_id}")
    twin.ask("mine")
    assert SavingFailed in map(type, agent.run("second"))
    assert [type(event) for event in commands(agent, "/new")] == [CommandReplied]


@pytest.mark.parametrize("line", ["/new", "/again"])
def test_a_session_without_a_store_is_saved_when_another_starts(commands, line):
    agent = Agent(ScriptedProvider(says("one"), says("two")))
    agent.ask("first")
    old = agent.session
    list(commands(agent, line))
    assert agent.session is not old
    assert commands.store.load(old.session_id).transcript == old.transcript


def test_branch_replaces_an_earlier_message_and_continues_from_it(commands):
    agent = agent_for(commands, says("one"), says("two"), says("another"))
    list(agent.pin("Be brief."))
    agent.ask("first")
    agent.ask("second")
    list(commands(agent, "/branch 0 something else"))
    assert [e.content for e in agent.session.transcript] == [
        "something else",
        "another",
    ]
    assert agent.session.pins == ("Be brief.",)
    assert agent.engine.tracker.context_tokens(agent.session) == (
        agent.session.usages[-1][1].context_tokens
    )
    assert commands.store.load(agent.session.session_id).pins == ("Be brief.",)


def test_a_branch_from_before_a_compaction_has_the_original_messages(commands):
    lines = says(STORY), says(STORY), says("<summary>short</summary>"), says("new")
    agent = agent_for(commands, *lines)
    agent.ask("first")
    agent.ask("second")
    list(agent.compact())
    list(commands(agent, "/branch 2"))
    assert [e.role for e in agent.session.history] == ["user", "assistant"] * 2
    assert agent.session.history == agent.session.transcript


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/branch", "/branch needs the number of one of your messages"),
        (
            "/branch 1 text",
            "Message 1 isn't yours. Your last one is message",
        ),
        ("/branch 99", "Message 99 isn't yours"),
        ("/branch -1", "/branch needs the number"),
    ],
)
def test_an_invalid_position_changes_nothing(commands, line, said):
    agent = agent_for(commands, says("one"))
    agent.ask("first")
    before = agent.session
    with pytest.raises(NbchatError, match=said):
        commands(agent, line)
    assert agent.session is before
    with pytest.raises(NbchatError, match="There are no messages yet"):
        commands(agent_for(commands), "/again")


@pytest.mark.parametrize(
    "line",
    ["/policy tiered", "/threshold 300", "/model local:smollm2", "/set policy off"],
)
def test_no_command_changes_a_locked_setting(commands, tmp_path, line):
    folder = tmp_path / "jupyter-config" / "nbchat_config.d"
    folder.mkdir(parents=True)
    values = {"policy": "early", "context_token_threshold": 9_000, "model": "openai:x"}
    site = {"NbChat": values, "locked": list(values)}
    (folder / "50-site.json").write_text(json.dumps(site))
    agent = agent_for(commands)
    with pytest.raises(ConfigError, match=r"is locked to .* by .*50-site.json"):
        commands(agent, line)
    assert agent.engine.policy.name == "single-summary"
    assert agent.provider.name == "scripted:model"


def test_the_parts_of_the_context_add_up_to_its_size(commands):
    lines = says(STORY, tokens=900), says("<summary>short</summary>"), says("two")
    agent = agent_for(commands, *lines)
    agent.ask("first")
    list(commands(agent, "/compact"))
    agent.ask("second")
    rows = replied(commands(agent, "/context")).splitlines()
    sizes = {row[:18].rstrip(): row[18:] for row in rows}
    total = int(sizes["Context"].split()[0].replace(",", ""))
    parts = [
        int(sizes[f"  {name}"].split()[0].replace(",", "")) for name in LABELS.values()
    ]
    assert sum(parts) == total > 0
