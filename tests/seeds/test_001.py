"""Document 001, automatic context compaction: the default preset `single-summary`.

Deliberately not taken over:

- the summary request "without the rest of the history" (4.2): there would be nothing
  to summarize; the conversation goes in, as data.
- the role "assistant" for the summary (7): the model would take it for its own words,
  and Anthropic wants a user first; the entry has a role of its own, sent as the user's.
- "replace all but the last user message" beside "replace the entire message list" (4.1,
  2): what nobody has answered stays, all else is replaced.
- `usage.input_tokens` as one SDK reports it (5): cached tokens are part of a request,
  so they are counted wherever a provider puts them.
- modules `chat_builder`, `chat_renderer`, `tool_executor`, ChatRunner (2, 3): that is
  how one code base was cut; the boundaries here are in CONTRIBUTING.
- a fixed default of 5,000 in the settings (4.3): it stands in code; the settings take
  75 % of the window, which is the document's own "dynamic threshold" (10). Where none
  is set, a compaction also has to pay.
- server-side compaction (10): it is the server's; what it reports is counted right, see
  test_iterations_of_server_side_compaction_are_summed.
- unittest.mock (8): a scripted model and real servers on this machine say more.
"""

from types import SimpleNamespace
from typing import Any

import pytest
from driving import finished
from fault_server import AnthropicDialect, FaultServer, Json, OpenAIDialect
from ticket_desk import TicketDesk, read_tickets

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.summary_format import summary_text
from nbchat.config.layers import settings
from nbchat.conversation.entries import Compaction, Usage
from nbchat.conversation.events import (
    Compacted,
    CompactionStarted,
    Event,
    TurnFinished,
    UsageReported,
)
from nbchat.conversation.session import Session
from nbchat.jupyter.cell_output import Banner
from nbchat.providers.base import Provider, Request
from nbchat.providers.connect import connect
from nbchat.providers.model_info import ModelInfo
from nbchat.providers.tokens import TokenCounter
from nbchat.rendering.banners import compaction_html, compaction_text
from nbchat.rendering.entries import entry_html
from nbchat.storage.factory import autosave_of, build_agent, build_engine
from nbchat.storage.store import SessionStore
from nbchat.testing import Line, ScriptedProvider, calls, says

STORY = "The customer asks about order W100 and its parcel. " * 20
TOLD = "The customer asks where order W100 is."
SUMMARY = says(f"<summary>{TOLD}</summary>")
TICKETS = (
    "Please summarize the conversation so far in a concise format, including processed "
    "tickets, categories, priorities, and next steps."
)
DIALECTS = {"openai": OpenAIDialect(), "anthropic": AnthropicDialect()}


def agent_of(*lines: object, threshold: int | None = 100, **options: object) -> Agent:
    provider = ScriptedProvider(*lines)  # type: ignore[arg-type]
    return Agent(provider, engine=CompactionEngine(threshold), **options)  # type: ignore[arg-type]


def requests(agent: Agent) -> list[Request]:
    assert isinstance(agent.provider, ScriptedProvider)
    return agent.provider.requests


def chat() -> Session:
    return Session([("user", STORY), ("assistant", STORY)])


def records(events: list[Event]) -> list[Compaction]:
    return [event.compaction for event in events if isinstance(event, Compacted)]


def compact(engine: CompactionEngine, session: Session, *lines: Line) -> Request:
    """The request that a compaction by hand has sent; its record joins the session."""
    provider = ScriptedProvider(*lines)
    record = finished(engine.compact(session, provider, engine.plan(session)))
    session.compactions.append(record)
    return provider.requests[0]


@pytest.fixture(params=["openai", "anthropic"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def provider_at(server: FaultServer, kind: str, model: str = "model-x") -> Provider:
    path = "/v1" if kind == "openai" else ""
    url = server.url + path
    return connect(f"{kind}:{model}", base_url=url, api_key=lambda: "k", window=100_000)


def messages(body: Json) -> list[Json]:
    """The messages of a request, without the system prompt."""
    return [each for each in body["messages"] if each["role"] != "system"]


def text_of(message: Json) -> str:
    content = message["content"]
    return (
        content
        if isinstance(content, str)
        else "".join(b.get("text", "") for b in content)
    )


# 2: goals


def test_2_token_aware_history_tokens_are_counted_per_turn_and_added_up():
    agent = agent_of(says("one", tokens=30), says("two", tokens=45), threshold=1_000)
    events = [*agent.run("first"), *agent.run("second")]
    reports = [event for event in events if isinstance(event, UsageReported)]
    assert [report.usage.input_tokens for report in reports] == [30, 45]
    assert [report.input_tokens for report in reports] == [30, 75]
    assert {report.threshold for report in reports} == {1_000}


def test_2_trigger_only_when_the_total_reaches_the_threshold():
    agent = agent_of(
        says(STORY, tokens=60), says("two", tokens=39), says("three", tokens=1), SUMMARY
    )
    first, second, third = [list(agent.run(text)) for text in ("a", "b", "c")]
    assert records(first) == records(second) == []
    assert [record.trigger for record in records(third)] == ["cumulative"]


def test_2_non_intrusive_all_that_was_said_stays_as_it_was():
    agent = agent_of(says(STORY, tokens=101), SUMMARY)
    agent.ask("Where is it?")
    assert agent.session.transcript == [
        ("user", "Where is it?", "", "", ""),
        ("assistant", STORY, "", "", ""),
    ]
    list(agent.undo_compaction())
    assert agent.session.history == list(agent.session.transcript)


def test_2_extensible_another_prompt_and_another_model():
    engine = CompactionEngine(100, TICKETS, "claude-haiku-4-5")
    request = compact(engine, chat(), SUMMARY)
    assert TICKETS in request.history[-1].content
    assert request.model == "claude-haiku-4-5"


# 4.1: the engine


def test_4_1_engine_takes_threshold_prompt_and_model_in_this_order():
    engine = CompactionEngine(5_000, "Sum it up.", "cheap")
    assert engine.context_token_threshold == 5_000
    assert (engine.summary_prompt, engine.summary_model) == ("Sum it up.", "cheap")
    assert engine.input_tokens == 0


@pytest.mark.parametrize(("tokens", "is_due"), [(99, False), (100, True), (101, True)])
def test_4_1_should_compact_from_the_threshold_on(tokens: int, is_due: bool):  # noqa: FBT001
    engine, session = CompactionEngine(100), chat()
    engine.update_token_count(Usage(tokens, 1))
    assert bool(engine.should_compact(session)) is is_due


def test_4_1_create_summary_request_is_a_message_of_the_user_with_the_prompt():
    engine, session = CompactionEngine(100), chat()
    request = engine.create_summary_request(engine.plan(session))
    (asked,) = request.history
    assert asked.role == "user"
    assert "Summarize the conversation above" in asked.content
    assert STORY.strip() in asked.content
    assert "inside <summary></summary>" in asked.content


class Completions:
    """The API of the document's client: says a summary and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def create(self, **asked: Any) -> SimpleNamespace:
        self.asked.append(asked)
        message = SimpleNamespace(content=f"<summary>{TOLD}</summary>")
        return SimpleNamespace(choices=[SimpleNamespace(message=message)])


INTEGRATION = """
from nbchat.compaction import CompactionEngine

CONTEXT_TOKEN_THRESHOLD = 5000
SUMMARY_PROMPT = (
    "Please summarize the conversation so far in a concise format, "
    "including processed tickets, categories, priorities, and next steps."
)
SUMMARY_MODEL = "claude-haiku-4-5"  # optional, defaults to current model

self.compaction_engine = CompactionEngine(
    threshold=CONTEXT_TOKEN_THRESHOLD,
    summary_prompt=SUMMARY_PROMPT,
    summary_model=SUMMARY_MODEL,
)
for usage in usages:
    self.compaction_engine.update_token_count(msg, usage)
    # After receiving an assistant response
    if self.compaction_engine.should_compact():
        # 1. Build summary request
        summary_msg = self.compaction_engine.create_summary_request(self.history)
        # 2. Send request (no history)
        summary_resp = client.chat.completions.create(
            model=self.compaction_engine.summary_model or self.model_name,
            messages=[summary_msg],
            max_tokens=512,
        )
        # 3. Store summary
        summary_text = summary_resp.choices[0].message.content
        self.history = [("assistant", summary_text, "", "", "")]
        # 4. Reset counter
        self.compaction_engine.input_tokens = 0
"""
"""The code of sections 4.2 and 4.3, with nothing changed but the import."""


def test_4_the_documents_own_code_runs_after_a_change_of_the_import():
    completions = Completions()
    client = SimpleNamespace(chat=SimpleNamespace(completions=completions))
    ui = SimpleNamespace(history=[tuple(each) for each in chat().transcript])
    usages = [{"input_tokens": tokens} for tokens in (2_000, 2_999, 1, 7)]
    names = {"self": ui, "client": client, "usages": usages, "msg": {}}
    exec(INTEGRATION, names)  # the document's code
    (asked,) = completions.asked
    (message,) = asked["messages"]
    assert (asked["model"], message["role"]) == ("claude-haiku-4-5", "user")
    assert "including processed tickets, categories" in message["content"]
    assert STORY.strip() in message["content"]
    assert ui.history == [("assistant", f"<summary>{TOLD}</summary>", "", "", "")]
    engine = ui.compaction_engine
    assert (engine.threshold, engine.input_tokens) == (5_000, 7)
    assert not engine.should_compact()


def test_4_1_replace_history_leaves_the_summary_and_starts_the_count_again():
    engine = CompactionEngine(threshold=100)
    engine.update_token_count({"input_tokens": 100})
    assert engine.should_compact()
    summary = {"role": "assistant", "content": "<summary>Done.</summary>"}
    assert engine.replace_history([{"role": "user", "content": "x"}, summary]) == [
        summary
    ]
    assert engine.input_tokens == 0


# 4.2: in the chat


def test_4_2_integration_after_each_response_it_is_counted_and_then_checked():
    agent = agent_of(says(STORY, tokens=101), SUMMARY)
    kinds = [type(event) for event in agent.run("Where is it?")]
    steps = [UsageReported, CompactionStarted, Compacted, TurnFinished]
    assert [kind for kind in kinds if kind in steps] == steps


def test_4_2_integration_also_in_the_middle_of_tool_work():
    def lookup(order: str) -> str:
        """Find an order."""
        return f"{order}: {STORY}"

    script = [
        calls("lookup", order="W100", tokens=50),
        calls("lookup", order="W200", tokens=101),
        SUMMARY,
        says("It is late.", tokens=20),
    ]
    agent = agent_of(*script, tools=[lookup])
    assert agent.ask("Where is W100?") == "It is late."
    last = requests(agent)[-1].history
    assert [entry.role for entry in last] == ["summary", "assistant", "tool"]
    assert last[-1].content == f"W200: {STORY}"
    assert "Where is W100?" in last[0].content


def test_4_2_integration_the_counter_is_at_zero_and_counts_again():
    agent = agent_of(
        says(STORY, tokens=101),
        SUMMARY,
        says(STORY, tokens=99),
        says("Yes.", tokens=1),
        SUMMARY,
    )
    made = [len(records(list(agent.run(text)))) for text in ("one", "two", "three")]
    assert made == [1, 0, 1]


# 4.3: configuration


def test_4_3_the_default_threshold_is_5_000():
    engine = CompactionEngine()
    assert engine.context_token_threshold == 5_000
    assert engine.policy.name == settings().policy == "single-summary"


def test_4_3_settings_reach_the_engine_of_the_chat(store: SessionStore):
    config = settings(
        context_token_threshold=5_000,
        summary_prompt=TICKETS,
        summary_model="claude-haiku-4-5",
        model="local:smollm2",
    )
    engine = build_agent(config, store=store).engine
    assert engine.context_token_threshold == 5_000
    assert (engine.summary_prompt, engine.summary_model) == (
        TICKETS,
        "claude-haiku-4-5",
    )


def test_4_3_summary_model_defaults_to_the_current_one():
    agent = agent_of(says(STORY, tokens=101), SUMMARY)
    (record,) = records(list(agent.run("one")))
    assert record.model == agent.provider.name
    assert requests(agent)[-1].model == ""


# 5: token counting


def test_5_usage_is_that_of_the_whole_request_cached_tokens_included(
    server: FaultServer, kind: str
):
    server.script(DIALECTS[kind].text("Hi.", usage=(900, 7, 800)))
    agent = Agent(provider_at(server, kind), engine=CompactionEngine(10_000))
    agent.ask("Hello")
    assert agent.engine.input_tokens == 900


def test_5_output_tokens_are_ignored(server: FaultServer, kind: str):
    server.script(DIALECTS[kind].text(STORY, usage=(40, 9_000, 0)))
    agent = Agent(provider_at(server, kind), engine=CompactionEngine(100))
    assert records(list(agent.run("Hello"))) == []
    assert agent.engine.input_tokens == 40


# 6: the summary


def test_6_the_tags_can_be_stripped_before_it_is_shown():
    agent = agent_of(says(STORY, tokens=101), SUMMARY)
    (record,) = records(list(agent.run("one")))
    assert summary_text(record.summary) == TOLD
    shown = entry_html(record.entry)
    assert TOLD in shown
    assert "summary&gt;" not in shown
    assert "facts&gt;" not in shown


def test_6_max_tokens_keep_the_summary_concise(server: FaultServer, kind: str):
    dialect = DIALECTS[kind]
    server.script(
        dialect.text(STORY, usage=(101, 7, 0)),
        dialect.text(f"<summary>{TOLD}</summary>"),
    )
    agent = Agent(provider_at(server, kind), engine=CompactionEngine(100))
    (record,) = records(list(agent.run("one")))
    body = server.requests[1].body
    limit = body.get("max_tokens") or body.get("max_completion_tokens")
    assert 50 <= limit <= 512
    assert "At most" in text_of(messages(body)[-1])
    assert record.status == "done"


# 7: the history


def test_7_the_history_is_a_list_of_tuples_of_five():
    def lookup(order: str) -> str:
        """Find an order."""
        return f"{order} was shipped"

    agent = agent_of(
        calls("lookup", order="W1"), says("Shipped."), tools=[lookup], threshold=None
    )
    agent.ask("Where is W1?")
    assert agent.session.history == [
        ("user", "Where is W1?", "", "", ""),
        ("assistant", "", "call_1_0", "lookup", '{"order": "W1"}'),
        ("tool", "W1 was shipped", "call_1_0", "lookup", ""),
        ("assistant", "Shipped.", "", "", ""),
    ]


def test_7_the_entire_list_becomes_a_single_entry():
    agent = agent_of(
        says("Hm. " * 150, tokens=101), says("<summary>what happened</summary>")
    )
    agent.ask("first")
    (entry,) = agent.session.history
    assert (entry.role, *entry[2:]) == ("summary", "", "", "")
    assert entry.content.startswith("<summary>\nwhat happened\n</summary>")


def test_7_messages_are_built_from_it_for_both_providers(
    server: FaultServer, kind: str
):
    dialect = DIALECTS[kind]
    summary = dialect.text(f"<summary>{TOLD}</summary>")
    server.script(
        dialect.text(STORY, usage=(101, 7, 0)), summary, dialect.text("Fine.")
    )
    agent = Agent(
        provider_at(server, kind), engine=CompactionEngine(100), system="You help."
    )
    agent.ask("one")
    assert agent.ask("two") == "Fine."
    sent = messages(server.requests[2].body)
    assert {message["role"] for message in sent} == {"user"}
    text = "\n".join(map(text_of, sent))
    assert TOLD in text
    assert text.endswith("two")
    assert STORY.strip() not in text


# 8: the testing strategy


TRIAGE = {
    "search_help_articles": {"query": "transfer fee"},
    "set_category": {"category": "transfer_fee_charged"},
    "set_priority": {"priority": "low"},
    "assign_team": {"team": "payments"},
    "reply_draft": {"text": "We will look into it."},
}


def triage(request: Request) -> Line:
    """A model that calls the tool it is told to."""
    if request.answer_tag:
        return says("<summary>T1 and the others are triaged, one by one.</summary>")
    if request.tool_choice == "none":
        return says("All done.")
    return calls(request.tool_choice, **TRIAGE.get(request.tool_choice, {}))


def test_8_integration_a_ticket_flow_compacts_early_and_decides_every_ticket():
    """The threshold of 200 counts beside what system prompt and tools take alone."""
    desk = TicketDesk(read_tickets(count=4))

    probe = Agent(ScriptedProvider(), tools=desk.tools, system=desk.system)
    threshold = probe.engine.tracker.fixed_tokens + 200
    provider = ScriptedProvider(*[triage] * 200)
    engine = CompactionEngine(threshold, TICKETS)
    agent = Agent(
        provider,
        tools=desk.tools,
        system=desk.system,
        engine=engine,
        tool_choice=desk.next_tool,
    )
    events = list(agent.run(desk.task))
    assert events[-1] == TurnFinished("end_turn", steps=29)
    assert len(records(events)) >= 2
    assert agent.session.history[0].role == "summary"
    assert all(ticket.is_decided for ticket in desk.tickets)
    first = agent.session.transcript[2].content
    assert desk.tickets[0].id in first
    assert desk.tickets[0].id in agent.session.history[0].content


def test_8_no_compaction_under_a_very_high_threshold():
    agent = agent_of(*[says(STORY)] * 20, threshold=10_000_000)
    events = [event for n in range(20) for event in agent.run(f"Question {n}")]
    assert not any(isinstance(e, CompactionStarted | Compacted) for e in events)
    assert len(agent.session.history) == 40


# 9: deployment


def test_9_client_side_the_summary_comes_from_the_same_api(
    server: FaultServer, kind: str
):
    dialect = DIALECTS[kind]
    server.script(
        dialect.text(STORY, usage=(101, 7, 0)),
        dialect.text(f"<summary>{TOLD}</summary>"),
    )
    agent = Agent(provider_at(server, kind), engine=CompactionEngine(100))
    agent.ask("one")
    chatted, summed_up = server.requests
    assert summed_up.path == chatted.path
    assert summed_up.body["model"] == chatted.body["model"] == "model-x"


def test_9_a_short_message_says_that_compaction_occurred():
    agent = agent_of(says(STORY, tokens=101), SUMMARY)
    (record,) = records(list(agent.run("one")))
    assert compaction_text(record).startswith(
        "Compaction occurred: 2 messages compacted"
    )
    assert repr(Banner(record)) == compaction_text(record)
    for html in (compaction_html(record), Banner(record)._repr_html_()):
        assert "Compaction occurred" in html
        assert TOLD in html


# 10: future enhancements


def test_10_dynamic_threshold_follows_the_window_of_the_model():
    engine = build_engine(settings(), ScriptedProvider(window=200_000))
    assert engine.context_token_threshold == 150_000
    engine.tracker.use_model(ModelInfo("m", window=8_000))
    assert engine.context_token_threshold == 6_000


def told_in_a_window(window: int, threshold: int | None = None) -> Agent:
    """A chat of some exchanges whose last answer made a compaction due."""
    tokens = (threshold or window * 3 // 4) // 9 + 1
    lines = [
        says(f"{STORY * 4} Answer {number}.", tokens=tokens) for number in range(8)
    ]
    due = says("The last answer.", tokens=tokens)
    provider = ScriptedProvider(*lines, due, SUMMARY, window=window)
    agent = Agent(provider, engine=CompactionEngine(threshold, policy="single-summary"))
    for number in range(8):
        agent.ask(f"question {number}")
    assert len(records(list(agent.run("question 8")))) == 1
    return agent


def test_10_dynamic_threshold_leaves_one_entry_with_the_newest_words_in_it():
    (entry,) = told_in_a_window(128_000).session.history
    assert entry.role == "summary"
    assert "\n- (assistant: " in entry.content
    assert ") question 8\n" in entry.content
    assert "\nassistant: The last answer.\n" in entry.content


def test_10_a_cheaper_model_of_the_same_provider_over_the_wire(
    server: FaultServer, kind: str
):
    dialect = DIALECTS[kind]
    summary = dialect.text(f"<summary>{TOLD}</summary>")
    server.script(
        dialect.text(STORY, usage=(101, 7, 0)), summary, dialect.text("Fine.")
    )
    engine = CompactionEngine(100, summary_model="cheap-model")
    agent = Agent(provider_at(server, kind), engine=engine)
    (record,) = records(list(agent.run("one")))
    agent.ask("two")
    assert [each.body["model"] for each in server.requests] == [
        "model-x",
        "cheap-model",
        "model-x",
    ]
    assert record.model == f"{kind}:cheap-model"


def test_10_summaries_are_kept_in_the_database_for_an_audit(store: SessionStore):
    agent = agent_of(
        says(STORY, tokens=101), SUMMARY, says(STORY * 2, tokens=101), SUMMARY
    )
    agent.autosave = autosave_of(store, agent.session, agent)
    agent.ask("one")
    agent.ask("two")
    kept = [r for r in store.load(agent.session.session_id).compactions if r.is_active]
    assert kept == [r for r in agent.session.compactions if r.is_active]
    assert len(kept) == 2
    assert all(
        summary_text(r.summary) == TOLD and r.created_at and r.cost.input_tokens
        for r in kept
    )
    assert TokenCounter().count(kept[0].summary) < kept[0].tokens_before
