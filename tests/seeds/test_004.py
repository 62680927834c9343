"""Document 004, "Conversation History Compression Requirements", as `token-window`.

Every requirement has a test of its number, but for these:

- FR-1.1.2, 3.3.1 for Google: the tests of the Gemini provider hold them.
- FR-1.2.2 as a flat share: room for the answer and the margin come off it (FR-1.2.4).
- FR-1.5.1, "as a system message": a summary is told as data in the user's voice, since
  old words must not gain the authority of a system prompt.
- FR-2.1.1, 2.1.2, 2.3.1, 3.1.3, 6.1.1's colours, 6.2, 6.3.1's view: the panel's dialogs
  and colours are tested with the panel, here what they show.
- FR-4.1.3, `isSummarized`: optional, and told by the newest snapshot's cut.
- FR-4.3.1, fetching N messages: a session is loaded once, whole, as all of it can be
  viewed; what is sent is then kept up to date and never queried again (NFR-7.3).
- FR-4.3.2, indexes on timestamps: entries are ordered by place, and that is indexed.
- NFR-7.5, asynchronous counting: turns run in a thread of their own, the whole of them.
- Open question 1, A/B tests of prompts, and the metric "user satisfaction": no code.
- Open question 4, a default summarization model per provider: the chat's own model
  reads the conversation from its cache; another one is a setting per provider.
- Open question 5, pinning: out of scope there; it exists and has tests of its own.
- Open question 7, phase 3, linking sessions by a model: called a future enhancement.

The document's windows of GPT-4 (32K) and Claude Sonnet 4.5 (1M, beta) are not those
that the vendors' price lists give, and those count.
"""

import gzip
import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import pytest
import sqlalchemy as sa
import tiktoken
from driving import finished, replied
from fault_server import AnthropicDialect, FaultServer, OpenAIDialect, answer, failure
from panel_views import Panel
from trajectories import read_trajectories

from nbchat.agent.agent import Agent
from nbchat.chat.commands import Commands
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import PRESETS
from nbchat.compaction.summary_format import summary_text
from nbchat.config.layers import settings
from nbchat.conversation.entries import Compaction, Entry, Usage
from nbchat.conversation.events import (
    Compacted,
    CompactionFailed,
    CompactionProgress,
    CompactionSkipped,
    CompactionStarted,
    Event,
    TurnFailed,
    TurnFinished,
)
from nbchat.conversation.session import Session
from nbchat.conversation.turns import count_messages
from nbchat.errors import ContextOverflow, Stopped
from nbchat.providers.anthropic import AnthropicProvider
from nbchat.providers.base import Provider, Request
from nbchat.providers.model_info import model_info
from nbchat.providers.openai_chat import OpenAIProvider
from nbchat.providers.tokens import ENTRY_OVERHEAD, TokenCounter, load_encoding
from nbchat.rendering.banners import compaction_html, compaction_text, divider_html
from nbchat.rendering.entries import entry_html
from nbchat.storage.database import engine_for
from nbchat.storage.factory import autosave_of, build_agent
from nbchat.storage.saved_settings import with_saved_settings
from nbchat.storage.session_log import session_log
from nbchat.storage.store import SessionStore
from nbchat.testing import Line, ScriptedProvider, ScriptedReply, calls, fails, says

WINDOW = 20_000
GUARD = 14_108
"""95 % of the window less the 4,096 tokens of an answer, less 5 % of the window."""

TOLD = "The customer asks where the order is; the parcel is late and now in Lisbon."
SUMMARY = says(f"<summary>{TOLD}</summary>")
KEY = "sk-canary-004"
COUNTER = TokenCounter()
DATA = Path(__file__).parents[1] / "data"
DIALECTS = {"openai": OpenAIDialect(), "anthropic": AnthropicDialect()}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@pytest.fixture
def store(file: Path) -> Iterator[SessionStore]:
    store = SessionStore(f"sqlite:///{file}")
    yield store
    store.close()


def text(tokens: int, word: str = "word") -> str:
    """A text whose entry has exactly so many tokens."""
    return " ".join([word] * (tokens - ENTRY_OVERHEAD))


def said(*sizes: int) -> Session:
    """A conversation of messages of these sizes that ends with an answer."""
    roles = ("assistant", "user")
    places = range(len(sizes))[::-1]
    return Session(
        [(roles[n % 2], text(size)) for n, size in zip(places, sizes, strict=True)]
    )


def tells(request: Request) -> Line:
    """A model that answers, and writes a good summary when it is asked for one."""
    return SUMMARY if request.answer_tag else says("It is in Lisbon.")


def chat(
    *lines: ScriptedReply,
    session: Session | None = None,
    store: SessionStore | None = None,
    window: int | None = WINDOW,
    policy: str = "token-window",
    **options: Any,
) -> Agent:
    """A real agent under the policy whose model follows a script, or always tells."""
    provider = ScriptedProvider(*(lines or [tells] * 500), window=window)
    engine = CompactionEngine(policy=policy)
    if store is None:
        return Agent(provider, engine=engine, session=session, **options)
    agent = Agent(provider, engine=engine, **options)
    agent.autosave = autosave_of(store, agent.session, agent)
    for entry in session.transcript if session else ():
        agent.session.append(entry)
    return agent


def connected(server: FaultServer, kind: str, window: int = WINDOW) -> Provider:
    """A real client of an API, talking to a server here."""
    if kind == "openai":
        address = f"{server.url}/v1"
        return OpenAIProvider(
            "gpt-4o", base_url=address, api_key=lambda: KEY, window=window
        )
    return AnthropicProvider(
        "claude-haiku-4-5", base_url=server.url, api_key=lambda: KEY, window=window
    )


def made(events: list[Event]) -> list[Compaction]:
    return [event.compaction for event in events if isinstance(event, Compacted)]


def by_hand(agent: Agent, **options: Any) -> Compaction:
    """The record of a compaction that a user asked for."""
    return made(list(agent.compact(**options)))[0]


def summary_requests(agent: Agent) -> list[Request]:
    return [each for each in agent.provider.requests if each.answer_tag]


def chat_requests(agent: Agent) -> list[Request]:
    return [each for each in agent.provider.requests if not each.answer_tag]


def contents(entries: Any) -> list[str]:
    return [entry.content for entry in entries]


def rows(file: Path, query: str) -> list[Any]:
    database = sqlite3.connect(file)
    try:
        return database.execute(query).fetchall()
    finally:
        database.close()


def real_messages(name: str) -> list[Entry]:
    """What people said in meetings, or in chats."""
    lines = gzip.decompress((DATA / f"{name}.jsonl.gz").read_bytes()).splitlines()
    messages = [each for line in lines for each in json.loads(line)["messages"]]
    return [Entry(each["role"], each["content"]) for each in messages]


def real_text() -> str:
    """What people wrote to assistants, in many words."""
    return "\n".join(contents(real_messages("chats_oasst")))


def real_runs(count: int) -> list[Entry]:
    """A long real conversation with tools: so many, one after the other."""
    runs = read_trajectories()[:count]
    return [entry for run in runs for entry in run.entries]


def a_thousand_messages() -> list[Entry]:
    """Real ones, those of the longest tool work among them."""
    return [*real_messages("meetings_qmsum"), *real_runs(23)][-1_000:]


# 1.1 Token counting


def test_fr_1_1_1_the_context_is_counted_before_each_request():
    def read_page(number: int) -> str:
        """Read a page."""
        return text(4_000, f"p{number}")

    def reads(request: Request) -> Line:
        if request.answer_tag:
            return SUMMARY
        done = len(chat_requests(agent))
        return calls("read_page", number=done) if done < 8 else says("All read.")

    agent = chat(*[reads] * 50, tools=[read_page])
    events = list(agent.run("Read eight pages."))
    assert len(made(events)) >= 2
    assert isinstance(events[-1], TurnFinished)
    sizes = [agent.provider.count_tokens(each) for each in chat_requests(agent)]
    assert max(sizes) < GUARD
    assert len(sizes) == 8


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("gpt-4o", "o200k_base"),
        ("gpt-4o-mini", "o200k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("gpt-4", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
    ],
)
def test_fr_1_1_2_openai_is_counted_by_tiktoken(model: str, encoding: str):
    provider = OpenAIProvider(model, api_key=lambda: KEY)
    agent = Agent(provider, engine=CompactionEngine(policy="token-window"))
    sample = real_text()[:15_000]
    exact = len(load_encoding(encoding).encode_ordinary(sample))
    assert agent.engine.tracker.counter.count(sample) == exact
    counted = agent.engine.tracker.counter.count_entry(Entry("user", sample))
    assert counted == exact + ENTRY_OVERHEAD


@pytest.mark.parametrize(("counted", "compacted"), [(15_000, [15_000]), (11_000, [])])
def test_fr_1_1_2_anthropic_is_counted_by_its_own_api(
    server: FaultServer, counted: int, compacted: list[int]
):
    wire = DIALECTS["anthropic"]
    summaries = [wire.text(f"<summary>{TOLD}</summary>") for _ in compacted]
    replies = [*summaries, wire.text("Yes.")]
    server.script(answer({"input_tokens": counted}), *replies)
    agent = Agent(
        connected(server, "anthropic"),
        engine=CompactionEngine(policy="token-window"),
        session=said(6_000, 6_000),
    )
    records = made(list(agent.run("And now?")))
    assert server.requests[0].path == "/v1/messages/count_tokens"
    assert [each.tokens_before for each in records] == compacted
    assert agent.session.last_answer == "Yes."


@pytest.mark.parametrize(
    "entry",
    [
        Entry("user", "Where is my order W100? It was sent on Monday."),
        Entry("assistant", "It left Lisbon on Tuesday and comes tomorrow."),
        Entry("assistant", "", "c1", "look_up", '{"order": "W100", "fields": ["all"]}'),
        Entry("tool", '{"order": "W100", "city": "Lisbon", "late": true}', "c1", "up"),
        Entry("user", "", "", "file", '{"name": "a long name.pdf", "data": ""}'),
    ],
    ids=["user", "assistant", "tool input", "tool output", "attachment"],
)
def test_fr_1_1_3_every_part_of_a_message_is_counted(entry: Entry):
    engine, session = CompactionEngine(policy="token-window"), said(100, 100)
    before = engine.tracker.context_tokens(session)
    session.append(entry)
    words = entry.tool_args or entry.content
    assert engine.tracker.context_tokens(session) - before >= COUNTER.count(words)


def attachment(data: str, name: str = "report.pdf") -> Entry:
    about = {"name": name, "media_type": "application/pdf", "data": data}
    return Entry("user", "", "", "file", json.dumps(about))


def test_fr_1_1_3_attachments_count_by_name_type_and_size_not_by_content():
    small, large = attachment("aGk="), attachment("aGk=" * 500_000)
    assert 10 < COUNTER.count_entry(small) < 60
    assert abs(COUNTER.count_entry(large) - COUNTER.count_entry(small)) <= 3
    renamed = attachment("aGk=", "the report of the second quarter, corrected.pdf")
    assert COUNTER.count_entry(renamed) > COUNTER.count_entry(small)


def test_fr_1_1_4_and_4_1_1_token_counts_are_kept_with_the_message(
    store: SessionStore, file: Path
):
    agent = chat(says("In Lisbon.", tokens=321), store=store)
    agent.ask("Where is W100?")
    found = rows(file, "SELECT role, input_tokens, output_tokens FROM chat_messages")
    assert found == [("user", None, None), ("assistant", 321, 10)]
    counts = [number for (number,) in rows(file, "SELECT tokens FROM chat_messages")]
    assert all(counts)
    loaded = store.load(agent.session.session_id)
    assert loaded.usages == [(2, Usage(321, 10, model="scripted:model"))]


# 1.2 Compression trigger


@pytest.mark.parametrize(("tokens", "trigger"), [(GUARD - 1, ""), (GUARD, "window")])
def test_fr_1_2_1_it_triggers_when_the_context_reaches_its_share(
    tokens: int, trigger: str
):
    agent = chat(session=said(3_000, 3_000))
    agent.engine.update_token_count(Usage(tokens, 0), position=2)
    assert agent.engine.should_compact(agent.session).trigger == trigger


def test_fr_1_2_2_the_default_is_95_percent():
    policy = PRESETS["token-window"]
    assert (policy.window_share, policy.margin_share) == (0.95, 0.05)
    agent = chat(window=1_000_000)
    assert agent.engine.tracker.limits.guard == int((1_000_000 - 4_096) * 0.95) - 50_000


def built(store: SessionStore, model: str, **options: Any) -> Agent:
    """An agent as the settings say, for a compatible server that is not asked."""
    config = settings(
        model=model,
        base_url="http://127.0.0.1:9/v1",
        policy="token-window",
        **{k: v for k, v in {"window": WINDOW, **options}.items() if v is not None},
    )
    return build_agent(config, store=store)


def set_for_good(store: SessionStore, agent: Agent, *lines: str) -> None:
    commands = Commands(store, settings(policy="token-window"))
    for line in lines:
        commands(agent, line)


def test_fr_1_2_3_the_threshold_is_set_per_provider_and_model(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    set_for_good(
        store,
        chat(),
        "/set window 90000",
        "/set window 80000 for openai",
        "/set window 70000 for openai:gpt-4o",
    )
    for model, window in [
        ("openai:gpt-4o", 70_000),
        ("openai:gpt-3.5-turbo", 80_000),
        ("anthropic:claude-sonnet-4-5", 90_000),
    ]:
        agent = built(store, model, window=None)
        limits = agent.engine.tracker.limits
        assert agent.engine.tracker.info.window == window
        assert limits.guard == int(limits.usable_window * 0.95) - window // 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("window", "longest"), [(20_000, None), (20_000, 5_000), (200_000, 32_000)]
)
def test_fr_1_2_4_the_window_has_space_for_input_answer_and_margin(
    window: int, longest: int | None
):
    def tells_much(request: Request) -> Line:
        return SUMMARY if request.answer_tag else says(text(window // 20))

    agent = chat(*[tells_much] * 200, window=window, max_output_tokens=longest)
    for _ in range(20):
        agent.ask(text(window // 20))
    assert len(agent.session.compactions) >= 1
    answer_tokens, margin = longest or 4_096, window * 0.05
    for request in chat_requests(agent):
        size = agent.provider.count_tokens(request)
        assert size + answer_tokens + margin <= window


# 1.3 Message retention strategy


def test_fr_1_3_1_and_1_3_2_the_newest_1000_tokens_stay():
    policy = PRESETS["token-window"]
    assert (policy.keep, policy.keep_unit) == (1_000, "tokens")
    agent = chat(session=said(9_000, 5_000, 500, 500))
    list(agent.run("And?"))
    summary, *recent = agent.session.history
    assert summary.role == "summary"
    assert recent[:2] == list(agent.session.transcript[2:4])


def test_fr_1_3_3_the_retention_is_a_setting(store: SessionStore):
    agent = built(store, "openai:gpt-4o", policies={"token-window": {"keep": 400}})
    plan = agent.engine.plan(said(3_000, 300, 300, 300), trigger="window")
    assert contents(plan.recent) == [text(300)]


@pytest.mark.parametrize(
    ("newest", "kept"),
    [
        ((200, 300, 300, 300), 3),  # 900 fit, 1,100 do not
        ((100, 300, 300, 300), 4),  # exactly 1,000
        ((101, 300, 300, 300), 3),
        ((300, 1_001), 0),
        ((10,) * 90, 90),
    ],
)
def test_fr_1_3_4_as_many_messages_stay_as_fit_the_budget(
    newest: tuple[int, ...], kept: int
):
    session = said(9_000, 3_000, *newest)
    plan = CompactionEngine(policy="token-window").plan(session, trigger="window")
    assert count_messages(plan.recent) == kept
    assert list(plan.recent) == session.history[len(session.history) - kept :]


def test_fr_1_3_5_all_that_is_older_is_summarized():
    session = said(900, 4_000, 30, 4_000, 600, 300)
    plan = CompactionEngine(policy="token-window").plan(session, trigger="window")
    assert list(plan.covered) == session.history[:4]


# 1.4 Summarization process


def compacted_twice(store: SessionStore | None = None) -> Agent:
    """A chat that was compacted by itself two times, about different things."""
    stories = iter(["Order W100 is in Lisbon.", "Order W200 is in Porto, W100 came."])
    answers = iter([text(8_000, "alpha"), "ok", text(9_000, "beta"), "ok"])

    def line(request: Request) -> Line:
        if request.answer_tag:
            return says(f"<summary>{next(stories)}</summary>")
        return says(next(answers))

    agent = chat(*[line] * 20, store=store)
    agent.ask("Tell me of W100.")
    agent.ask(text(7_000, "gamma"))
    agent.ask("Tell me of W200.")
    agent.ask(text(7_000, "delta"))
    return agent


def test_fr_1_4_1_what_is_older_becomes_one_summary_message():
    agent = compacted_twice()
    assert [e.role for e in agent.session.history] == ["summary", "user", "assistant"]


def test_fr_1_4_2_a_second_summary_is_made_of_the_first_and_what_came_since():
    agent = compacted_twice()
    first, second = (each.history[0].content for each in summary_requests(agent))
    assert "alpha alpha" in first
    assert "<previous_summary>\nOrder W100 is in Lisbon." in second
    assert "gamma gamma" in second
    assert "beta beta" in second
    assert "alpha" not in second
    assert "Update the previous summary" in second


def test_fr_1_4_3_the_model_of_the_chat_is_asked(server: FaultServer):
    wire = DIALECTS["openai"]
    server.script(wire.text(f"<summary>{TOLD}</summary>"))
    agent = Agent(
        connected(server, "openai"),
        engine=CompactionEngine(policy="token-window"),
        session=said(3_000, 3_000),
    )
    record = by_hand(agent)
    assert server.requests[0].body["model"] == "gpt-4o"
    assert record.model == "openai:gpt-4o"
    assert summary_text(record.summary) == TOLD


@pytest.mark.parametrize(
    "asked",
    [
        "Context (what it is about",
        "Key points (facts",
        "events in the order in which they happened",
        "Technical details (code that matters",
        "Decisions and outcomes",
        "Unresolved questions",
        "calls of tools and what they gave",
        "Be concise",
        "leave out pleasantries",
        "Write in the third person",
    ],
)
def test_fr_1_4_4_the_prompt_says_what_to_preserve(asked: str):
    agent = chat(session=said(3_000, 3_000))
    request = agent.engine.create_summary_request(agent.engine.plan(agent.session))
    told = f"{request.system} {request.history[0].content}"
    assert asked in " ".join(told.split())


SNAPSHOTS = (
    "SELECT kind, content_json, message_cutoff_id, token_count FROM session_snapshots "
    "ORDER BY number DESC"
)


def test_fr_1_4_5_and_4_1_2_the_summary_is_a_snapshot(store: SessionStore, file: Path):
    agent = chat(store=store, session=said(9_000, 5_000, 300, 300))
    (record,) = made(list(agent.run("And?")))
    kind, content, cutoff, tokens = rows(file, SNAPSHOTS)[0]
    assert kind == "summary"
    assert TOLD in json.loads(content)["summaryText"]
    assert cutoff == 1
    last = rows(file, f"SELECT content FROM chat_messages WHERE position = {cutoff}")
    assert last == [(agent.session.transcript[1].content,)]
    assert tokens == COUNTER.count_entry(record.entry)


def test_4_1_2_no_row_of_the_kind_summary_is_empty(store: SessionStore, file: Path):
    agent = chat(*[says("no")] * 4, store=store, session=said(9_000, 5_000, 300))
    list(agent.compact())
    agent.use(chat().provider)
    list(agent.compact())
    list(agent.undo_compaction())
    kinds = [kind for kind, *_ in reversed(rows(file, SNAPSHOTS))]
    assert kinds == ["running", "failed", "running", "summary", "undone"]
    loaded = store.load(agent.session.session_id)
    assert loaded.compactions == agent.session.compactions


def test_fr_1_4_6_originals_stay_in_the_database_and_out_of_the_context(
    store: SessionStore, file: Path
):
    agent = chat(store=store, session=said(9_000, 5_000, 300, 300))
    before = contents(agent.session.transcript)
    list(agent.run("And?"))
    kept = rows(file, "SELECT content FROM chat_messages ORDER BY position")
    assert [each for (each,) in kept][:4] == before
    sent = contents(chat_requests(agent)[-1].history)
    assert before[0] not in sent
    assert before[1] not in sent
    loaded = store.load(agent.session.session_id)
    assert loaded.history == agent.session.history


# 1.5 Context construction after compression


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_fr_1_5_1_the_request_is_summary_then_recent_then_input(
    server: FaultServer, kind: str
):
    wire = DIALECTS[kind]
    server.script(wire.text(f"<summary>{TOLD}</summary>"), wire.text("Yes."))
    agent = Agent(
        connected(server, kind, 200_000),
        engine=CompactionEngine(policy="token-window"),
        session=said(9_000, 5_000, 300, 301),
    )
    by_hand(agent, keep=1_000)
    agent.ask("Is it late?")
    sent = [
        json.dumps(each["content"]) for each in server.requests[-1].body["messages"]
    ]
    joined = "\n".join(sent)
    places = [
        joined.index(each)
        for each in ("<conversation_summary>", TOLD, text(301), "Is it late?")
    ]
    assert places == sorted(places)
    assert text(5_000) not in joined


def test_fr_1_5_2_all_summaries_are_kept(store: SessionStore):
    agent = compacted_twice(store)
    loaded = store.load(agent.session.session_id)
    done = [each for each in loaded.compactions if each.status == "done"]
    told = [summary_text(each.summary) for each in done]
    assert told == ["Order W100 is in Lisbon.", "Order W200 is in Porto, W100 came."]


def test_fr_1_5_3_the_newest_summary_is_the_one_that_is_sent():
    agent = compacted_twice()
    sent = chat_requests(agent)[-1].history
    told = [summary_text(each.content) for each in sent if each.role == "summary"]
    assert told == ["Order W200 is in Porto, W100 came."]


# 1.6 User notification


def test_fr_1_6_1_and_1_6_2_a_notice_says_how_much_was_compacted_and_is_left():
    agent = chat(session=said(9_000, 5_000, 300, 300))
    (record,) = made(list(agent.run("And?")))
    text_of_notice = compaction_text(record)
    assert "2 messages compacted" in text_of_notice
    assert (
        f"{record.tokens_before:,} → {record.tokens_after:,} tokens" in text_of_notice
    )
    held = agent.engine.tracker.fixed_tokens + COUNTER.count_entries(
        agent.session.history[:4]
    )
    assert record.tokens_after == pytest.approx(held, abs=50)


def test_fr_1_6_3_the_summary_can_be_read(store: SessionStore):
    agent = chat(session=said(9_000, 5_000, 300, 300))
    list(agent.run("And?"))
    assert replied(Commands(store)(agent, "/edit")) == TOLD
    assert TOLD in compaction_html(agent.session.compaction)


def test_fr_1_6_4_notices_can_be_switched_off_for_good(store: SessionStore):
    config = settings()
    assert with_saved_settings(config, store).notifications is True
    set_for_good(store, chat(), "/set notifications false")
    assert with_saved_settings(config, store).notifications is False


# 2.1 Manual trigger


@pytest.mark.parametrize("name", ["compact", "summarize"])
def test_fr_2_1_1_and_2_1_3_a_labelled_action_compacts_now(
    store: SessionStore, name: str
):
    commands, agent = Commands(store), chat(session=said(3_000, 3_000))
    assert f"/{name} [keep=N|upto=N] [focus]" in replied(commands(agent, "/help"))
    assert made(list(commands(agent, f"/{name}")))


# 2.2 Compression scope


def test_fr_2_2_1_by_hand_all_messages_are_summarized():
    agent = chat(session=said(3_000, 3_000, 200, 200))
    record = by_hand(agent)
    assert [entry.role for entry in agent.session.history] == ["summary"]
    assert (record.start, record.stop) == (0, 4)


def test_fr_2_2_2_another_retention_can_be_asked_for(store: SessionStore):
    agent = chat(session=said(3_000, 3_000, 200, 201))
    list(Commands(store)(agent, "/compact keep=300 the order"))
    assert contents(agent.session.history[1:]) == [text(201)]
    assert "Pay special attention to: the order" in asked(agent)


def asked(agent: Agent) -> str:
    return summary_requests(agent)[-1].history[0].content


def test_fr_2_2_3_a_new_comprehensive_summary_replaces_the_old_one(
    store: SessionStore,
):
    both = "The order is in Lisbon; the customer now asks about W200, too."
    lines = [SUMMARY, says(text(400)), says(f"<summary>{both}</summary>")]
    agent = chat(*lines, session=said(3_000, 3_000), store=store)
    by_hand(agent)
    agent.ask(text(300, "W200"))
    record = by_hand(agent)
    assert TOLD in asked(agent)
    assert "W200 W200" in asked(agent)
    assert [summary_text(each.content) for each in agent.session.history] == [both]
    old = [each for each in agent.session.compactions if TOLD in each.summary]
    assert old
    assert old[-1].id != record.id


# 2.3 User confirmation


def test_fr_2_3_1_and_2_3_2_beforehand_it_says_what_would_happen(store: SessionStore):
    agent = chat(session=said(3_000, 3_000, 200, 200))
    before = agent.session.history
    plan = agent.engine.plan(agent.session, keep=400)
    shown = replied(Commands(store)(agent, "/plan keep=400"))
    assert len(agent.session.transcript) == 4
    assert plan.stop - plan.start == 2
    assert "A summary would replace 2 messages, and 2 would stay" in shown
    assert f"6,400 → about {plan.tokens_after:,} tokens" in shown
    assert agent.session.history == before
    assert agent.provider.requests == []
    record = by_hand(agent, keep=400)
    assert record.tokens_after <= plan.tokens_after < plan.tokens_before


def test_fr_2_3_3_a_person_can_cancel():
    agent, stop = chat(session=said(3_000, 3_000)), threading.Event()
    before = agent.session.history
    work = agent.compact(stop=stop)
    assert isinstance(next(work), CompactionStarted)
    stop.set()
    with pytest.raises(Stopped):
        list(work)
    assert agent.session.history == before
    assert [each.status for each in agent.session.compactions] == ["failed"]
    assert agent.ask("Where is it?") == "It is in Lisbon."


# 2.4 Summarization process


def test_fr_2_4_1_by_hand_it_is_the_same_process(store: SessionStore, file: Path):
    agent = chat(session=said(3_000, 3_000), store=store)
    agent.ask("Where is it?")
    by_hand(agent)
    (_, content, _, _), *_ = rows(file, SNAPSHOTS)
    assert json.loads(content)["compressionType"] == "manual"
    assert "Key points" in asked(agent)
    assert agent.session.transcript[0].content == text(3_000)


def test_fr_2_4_2_progress_is_shown_part_by_part():
    sizes = [1_000] * 40
    agent = chat(session=said(*sizes), window=8_000)
    events = list(agent.compact())
    assert isinstance(events[0], CompactionStarted)
    progress = [each for each in events if isinstance(each, CompactionProgress)]
    assert [each.done for each in progress] == list(range(progress[0].total))
    assert progress[0].total > 2
    assert isinstance(events[-1], Compacted)


def test_fr_2_4_3_the_end_is_shown_with_status_preview_and_reduction():
    long_story = TOLD * 4
    agent = chat(says(f"<summary>{long_story}</summary>"), session=said(3_000, 3_000))
    record = by_hand(agent)
    assert record.status == "done"
    assert summary_text(record.summary)[:200] == long_story[:200]
    assert record.tokens_before - record.tokens_after > 5_000
    line = divider_html(record).partition("</summary>")[0]
    assert f"{long_story[:200]}…" in line
    assert "2 messages, " in line
    failing = chat(*[says("no")] * 9, session=said(3_000, 3_000))
    last = list(failing.compact())[-1]
    assert isinstance(last, CompactionFailed)
    assert (last.compaction.status, last.compaction.code) == ("failed", "no-tags")


# 2.5 Post-compression state


def test_fr_2_5_1_later_requests_use_the_compressed_context():
    agent = chat(session=said(3_000, 3_000))
    by_hand(agent)
    agent.ask("Where is it?")
    agent.ask("And now?")
    for request in chat_requests(agent):
        assert TOLD in request.history[0].content
        assert text(3_000) not in contents(request.history)
        assert agent.provider.count_tokens(request) < 1_500


def test_fr_2_5_2_the_whole_summary_can_be_read_at_any_time(store: SessionStore):
    agent = chat(session=said(3_000, 3_000), store=store)
    by_hand(agent)
    for _ in range(3):
        agent.ask("Where is it?")
    assert replied(Commands(store)(agent, "/edit")) == TOLD
    loaded = chat(session=store.load(agent.session.session_id))
    assert replied(Commands(store)(loaded, "/edit")) == TOLD


def test_fr_2_5_3_the_originals_stay_accessible(store: SessionStore):
    session = Session([("user", "Where is W100?"), ("assistant", text(3_000))])
    agent = chat(session=session)
    by_hand(agent)
    assert agent.session.transcript[0].content == "Where is W100?"
    assert "Where is W100?" in replied(Commands(store)(agent, "/recall 0"))


# 3.1 Compression settings


def full(agent: Agent) -> bool:
    """True if a context at the guard's limit would be compacted."""
    agent.engine.update_token_count(Usage(GUARD, 0), position=0)
    return bool(agent.engine.should_compact(Session()))


def test_fr_3_1_1_automatic_compression_is_switched_per_session_and_globally(
    store: SessionStore,
):
    agent, other = chat(), chat()
    commands = Commands(store, settings(policy="token-window"))
    before = agent.engine.policy
    agent.session.session_id = "one"
    commands(agent, "/set automatic false for session")
    assert agent.engine.policy == replace(before, meter="off")
    assert not full(agent)
    assert full(other)
    set_for_good(store, chat(), "/set automatic false")
    assert not full(built(store, "openai:gpt-4o"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("automatic", "false"),
        ("context_token_threshold", "9000"),
        ("max_output_tokens", "500"),
        ("notifications", "false"),
    ],
)
def test_fr_3_1_1_to_3_1_3_settings_are_listed_and_kept_in_the_database(
    store: SessionStore, file: Path, name: str, value: str
):
    commands, agent = Commands(store, settings(policy="token-window")), chat()
    assert f"\n{name} " in replied(commands(agent, "/settings"))
    commands(agent, f"/set {name} {value}")
    kept = rows(file, "SELECT scope, name, value_json FROM settings")
    stored = f'"{value}"' if name == "automatic" else value
    assert kept == [("", name, stored)]
    again = SessionStore(f"sqlite:///{file}")
    shown = replied(Commands(again, settings())(chat(), "/settings")).splitlines()
    again.close()
    (line,) = [each for each in shown if each.startswith(name[:15])]
    assert line.split()[1:] == [value, "set", "for", "all", "models"]


# 3.2 Model-specific configuration


@pytest.mark.parametrize(
    ("provider", "name", "window"),
    [
        ("openai", "gpt-4o", 128_000),
        ("openai", "gpt-4-turbo", 128_000),
        ("openai", "gpt-4", 8_192),
        ("openai", "gpt-3.5-turbo", 16_385),
        ("anthropic", "claude-sonnet-4-5", 200_000),
        ("anthropic", "claude-3-5-sonnet-20241022", 200_000),
        ("anthropic", "claude-3-opus-20240229", 200_000),
        ("anthropic", "claude-3-haiku-20240307", 200_000),
        ("gemini", "gemini-2.5-pro", 1_048_576),
        ("gemini", "gemini-2.5-flash", 1_048_576),
    ],
)
def test_fr_3_2_1_window_output_and_tokenization_of_models_are_known(
    provider: str, name: str, window: int
):
    info = model_info(name, provider=provider)
    assert info.window == window
    assert 0 < info.output_reserve <= window // 4
    assert isinstance(load_encoding(info.encoding), tiktoken.Encoding)


@pytest.mark.parametrize(
    ("provider", "name", "longest"),
    [
        ("openai", "gpt-4o", 16_384),
        ("openai", "gpt-4-turbo", 4_096),
        ("openai", "gpt-3.5-turbo", 4_096),
        ("anthropic", "claude-sonnet-4-5", 64_000),
        ("anthropic", "claude-3-haiku-20240307", 4_096),
        ("gemini", "gemini-2.5-flash", 65_536),
    ],
)
def test_fr_1_2_4_the_reserve_is_the_longest_answer_but_a_quarter_at_most(
    provider: str, name: str, longest: int
):
    info = model_info(name, provider=provider)
    window = info.window or 0
    limits = CompactionEngine(policy="token-window", info=info).tracker.limits
    left = window - min(longest, window // 4)
    assert info.output_limit == longest
    assert limits.guard == int(left * 0.95) - int(window * 0.05)


def test_fr_1_2_4_a_window_that_a_long_answer_does_not_fit_is_told_of():
    """Sonnet 4.5 with the window of the document's table, and with the usual one."""
    listed = model_info("claude-sonnet-4-5")
    outlooks = [
        CompactionEngine(policy="token-window", info=info).tracker.outlook(Session())
        for info in (listed.with_window(1_000_000), listed)
    ]
    assert listed.with_window(1_000_000).output_reserve == 64_000
    assert "answer" not in outlooks[0]
    assert "Keeps 50k tokens for an answer, a quarter of the window." in outlooks[1]
    assert outlooks[1].endswith("The model could write 64k.")


def test_fr_3_2_1_the_threshold_is_kept_per_model(store: SessionStore):
    set_for_good(store, chat(), "/set window 60000 for openai:gpt-4o")
    windows = [
        built(store, name, window=None).engine.tracker.info.window
        for name in ("openai:gpt-4o", "openai:gpt-4o-mini")
    ]
    assert windows == [60_000, 128_000]


def test_fr_3_2_2_a_new_model_is_configured_without_new_code(store: SessionStore):
    model = "openai:gpt-99"
    lines = (
        f"/set window 300000 for {model}",
        f"/set max_output_tokens 9000 for {model}",
    )
    set_for_good(store, chat(), *lines)
    config = settings(
        model=model, base_url="http://127.0.0.1:9/v1", policy="token-window"
    )
    agent = build_agent(config, store=store)
    assert agent.engine.tracker.info.window == 300_000
    assert agent.engine.tracker.limits.guard == int((300_000 - 9_000) * 0.95) - 15_000


# 3.3 Tokenization library management


def test_fr_3_3_1_the_tokenizers_are_there_without_a_network():
    sample = "Where is order W100? Où est-elle? 注文はどこですか"
    for name in ("o200k_base", "cl100k_base"):
        assert load_encoding(name).decode(load_encoding(name).encode(sample)) == sample


def test_fr_3_3_2_without_a_tokenizer_counting_is_approximate(
    caplog: pytest.LogCaptureFixture,
):
    counter, sample = TokenCounter("no-such-vocabulary"), real_text()[:19_000]
    with caplog.at_level(logging.WARNING):
        counted = counter.count(sample)
    assert "Estimating tokens as characters / 4" in caplog.text
    assert counted == pytest.approx(len(sample) / 4 * 1.2, abs=2)
    assert counted >= COUNTER.count(sample)


# 4 Data model and persistence


def test_fr_4_2_1_the_snapshots_json_has_the_fields_of_the_format(
    store: SessionStore, file: Path
):
    agent = chat(store=store, session=said(9_000, 5_000, 300, 300))
    (record,) = made(list(agent.run("And?")))
    content = json.loads(rows(file, SNAPSHOTS)[0][1])
    content.pop("record")
    session_id = agent.session.session_id
    assert content == {
        "summaryText": record.summary,
        "messageRange": {
            "firstMessageId": f"{session_id}:0",
            "lastMessageId": f"{session_id}:1",
        },
        "compressionTimestamp": record.created_at,
        "compressionType": "auto",
        "originalTokenCount": pytest.approx(14_000, abs=30),
        "summaryTokenCount": COUNTER.count_entry(record.entry),
        "messagesIncluded": 2,
    }
    assert content["compressionTimestamp"].startswith("20")


def test_fr_4_3_1_a_loaded_context_is_the_latest_summary_and_what_came_after(
    store: SessionStore,
):
    agent = compacted_twice(store)
    history = store.load(agent.session.session_id).history
    assert summary_text(history[0].content) == "Order W200 is in Porto, W100 came."
    assert history[1:] == list(agent.session.transcript[-2:])


def test_fr_4_3_2_and_nfr_7_4_loading_reads_by_indexes_alone(
    store: SessionStore, file: Path
):
    agent = compacted_twice(store)
    statements: list[str] = []
    sa.event.listen(
        engine_for(sa.make_url(store.url)),
        "before_cursor_execute",
        lambda _c, _k, statement, *_rest: statements.append(statement),
    )
    store.load(agent.session.session_id)
    assert len(statements) == 6
    for statement in statements:
        query = statement.replace("?", "'x'")
        steps = [step[-1] for step in rows(file, f"EXPLAIN QUERY PLAN {query}")]
        assert all("USING INDEX" in step for step in steps)


# 5.1 Summarization failures


def failing(request: Request) -> Line:
    """A model that writes no summary, in a context that stays full."""
    if request.answer_tag:
        return says("I would rather not.")
    return says("ok", tokens=GUARD + 100)


def test_fr_5_1_1_a_failure_is_kept_with_its_context_and_the_history_sent_whole(
    store: SessionStore, file: Path
):
    agent = chat(*[failing] * 20, session=said(9_000, 6_000), store=store)
    events = list(agent.run("And?"))
    assert isinstance(events[-1], TurnFinished)
    assert list(chat_requests(agent)[0].history) == list(agent.session.transcript[:3])
    contents_kept = [json.loads(each[1])["record"] for each in rows(file, SNAPSHOTS)]
    record = next(each for each in contents_kept[::-1] if each["status"] == "failed")
    assert (record["code"], record["trigger"]) == ("no-tags", "window")
    assert record["tokens_before"] > GUARD
    assert record["cost"]["input_tokens"] > 0
    assert "Failed, the history is unchanged" in session_log(agent.session)
    assert record["reason"] in session_log(agent.session)


def test_fr_5_1_1_it_is_tried_again_with_exponential_backoff():
    agent = chat(*[failing] * 200, session=said(9_000, 6_000))
    tried_after = [
        len(chat_requests(agent))
        for _ in range(20)
        for event in agent.run("And?")
        if isinstance(event, CompactionStarted)
    ]
    assert tried_after == [0, 1, 3, 7, 15]


# 5.2 Token counting failures


def test_fr_5_2_1_a_count_that_fails_is_logged_approximated_and_taken_for_more(
    server: FaultServer, caplog: pytest.LogCaptureFixture
):
    wire = DIALECTS["anthropic"]
    summary, reply = wire.text(f"<summary>{TOLD}</summary>"), wire.text("Yes.")
    server.script(failure(500), summary, reply)
    agent = Agent(
        connected(server, "anthropic"),
        engine=CompactionEngine(policy="token-window"),
        session=said(6_000, 6_000),
    )
    (record,) = made(list(agent.run("And now?")))
    assert "claude-haiku-4-5 can't count tokens" in caplog.text
    assert 12_000 < GUARD < record.tokens_before
    assert agent.session.last_answer == "Yes."


# 5.3 Insufficient context after compression


def crowded(system_tokens: int, *lines: ScriptedReply) -> Agent:
    """A chat whose instructions leave little room beside them."""
    session = said(2_000, 2_000, 300, 300, 300)
    return chat(*lines, session=session, system=text(system_tokens))


def test_fr_5_3_1_fewer_messages_stay_where_they_would_not_fit():
    roomy, narrow = crowded(9_600), crowded(13_000)
    list(roomy.run("And?"))
    assert roomy.session.compaction.note == ""
    assert contents(roomy.session.history[1:4]) == [text(300)] * 3
    list(narrow.run("And?"))
    assert "newest messages are kept, because more don't fit" in (
        narrow.session.compaction.note
    )
    assert contents(narrow.session.history).count(text(300)) < 3
    assert narrow.engine.tracker.context_tokens(narrow.session) < GUARD


def test_fr_5_3_1_a_summary_that_leaves_too_much_is_asked_for_tighter():
    too_long = " ".join(f"Order W{n} is late." for n in range(200))
    lines = [says(f"<summary>{too_long}</summary>"), SUMMARY, says("ok")]
    agent = crowded(12_800, *lines)
    (record,) = made(list(agent.run("And?")))
    first, second = (each.history[0].content for each in summary_requests(agent))
    assert "An earlier answer was refused" not in first
    assert "An earlier answer was refused" in second
    assert length(second) < length(first)
    assert summary_text(record.summary) == TOLD


def length(request: str) -> int:
    """How many words a summary may have."""
    _, _, rest = request.rpartition("At most ")
    return int(rest.split()[0])


def test_fr_5_3_1_a_context_that_stays_nearly_full_is_warned_of():
    agent = crowded(13_990)
    (record,) = made(list(agent.run("And?")))
    assert "What can't be compacted takes 1" in record.note
    assert record.note in compaction_text(record)
    assert crowded(9_600).engine.plan(said(9_000, 9_000), trigger="window").note == ""


# 5.4 Insufficient context for compression


def test_fr_5_4_1_below_2000_tokens_nothing_is_compressed_by_itself():
    assert PRESETS["token-window"].least_tokens == 2_000
    session = said(900, 900)
    agent = chat(session=session, window=4_000, system=text(1_000))
    events = list(agent.run("And?"))
    assert made(events) == []
    (skipped,) = [each for each in events if isinstance(each, CompactionSkipped)]
    assert "tokens could be compacted" in skipped.reason
    assert summary_requests(agent) == []


def test_fr_5_4_2_by_hand_little_is_compressed_too_with_a_warning(
    store: SessionStore,
):
    agent = chat(session=said(900, 900), store=store)
    assert "only 1,800 tokens to compact" in replied(Commands(store)(agent, "/plan"))
    record = by_hand(agent)
    assert record.status == "done"
    assert "only 1,800 tokens to compact" in compaction_text(record)
    assert by_hand(chat(session=said(1_000, 1_000))).note == ""


# 6.1 Visual indicators


def test_fr_6_1_2_a_summary_is_a_collapsed_section_with_the_number_of_messages():
    agent = chat(session=said(3_000, 3_000))
    record = by_hand(agent)
    for html in (compaction_html(record), divider_html(record)):
        head, _, body = html.partition("</summary>")
        assert head.startswith("<details ")
        assert " open" not in head
        assert "2 messages" in head
        assert TOLD in body
    panel = Panel(agent)
    panel.view_says(type="hello")
    panel.await_operation("restart")
    at_the_top = panel.snapshot()["state"]["summary"]
    assert at_the_top["messages"] == 2
    assert TOLD in at_the_top["html"]
    panel.close()


# 6.2 Summary viewing


def test_fr_6_2_1_to_6_2_3_summaries_are_inline_distinct_and_collapsible():
    agent = chat(session=said(3_000, 3_000))
    record = by_hand(agent)
    summary = entry_html(agent.session.history[0])
    message = entry_html(agent.session.transcript[0])
    assert TOLD in summary
    assert "<details" in compaction_html(record)
    assert "nbc-banner" in compaction_html(record)
    assert "nbc-banner" not in message
    assert summary.partition(">")[0] != message.partition(">")[0]


# 6.3 History access


def test_fr_6_3_1_the_full_history_is_there_and_says_what_is_not_in_the_context():
    agent = chat(session=said(9_000, 5_000, 300, 300))
    list(agent.run("And?"))
    assert len(agent.session.transcript) == 6
    assert agent.session.hidden_positions == {0, 1}
    seen = set(agent.session.history)
    for place, entry in enumerate(agent.session.transcript):
        assert (entry in seen) == (place not in agent.session.hidden_positions)


def test_fr_6_3_2_the_full_history_can_be_searched(store: SessionStore):
    session = Session([("user", "My code is QX-77."), ("assistant", text(6_000))])
    agent = chat(session=session)
    by_hand(agent)
    assert "QX-77" not in agent.session.history[0].content.partition("<facts>")[0]
    assert [place for place, _ in agent.session.recall("code qx-77").entries] == [0]
    assert "My code is QX-77." in replied(Commands(store)(agent, "/recall qx-77"))
    assert replied(Commands(store)(agent, "/recall ZZ-1")) == "Nothing was found."


# 7 Performance and scalability


def seconds(work: Callable[[], object]) -> float:
    """Of this process: the machine does other work, too."""
    began = process_time()
    work()
    return process_time() - began


def test_nfr_7_1_counting_1000_messages_takes_less_than_half_a_second():
    entries = a_thousand_messages()
    load_encoding("o200k_base")  # once in a process
    assert len(entries) == 1_000
    counter = TokenCounter()
    assert seconds(lambda: counter.count_entries(entries)) < 0.5


def test_nfr_7_2_summarizing_1000_messages_takes_less_than_ten_seconds():
    agent = chat(session=Session(a_thousand_messages()), window=128_000)
    assert seconds(lambda: by_hand(agent)) < 10
    assert agent.session.compaction is not None


def test_nfr_7_3_the_context_of_1000_messages_is_built_in_a_tenth_of_a_second(
    store: SessionStore,
):
    agent = chat(session=Session(a_thousand_messages()), store=store, window=128_000)
    by_hand(agent, keep=20_000)
    agent.ask("And?")
    assert seconds(agent.next_request) < 0.1
    session = Session(agent.session.transcript, compactions=agent.session.compactions)
    assert seconds(lambda: session.history) < 0.1
    session_id = agent.session.session_id
    assert seconds(lambda: store.load(session_id)) < 1


# Open questions and considerations


def prompt_after(store: SessionStore, *lines: str, **fields: str) -> str:
    """What a summary is asked for with these settings and fields of the policy."""
    agent = chat()
    set_for_good(store, agent, *lines)
    tracker = agent.engine.tracker
    tracker.use_policy(replace(tracker.base_policy, **fields))
    plan = agent.engine.plan(said(3_000, 3_000))
    request = agent.engine.create_summary_request(plan)
    return " ".join(request.history[0].content.split())


@pytest.mark.parametrize(
    ("style", "words"),
    [
        (
            "general",
            ("what the user wants", "final decision in force", "the next step"),
        ),
        ("technical", ("commands", "configuration", "file paths", "errors")),
        (
            "code",
            (
                "the problem",
                "changes to code",
                "technical decisions and why",
                "bugs and how they were fixed",
                "next steps",
            ),
        ),
    ],
)
def test_open_question_1_there_are_prompts_for_kinds_of_conversations(
    store: SessionStore, style: str, words: tuple[str, ...]
):
    prompt = prompt_after(store, style=style)
    assert all(each in prompt for each in words)


def test_open_question_1_a_person_chooses_detailed_or_concise(store: SessionStore):
    plain = prompt_after(store)
    detailed = prompt_after(store, detail="detailed")
    concise = prompt_after(store, detail="concise")
    assert "Be detailed: keep names, numbers, code" in detailed
    assert "only what the next step needs" in concise
    assert length(concise) <= length(plain) <= length(detailed)


def test_open_question_4_a_cheaper_model_per_provider_writes_the_summaries(
    server: FaultServer, store: SessionStore
):
    set_for_good(store, chat(), "/set summary_model gpt-4o-mini for openai")
    server.script(DIALECTS["openai"].text(f"<summary>{TOLD}</summary>"))
    config = settings(
        model="openai:gpt-4o",
        base_url=f"{server.url}/v1",
        policy="token-window",
        window=WINDOW,
    )
    agent = build_agent(config, store=store, session=said(3_000, 3_000))
    record = by_hand(agent)
    assert server.requests[-1].body["model"] == "gpt-4o-mini"
    assert record.model == "openai:gpt-4o-mini"


def test_open_question_6_a_summary_is_regenerated_and_the_old_one_kept():
    lines = [
        SUMMARY,
        says("<summary>The order is in Lisbon, and it is late.</summary>"),
    ]
    agent = chat(*lines, session=said(3_000, 3_000))
    first = by_hand(agent)
    list(agent.regenerate_compaction(focus="where it is"))
    (summary,) = agent.session.history
    assert summary_text(summary.content) == "The order is in Lisbon, and it is late."
    assert "Pay special attention to: where it is" in asked(agent)
    assert first in agent.session.compactions
    assert agent.session.compaction.tokens_before == first.tokens_before


def test_open_question_6_a_summary_can_be_edited_and_taken_back():
    agent = chat(session=said(3_000, 3_000))
    by_hand(agent)
    list(agent.edit_compaction("It is in Porto."))
    assert summary_text(agent.session.history[0].content) == "It is in Porto."
    list(agent.undo_compaction())
    assert agent.session.history == list(agent.session.transcript)


def test_open_question_7_a_summary_stays_in_its_session_unless_it_is_imported(
    store: SessionStore,
):
    old = chat(session=said(3_000, 3_000), store=store)
    by_hand(old)
    session_id = old.session.session_id
    more = "The order is in Lisbon; the customer asks for a refund."
    lines = [says("Yes."), says(f"<summary>{more}</summary>")]
    new, commands = chat(*lines, store=store), Commands(store)
    assert new.session.history == []
    list(commands(new, f"/import {session_id}"))
    new.ask("Is it late?")
    assert TOLD in chat_requests(new)[0].history[0].content
    loaded = store.load(new.session.session_id)
    assert loaded.history == new.session.history
    by_hand(new)
    assert TOLD in asked(new)
    assert summary_text(new.session.history[0].content) == more


# Success metrics


def test_metric_what_the_provider_has_counted_is_taken_as_it_is():
    agent = chat(says("ok", tokens=5_432))
    agent.ask("Where is it?")
    assert agent.engine.tracker.context_tokens(agent.session) == 5_442


def test_metric_compression_is_ten_to_one_on_average():
    """Of real conversations that fill a window, with summaries of full length."""
    ratios = []
    for count in (8, 12, 23):
        session = Session(real_runs(count))
        size = COUNTER.count_entries(session.history)
        agent = chat(session=session, window=size)
        plan = agent.engine.plan(session, trigger="window")
        told = " ".join(real_text().split()[: plan.budget.summary * 6 // 10])
        provider = ScriptedProvider(*[says(f"<summary>{told}</summary>")] * 9)
        record = finished(agent.engine.compact(session, provider, plan))
        assert record.status == "done"
        ratios.append(record.tokens_before / record.tokens_after)
    assert sum(ratios) / len(ratios) >= 10


def narrow_server(request: Request) -> Line:
    """A model whose server refuses what its window does not hold."""
    if request.answer_tag:
        return SUMMARY
    if COUNTER.count_entries(request.history) > WINDOW - 4_096:
        return fails(ContextOverflow("prompt is too long"))
    return says(text(700))


def overflows(policy: str, turns: int = 100) -> tuple[int, int, Agent]:
    """Turns that failed, requests that were refused, and the chat they happened in."""
    refused: list[Request] = []

    def line(request: Request) -> Line:
        told = narrow_server(request)
        if told.error is not None:
            refused.append(request)
        return told

    agent = chat(*[line] * turns * 4, policy=policy)
    failed = 0
    for _ in range(turns):
        failed += isinstance(list(agent.run(text(700)))[-1], TurnFailed)
    return failed, len(refused), agent


@pytest.mark.slow
def test_metrics_compression_succeeds_and_overflows_are_gone():
    failed_without, refused_without, _ = overflows("off")
    failed, refused, agent = overflows("token-window")
    assert failed_without > 50
    assert refused_without > 50
    assert (failed, refused) == (0, 0)
    records = [each for each in agent.session.compactions if each.status != "running"]
    assert len(records) >= 5
    assert all(each.status == "done" for each in records)


def test_metric_conversations_last_longer():
    _, _, without = overflows("off", turns=40)
    _, _, agent = overflows("token-window", turns=40)
    answers = [
        sum(entry.role == "assistant" for entry in each.session.transcript)
        for each in (without, agent)
    ]
    assert answers[1] == 40
    assert answers[0] < 20
