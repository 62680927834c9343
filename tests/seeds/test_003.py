"""Document 003, context compression: the policy `early`.

Not taken over, and why:
- "[SUMMARY]: ..." as a message of the assistant: a summary stands as material between
  tags, so that the model does not take it for words of its own;
- a file or a page told by a model right after retrieval: no request is worth it then;
  its first and last lines and the range between stay, and `recall` brings back the rest;
- `context.verbosity=debug` as one dotted name: the setting is called `verbosity`;
- requirements in words that no rule is made of, and lists below "Requirements:": nobody
  can tell them from other wishes, so a person pins them;
- the documents it names beside itself (`context-trimming.md`, `health-monitoring.md`).
"""

import json
import re
from collections.abc import Callable

import pytest
from driving import replied
from trajectories import read_trajectories

from nbchat.agent.agent import Agent
from nbchat.chat.commands import Commands
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.summary_format import summary_text
from nbchat.config.layers import settings
from nbchat.conversation.entries import Compaction, Entry, Usage
from nbchat.conversation.events import Compacted, CompactionFailed
from nbchat.conversation.session import Session
from nbchat.conversation.tools import Tool, tool
from nbchat.conversation.turns import count_messages
from nbchat.errors import RequestRefused
from nbchat.providers.base import Request
from nbchat.providers.model_info import ModelInfo
from nbchat.providers.tokens import TokenCounter
from nbchat.storage.factory import autosave_of, build_engine
from nbchat.storage.session_log import monitoring, session_log
from nbchat.testing import Line, ScriptedProvider, calls, fails, says

POLICY = "early"
WINDOW, TRIGGER = 20_000, 10_000

PERSONA = "You are Ida, analyst of the sales desk.\r\nYou answer in  two sentences."
LONG = "The sales of the northern region grew slowly, quarter by quarter. " * 25
"""About 320 tokens."""

TOLD = "The user has sales analysed; they grew, the next quarter is open."
COUNT = TokenCounter().count
LETTERS = str.maketrans("0123456789", "abcdefghij")


def chatting(request: Request) -> Line:
    """A long answer, or the summary."""
    return says(f"<summary>{TOLD}</summary>" if request.answer_tag else LONG)


def agent_with(*lines, session: Session | None = None, **options) -> Agent:
    provider = ScriptedProvider(*(lines or [chatting] * 400), window=WINDOW)
    engine = CompactionEngine(policy=POLICY)
    return Agent(provider, system=PERSONA, engine=engine, session=session, **options)


def until_compacted(agent: Agent, *, times: int = 1) -> list[Compaction]:
    """The records of so many compactions by themselves; nothing is said after the last."""
    made: list[Compaction] = []
    for _ in range(400):
        digits = str(len(agent.session.transcript))
        name = digits.translate(LETTERS)  # a summary need not name it
        turn = agent.run(f"And item {name}?")
        for event in turn:
            if isinstance(event, Compacted):
                made.append(event.compaction)
                if len(made) == times:
                    turn.close()
                    return made
    raise AssertionError(f"only {len(made)} compactions")


def chat(messages: int, text: str = LONG) -> list[tuple[str, str]]:
    roles = ["user", "assistant"] * messages
    return [(role, f"{n}. {text}") for n, role in enumerate(roles[:messages])]


def summary_requests(agent: Agent) -> list[Request]:
    return [each for each in agent.provider.requests if each.answer_tag]


def chat_requests(agent: Agent) -> list[Request]:
    return [each for each in agent.provider.requests if not each.answer_tag]


def tool_giving(name: str, output: Callable[[], str]) -> Tool:
    def run() -> str:
        """Give what was asked for."""
        return output()

    run.__name__ = name
    return tool(run)


def fetched(name: str, output: str, *, verbosity: str = "normal") -> Agent:
    """An agent that has just called a tool, and seen its output once."""
    provider = ScriptedProvider(calls(name), says("Thanks."), window=WINDOW * 10)
    engine = build_engine(
        settings(policy=POLICY, policies={POLICY: {"verbosity": verbosity}}), provider
    )
    tools = [tool_giving(name, lambda: output)]
    agent = Agent(provider, tools=tools, engine=engine)
    list(agent.run("Please look."))
    return agent


def seen(name: str, output: str, *, verbosity: str = "normal") -> str:
    """What the model saw of a tool's output, the very first time."""
    agent = fetched(name, output, verbosity=verbosity)
    return agent.provider.requests[1].history[-1].content


# Auto-summarization


@pytest.mark.parametrize(("tokens", "is_due"), [(9_999, False), (10_000, True)])
def test_trigger_is_half_of_the_token_budget(tokens, is_due):
    session = Session(chat(10))
    engine = CompactionEngine(policy=POLICY, info=ModelInfo("m", window=WINDOW))
    engine.update_token_count(Usage(tokens, 0), position=len(session.transcript))
    assert bool(engine.should_compact(session)) is is_due


def test_strategy_1_messages_and_results_are_summarized_but_no_prompt_and_no_schema():
    session = Session([
        ("user", f"Analyze the sales. {LONG}"),
        ("assistant", "", "1", "database_query", '{"quarter": 3}'),
        ("tool", "Q3: 412 rows", "1", "database_query"),
        ("assistant", "Q3 grew."),
        *chat(3),
    ])  # fmt: skip
    query = tool_giving("database_query", lambda: "")
    agent = agent_with(session=session, tools=[query])
    list(agent.compact())
    (asked,) = summary_requests(agent)
    text = asked.history[0].content
    for told in ("Analyze the sales.", "Q3: 412 rows", "Q3 grew."):
        assert told in text
    for left_out in (PERSONA, PERSONA.split("\r\n", maxsplit=1)[0], query.description):
        assert left_out not in text + asked.system
    assert asked.tools == ()


def test_strategy_2_one_request_asks_for_decisions_open_issues_and_the_state():
    agent = agent_with()
    until_compacted(agent)
    (asked,) = summary_requests(agent)
    prompt = asked.history[0].content.rpartition("</recent>")[2]
    assert "each rule, preference and final decision in force" in prompt
    assert "what is unanswered or waits for a decision" in prompt
    assert "State (what exists and can be used without asking again" in prompt
    assert re.search(r"At most \d+ words", prompt)


def test_strategy_3_the_summary_comes_first_and_the_last_three_messages_stay():
    agent = agent_with()
    until_compacted(agent)
    history = agent.session.history
    assert history[0].role == "summary"
    assert summary_text(history[0].content) == TOLD
    assert history[1:] == agent.session.transcript[-3:]


def test_strategy_4_the_action_is_logged_with_messages_and_savings():
    agent = agent_with()
    (record,) = until_compacted(agent)
    messages = len(agent.session.transcript) - 3
    saved = record.tokens_before - record.tokens_after
    line = f"Summarized {messages} messages → 1 summary (saved ~{saved:,} tokens)"
    assert line in session_log(agent.session, WINDOW)


# Protection rules


def test_protection_rules_system_prompt_and_persona_are_in_every_request():
    agent = agent_with()
    until_compacted(agent, times=3)
    list(agent.run("Go on."))
    assert {each.system for each in chat_requests(agent)} == {PERSONA}


def test_protection_rules_the_last_three_messages_stay_though_they_fill_the_budget():
    newest = chat(3, LONG * 15)
    session = Session([*chat(8), *newest])
    agent = agent_with(session=session)
    assert agent.engine.should_compact(session).trigger == "window"
    list(agent.run("And now?"))
    first = agent.session.compactions[-1]
    assert first.note == ""
    kept = agent.session.transcript[first.stop : first.committed_at]
    assert count_messages(kept) == 3
    assert kept == [Entry(*each) for each in [*newest[1:], ("user", "And now?")]]


@pytest.mark.slow
def test_protection_rules_three_large_messages_do_not_end_the_automatic():
    agent = agent_with(*[
        lambda request: says(
            f"<summary>{TOLD}</summary>" if request.answer_tag else LONG * 14
        )
    ] * 40)  # fmt: skip
    for number in range(12):
        list(agent.run(f"And item {number}? {LONG * 9}"))
    made = [each for each in agent.session.compactions if each.is_active]
    assert len(made) >= 4
    sizes = [agent.provider.count_tokens(each) for each in chat_requests(agent)]
    assert max(sizes) < WINDOW - 4_096


def test_protection_rules_the_session_log_is_never_sent_to_a_model(store):
    agent = agent_with()
    until_compacted(agent)
    assert "SESSION_LOG" in replied(Commands(store)(agent, "/log"))
    until_compacted(agent)
    sent = "".join(str(each) for each in agent.provider.requests)
    assert "SESSION_LOG" not in sent
    assert "Token Usage @" not in sent


def test_protection_rules_the_active_checkpoint_stays_and_replaces_the_last(store):
    agent, run = agent_with(), Commands(store)
    list(run(agent, "/checkpoint Step 1 of 3: fetch Q3"))
    list(run(agent, "/checkpoint Step 2 of 3: compare  with Q2"))
    until_compacted(agent, times=3)
    list(agent.run("Go on."))
    system = chat_requests(agent)[-1].system
    assert "Checkpoint: Step 2 of 3: compare  with Q2" in system
    assert "Step 1 of 3" not in system
    assert all(
        "Step 2" not in each.history[0].content for each in summary_requests(agent)
    )


def test_protection_rules_the_model_writes_the_checkpoint_through_a_tool(store):
    def lookup() -> str:
        """Find the sales."""
        return "4"

    state = "Q3 is fetched; compare with Q2 next."
    agent = agent_with(
        calls("checkpoint", state=state),
        says("Done."),
        *[chatting] * 400,
        tools=[lookup],
    )
    agent.autosave = autosave_of(store, agent.session, agent)
    list(agent.run("Analyse the sales."))
    until_compacted(agent)
    list(agent.run("Go on."))
    assert f"Checkpoint: {state}" in chat_requests(agent)[-1].system
    assert store.load(agent.session.session_id).pins == (f"Checkpoint: {state}",)
    Commands(store)(agent, "/policy tiered")
    assert "checkpoint" not in [tool.name for tool in agent.tools]


CONSTRAINTS = """\
I need this in French.
My budget is $300.
It has to work offline.
Ignore rows from before 2020.
Please keep answers under 100 words.
Never email the customer directly.
I'm allergic to nuts.
Use British spelling.
All amounts are in euros.
Don't touch the staging database.
We ship on Thursdays only.
Use Python 3.11, not newer.
No emojis, please.
The report is for my boss, so keep it formal.
Round to two decimals.
Only use data that marketing has approved.
I can't install anything on this laptop.
Treat missing values as zero.
The deadline is 14 March.
Call me Sam, not Samuel.
Our week starts on Sunday.
Exclude test accounts.
Don't use pie charts.
We're on PostgreSQL 13.
Every chart needs a source line.
Anything above 5,000 needs Maria's approval.
I prefer tabs over spaces.
Keep the old column names.
Bitte alle Daten im Format TT.MM.JJJJ.
Réponds toujours avec des exemples.
No flights before 9 am.
The hotel must allow dogs.
Use the median, not the mean.
I'm colour-blind, so avoid red and green.
The file may not be larger than 2 MB.
Sort by region first.
Ask me before you delete anything.
No more than three suggestions at a time.
Our fiscal year begins in July.""".splitlines()
VARIED = """\
Would you mind leaving out the Swiss branches? They report differently. Then list the ten largest stores.
It'd be great if the tables fit on one A4 page in portrait. Now show me spring.
My colleague reads this with a screen reader, so images without a caption are no use to her. What changed since last year?
I'd rather not see any forecasts, those are another team's job. How did March go?
Just so you know, the figures from Graz arrive a day late and shouldn't count until the day after. Compare Graz with Linz.
Bitte duze mich und schreib kurze Sätze. Was fällt dir bei den Retouren auf?
Prozentwerte bitte immer ohne Nachkommastellen. Wie hoch ist die Quote im Norden?
No menciones los nombres de los proveedores en el informe, por favor. ¿Qué tienda vende más?
Si el importe supera los 10.000 euros, avísame antes de incluirlo. Sigue con el sur.
If a store has fewer than 30 receipts, merge it into "other". Which ones are that?
Unless I say otherwise, dates are in UTC. When do most people buy?
Whenever you quote a number, tell me which table it is from. What's the average basket?
We moved to the new price list on 1 June; anything before that uses the old one. What's the effect on margin?
Legal told us customer e-mail addresses can't leave the building. Can you describe the loyalty segment?
Don't bother with statistical tests, nobody here reads them. Is the difference large?
Could you stick to the Oxford comma? And write the introduction.
There's a hard cap of 12 slides. Suggest a structure.
I'm presenting to people who dislike jargon. Explain the basket metric.
The warehouse in Brno closed in 2023, so treat it as gone. Which warehouses are left?
Only Petra may approve discounts, nobody else. Who asked for one last month?
Use the metric system throughout. How heavy is an average parcel?
Hold off on the loyalty chart until I've spoken with Ines. Draw the others.
Make the headline font 18 points. Now the summary slide.
Actually, make the headline 20 points, 18 is too small in that room. Next slide.
For now keep the colours of the old brand. Make the cover.
Forget the old brand colours, the new ones are approved. Make the cover again.
By the way I said UTC before; from here on I need local Vienna time. When is the evening peak?
We count a return as a sale only after 14 days. How many are open?
Nimm für Umsatz immer netto, nie brutto. Wie war der April?
Wenn Daten fehlen, frag mich, statt zu raten. Was fehlt im Mai?
Prefiero viñetas en lugar de párrafos. Resume el verano.
Neither Poland nor Hungary belongs in the totals. What is the total then?
You can drop the A4 thing, we're going fully digital. Show the table again.
Sundays are closed, so a Sunday sale is an error. Did you find any?
I only have read access to the warehouse database. Where's the stock table?
The intern's spreadsheet is off limits. Which sources did you use?
Please always put the newest month on the left. Show the last six.
Watch the tone: the store managers see this, and two of them were just let go. Write the note on staffing.
Six months of history is all I'm allowed to use. Plot what you can.
Make it 9 slides instead of 12, the slot got shorter. Which would you cut?""".splitlines()
"""Polite, indirect, negative, conditional, in other languages; some correct or withdraw
an earlier one."""
LONG_ASK = (
    "Please look at the northern region again, compare what its stores sold in spring "
    "with what they sold in autumn, and say which season explains more of the growth."
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("constraints", "ask", "quotes"),
    [
        (CONSTRAINTS, LONG_ASK, True),
        (CONSTRAINTS, "Go on.", False),
        (VARIED, "", False),
    ],
    ids=["long, quoted", "short", "varied"],
)
def test_protection_rules_everyday_constraints_hold_after_ten_compactions(
    constraints: list[str], ask: str, *, quotes: bool
):
    """Of long messages a model quotes them, once; short ones stay without its help.

    They stand in the order in which they were said, so a reader sees corrections.
    """
    waiting = list(constraints)

    def writing(asked: Request) -> Line:
        if not asked.answer_tag:
            return says(LONG * 3)
        covered = "\n".join(entry.content for entry in asked.history)
        new = [each for each in waiting if quotes and each in covered]
        waiting[:] = [each for each in waiting if each not in new]
        return says(
            "\n".join([f"<summary>{TOLD}", *(f'- "{n}"' for n in new), "</summary>"])
        )

    agent = agent_with(*[writing] * 900, max_output_tokens=500)
    made: list[Compaction] = []
    said = iter(constraints)
    while len(made) < 10:
        events = agent.run(f"{next(said, '')} {ask}".strip() or "Go on.")
        made += [each.compaction for each in events if isinstance(each, Compacted)]
    entry = made[-1].summary
    assert COUNT(entry) <= 2_500
    assert [each for each in constraints if each not in entry] == []
    places = [entry.index(each) for each in constraints]
    assert places == sorted(places)
    assert {rule.text for rule in made[-1].rules} == set(constraints if quotes else ())


# Selective tool post-processing

HITS = [
    {
        "title": f"Result {n}",
        "url": f"https://example.com/{n}",
        "snippet": f"What page {n} says.",
        "html": f"<html><body>{'<p>sales sales sales</p>' * 60}</body></html>",
    }
    for n in range(8)
]
ROWS = [
    {"id": n, "region": f"R{n % 7}", "quarter": n % 4 + 1, "amount": n * 137}
    for n in range(1_000)
]


def test_compress_a_web_search_keeps_titles_snippets_and_addresses():
    text = seen("web_search", json.dumps({"results": HITS}))
    for hit in HITS:
        assert {hit["title"], hit["url"], hit["snippet"]} <= {
            line.strip().removeprefix(f"{HITS.index(hit) + 1}. ")
            for line in text.splitlines()
        }
    assert "<p>" not in text
    assert COUNT(text) < 250


def lines_of_code(count: int) -> str:
    return "\n".join(f"    value_{n} = compute({n})" for n in range(1, count + 1))


def test_compress_a_file_of_more_than_500_lines_to_its_ends_and_the_range_between():
    text = seen("read_file", lines_of_code(501))
    assert "[lines 21 to 491 of 501 omitted]" in text
    assert "    value_20 = compute(20)\n" in text
    assert "\n    value_492 = compute(492)" in text
    assert "value_300 " not in text
    assert seen("read_file", lines_of_code(500)) == lines_of_code(500)


@pytest.mark.parametrize(
    "wrap", [list, lambda rows: {"rows": rows}], ids=["bare", "in"]
)
def test_compress_a_query_of_more_than_100_rows_to_their_count_and_samples(wrap):
    text = seen("database_query", json.dumps(wrap(ROWS)))
    assert "of 1,000 rows" in text
    assert '"id": 0, "region": "R0", "quarter": 1, "amount": 0' in text
    assert '"id": 500' not in text
    assert COUNT(text) < 250
    whole = json.dumps(wrap(ROWS[:100]))
    assert COUNT(whole) > 2_000
    assert seen("database_query", whole) == whole
    assert "of 101 rows" in seen("database_query", json.dumps(wrap(ROWS[:101])))


def test_compress_an_api_answer_to_its_status_and_key_fields():
    answer = {
        "headers": {f"x-meta-{n}": "nobody reads this header, " * 4 for n in range(40)},
        "status": "shipped",
        "id": "ord_991",
        "total": 412.5,
        "customer": {"name": "Ada", "email": "ada@example.com"},
    }
    text = seen("get_order", json.dumps(answer))
    for kept in ('"status": "shipped"', '"id": "ord_991"', '"total": 412.5', '"Ada"'):
        assert kept in text
    assert COUNT(text) < COUNT(json.dumps(answer)) / 2


def test_compress_an_api_answer_without_the_values_of_its_headers():
    answer = {
        "status": 200,
        "headers": {f"x-request-{n}": f"req-{n}af{n}" for n in range(24)},
        "data": {
            "order": {f"field_{n}": f"value-{n}" for n in range(20)},
            "note": "late " * 200,
        },
    }
    text = seen("get_order", json.dumps(answer))
    assert "req-" not in text
    assert '"status": 200' in text
    assert all(f"value-{n}" in text for n in range(20))


def test_compress_loses_nothing_the_whole_output_comes_back():
    agent = fetched("database_query", json.dumps(ROWS))
    text = agent.session.history[2].content
    assert "recall(2) returns them" in text
    assert agent.session.transcript[2].content == json.dumps(ROWS)
    assert '"id": 20' in agent.session.recall(2).text()
    assert '"id": 500' in agent.session.recall('"id": 500').text()


def test_preserve_tool_errors_whole_up_to_500_lines():
    trace = "".join(f'  File "sales.py", line {n}, in fetch\n' for n in range(450))

    def fail() -> str:
        raise ValueError(trace)

    provider = ScriptedProvider(calls("query"), says("Oh."), window=WINDOW * 10)
    agent = Agent(
        provider,
        tools=[tool_giving("query", fail)],
        engine=CompactionEngine(policy=POLICY),
    )
    list(agent.run("Please look."))
    assert trace in provider.requests[1].history[-1].content
    told = "Traceback (most recent call last):\n" + trace[:20_000]
    assert COUNT(told) > 5_000
    assert seen("read_file", told) == told


@pytest.mark.parametrize("name", ["read_code", "Read", "get_source"])
def test_preserve_code_of_at_most_500_lines_whatever_the_tool_is_called(name: str):
    lines = [
        f"    v{n} = compute(v{n - 1}, {n}, name='{n}', retry=False)" for n in range(90)
    ]
    agent = fetched(name, "\n".join(lines))
    (seen,) = [e.content for e in chat_requests(agent)[-1].history if e.role == "tool"]
    assert seen == "\n".join(lines)


def test_preserve_results_below_200_tokens():
    small = json.dumps(HITS[:1])
    page = "<p>sales</p>\n" * 30
    assert 100 < COUNT(page) < 200
    assert seen("web_search", page) == page
    assert COUNT(small) > 200
    assert seen("web_search", small) != small


@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_preserve_structured_results_below_500_tokens(kind: str):
    def structure(count: int) -> str:
        fields = {f"key_{n}": {"value": f"number {n}"} for n in range(count)}
        if kind == "json":
            return json.dumps(fields)
        return "\n".join(f"key_{n}: value number {n}" for n in range(count))

    small = structure(26 if kind == "json" else 50)
    large = structure(150 if kind == "json" else 1_000)  # a text of 500 lines is whole
    assert 300 < COUNT(small) < 500 < COUNT(large)
    assert seen("get_config", small) == small
    assert seen("get_config", large) != large


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("web_search", json.dumps({"results": HITS})),
        ("read_file", lines_of_code(900)),
        ("database_query", json.dumps(ROWS)),
    ],
)
def test_preserve_everything_with_debug_verbosity(name: str, output: str):
    assert seen(name, output, verbosity="debug") == output
    assert seen(name, output) != output


# Example, pseudocode, best practices


def test_example_the_sales_chat_shrinks_by_two_thirds_and_more():
    rows = [json.dumps(ROWS), json.dumps(ROWS[:300])]
    provider = ScriptedProvider(
        calls("database_query"),
        says(f"Here's the analysis: {LONG * 3}"),
        calls("database_query"),
        says("Q3 shows growth of 15 %."),
        says("I'll fetch Q2 data..."),
        chatting,
        window=WINDOW,
    )
    agent = Agent(
        provider,
        tools=[tool_giving("database_query", lambda: rows.pop(0))],
        engine=CompactionEngine(policy=POLICY),
    )
    asked = "Can you analyze the latest sales data?"
    for text in (asked, "What about Q3 specifically?", "Compare to Q2?"):
        list(agent.run(text))
    events = list(agent.compact())
    record = events[-1].compaction
    assert record.tokens_after < record.tokens_before / 3
    kept = [entry.content for entry in agent.session.history[1:]]
    assert kept[-2:] == ["Compare to Q2?", "I'll fetch Q2 data..."]
    assert "reduction)" in session_log(agent.session)


def test_best_practice_3_every_action_is_in_the_log_failed_and_undone_ones_too():
    agent = agent_with(
        calls("database_query"),
        chatting,
        chatting,
        *[says("no summary")] * 4,
        session=Session(chat(20)),
        tools=[tool_giving("database_query", lambda: json.dumps(ROWS))],
    )
    list(agent.run("Fetch the sales."))
    list(agent.compact())
    list(agent.undo_compaction())
    assert isinstance(list(agent.compact())[-1], CompactionFailed)
    log = session_log(agent.session, WINDOW)
    told = [part.splitlines()[1] for part in log.split("## Token Usage @ ")[1:]]
    assert len(told) == 4
    assert told[0].startswith("Shortened 1 tool outputs (#22) (saved ~")
    assert told[1].startswith("Summarized 21 messages → 1 summary (saved ~")
    assert told[2].startswith("Undone: summarized")
    assert told[3].startswith("Failed, the history is unchanged: summarized")


def test_best_practice_5_real_conversations_are_untouched_in_debug_mode():
    for run in read_trajectories()[:6]:
        provider = ScriptedProvider(window=WINDOW * 10)
        config = settings(policy=POLICY, policies={POLICY: {"verbosity": "debug"}})
        engine = build_engine(config, provider)
        session = Session()
        for entry in run.entries:
            session.append(entry)
            assert entry.role != "tool" or engine.shorten(session) is None


# Monitoring


def test_monitoring_gives_pre_post_and_savings_as_the_document_shows_them():
    record = Compaction(
        "c",
        0,
        8,
        "<summary>\nx\n</summary>",
        tokens_before=4_200,
        tokens_after=2_800,
        created_at="2025-11-09T10:35:22.120+00:00",
        policy=POLICY,
        messages=8,
    )
    session = Session(chat(11), compactions=[record])
    assert session_log(session, 8_000).startswith(
        "# SESSION_LOG\n\n"
        "## Token Usage @ 2025-11-09T10:35:22\n"
        "Summarized 8 messages → 1 summary (saved ~1,400 tokens)\n"
        "- Pre-summarization: 4,200 / 8,000 (52.5%)\n"
        "- Post-summarization: 2,800 / 8,000 (35.0%)\n"
        "- Savings: 1,400 tokens (33% reduction)\n"
    )


def test_monitoring_sums_up_what_was_made_saved_and_paid():
    def naming(asked: Request) -> Line:
        told = f"<summary>{TOLD} Region R3 is the largest.</summary>"
        return says(told if asked.answer_tag else LONG)

    agent = agent_with(
        calls("database_query"),
        *[naming] * 200,
        tools=[tool_giving("database_query", lambda: json.dumps(ROWS))],
    )
    made = until_compacted(agent, times=3)
    figures = monitoring(agent.session)
    assert (figures.compactions, figures.outputs_shortened) == (2, 1)
    assert (figures.failed, figures.degraded, figures.success_share) == (0, 0, 1)
    saved = [each.tokens_before - each.tokens_after for each in made]
    assert figures.tokens_saved == sum(saved)
    count = agent.provider.count_tokens
    asked = [count(each) for each in summary_requests(agent)]
    assert figures.cost.input_tokens == sum(asked)
    log = session_log(agent.session)
    assert "- Compactions: 2 (0 without a model, 0 failed; 100% successful)" in log
    assert "- Tool outputs shortened: 1" in log


def test_monitoring_keeps_the_log_by_itself_in_a_folder(store, tmp_path):
    agent = agent_with()
    agent.autosave = autosave_of(store, agent.session, agent, log_folder=str(tmp_path))
    until_compacted(agent)
    list(agent.run("Go on."))
    (file,) = tmp_path.glob("*.SESSION_LOG.md")
    text = file.read_text(encoding="utf-8")
    assert text == session_log(agent.session, WINDOW)
    assert text.count("## Token Usage @ ") == text.count("\nSummarized ") == 1
    assert f" / {WINDOW:,} (" in text


def test_monitoring_never_counts_a_summary_by_code_as_a_success():
    def failing(asked: Request) -> Line:
        return fails(RequestRefused("no")) if asked.answer_tag else says(LONG)

    agent = agent_with(*[failing] * 400)
    made = until_compacted(agent)
    assert made[-1].status == "degraded"
    assert monitoring(agent.session).success_share == 0
