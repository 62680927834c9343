"""Old tool outputs get smaller by their kind, without a model, and nothing is lost."""

import json
import re
from pathlib import Path

import pytest
from cpu_time import CpuTime
from hypothesis import given
from hypothesis import strategies as st
from trajectories import Trajectory, read_trajectories
from wire_rules import anthropic_faults, openai_faults

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.exact_json import parsed
from nbchat.compaction.policies import Policy
from nbchat.compaction.pruning.json_outline import outline
from nbchat.compaction.pruning.output_kinds import ANSWER_TOKENS, shortened
from nbchat.compaction.pruning.outputs import make_pruning, prune_text
from nbchat.conversation.entries import FAILED, Compaction, Entry
from nbchat.conversation.events import Compacted, CompactionUndone
from nbchat.conversation.session import Session
from nbchat.providers import anthropic as anthropic_wire
from nbchat.providers import openai_chat as openai_wire
from nbchat.providers.base import Request
from nbchat.providers.history_repair import legal
from nbchat.providers.model_info import ModelInfo
from nbchat.providers.tokens import TokenCounter
from nbchat.rendering.banners import compaction_html, compaction_text
from nbchat.storage.factory import autosave_of
from nbchat.storage.store import SessionStore
from nbchat.testing import Line, ScriptedProvider, calls, says

pytestmark = pytest.mark.usefixtures("garbage_kept")

COUNTER = TokenCounter()
PRUNES = Policy("test", prunes=True)
LOG = "\n".join(f"line {n}: worker {n % 7} did step {n * 31 % 97}" for n in range(400))
NOTE = re.compile(r"\[[\d,]+ of [\d,]+ tokens omitted(; recall\(\d+\) .*)?\]$")


def session(*outputs: str, tool: str = "look", steps_after: int = 3) -> Session:
    """A turn in which a tool was called for each output, and some small steps after."""
    kept = Session([("user", "Find out."), ("assistant", "I will.")])
    for number, output in enumerate((*outputs, *["ok"] * steps_after)):
        kept.append(Entry("assistant", "", f"c{number}", tool, "{}"))
        kept.append(Entry("tool", output, f"c{number}", tool))
    return kept


def pruned(kept: Session) -> dict[int, str]:
    return dict(make_pruning(kept, COUNTER).replacements)


def commit(kept: Session, engine: CompactionEngine) -> bool:
    record = engine.prune(kept)
    if record is not None:
        kept.compactions.append(record)
    return record is not None


def test_search_results_keep_title_address_and_a_snippet():
    found = [
        {
            "title": f"Page {n}",
            "url": f"https://example.org/{n}",
            "content": f"The {n}th page begins. " + "And it goes on and on. " * 60,
            "html": "<div>" * 100,
        }
        for n in range(5)
    ]
    text = shortened(json.dumps({"query": "pages", "results": found}), COUNTER.count)
    assert '{"query": "pages"}' in text
    for n in range(5):
        assert f"{n + 1}. Page {n}\n   https://example.org/{n}\n   The {n}th" in text
    assert "<div>" not in text
    assert COUNTER.count(text) < 400


@pytest.mark.parametrize(
    "form",
    [
        "{n}. Page {n}\n   https://example.org/{n}\n   The {n}th page begins. {more}",
        "Title: Page {n}\nURL: https://example.org/{n}\nThe {n}th page begins. {more}",
        "[Page {n}](https://example.org/{n})\nThe {n}th page begins. {more}",
    ],
)
def test_search_results_in_words_keep_the_same(form: str):
    more = "And it goes on and on. " * 60
    text = "\n\n".join(form.format(n=n, more=more) for n in range(30))
    short = shortened(text, COUNTER.count)
    assert "1. Page 0\n   https://example.org/0\n   The 0th page begins. And" in short
    missing = 30 - short.count("https://")
    assert short.endswith(f"[{missing} more hits]")
    assert missing > 0


def test_a_tool_that_searches_may_answer_without_addresses():
    found = [{"id": f"doc_{n}", "title": f"Doc {n}", "text": LOG} for n in range(3)]
    short = shortened(
        json.dumps(found), COUNTER.count, tool_name="search_help_articles"
    )
    assert "3. Doc 2 (id doc_2)\n   line 0: worker 0" in short
    assert "(id doc_2)" not in shortened(
        json.dumps(found), COUNTER.count, tool_name="get"
    )


def test_a_list_in_which_not_all_are_hits_keeps_what_is_none():
    found = [
        {"title": f"Page {n}", "url": f"https://example.org/{n}"} for n in range(60)
    ]
    found[7] = {"order_id": "W100", "total": 12}
    short = shortened(json.dumps(found), COUNTER.count)
    assert '{"order_id": "W100", …}, {"title": "Page 8"' in short


def test_a_page_with_a_few_links_on_lines_of_their_own_is_no_list_of_hits():
    link = "Where to read on:\nhttps://example.org/1\n\n"
    page = f"{link}{link}" + "And so on it goes, and on.\n\n" * 60
    assert "characters omitted]" in shortened(page, COUNTER.count)


def test_a_page_with_links_in_its_sentences_is_a_text_and_no_list_of_hits():
    page = "See https://example.org/a for more on that.\nAnd so on it goes.\n\n" * 60
    assert "characters omitted]" in shortened(page, COUNTER.count)


def numbered(lines: int) -> str:
    return "\n".join(f"{n:6}\tvalue_{n} = compute({n})" for n in range(1, lines + 1))


def test_a_file_over_500_lines_keeps_its_head_its_tail_and_the_range_between():
    assert shortened(numbered(499), COUNTER.count) == numbered(499)
    short = shortened(numbered(1_240), COUNTER.count)
    assert short.startswith("     1\tvalue_1 = compute(1)\n     2\t")
    assert "\n[lines 21 to 1,230 of 1,240 omitted]\n  1231\tvalue_1231" in short
    assert short.endswith("value_1240 = compute(1240)")


def test_a_file_known_by_its_tool_is_treated_as_one():
    text = "\n".join(f"value_{n} = compute({n})" for n in range(400))
    assert shortened(text, COUNTER.count, tool_name="read_file") == text
    assert shortened(text, COUNTER.count) != text
    longer = f"{text}\n{text}"
    assert "[lines 21 to 790 of 800 omitted]" in shortened(
        longer, COUNTER.count, tool_name="readFile"
    )


def test_a_file_of_one_endless_line_is_no_small_file():
    assert (
        len(shortened("x1y2" * 100_000, COUNTER.count, tool_name="read_file")) < 1_000
    )


@pytest.mark.parametrize(
    ("head", "row"),
    [
        ("id,name,total", "{n},Name {n},{n}.50"),
        ("id\tname", "{n}\tName {n}"),
        ("| id | name |\n|---|---|", "| {n} | Name {n} |"),
        (" id | name | total\n----+------+------", " {n} | Name {n} | 3"),
    ],
)
def test_a_table_over_100_rows_keeps_its_head_count_and_a_sample(head: str, row: str):
    rows = [row.format(n=n) for n in range(1_200)]
    small = "\n".join([head, *rows[:100]])
    assert shortened(small, COUNTER.count) == small
    short = shortened("\n".join([head, *rows]), COUNTER.count)
    sample = "\n".join([head, *rows[:4]])
    assert short == f"{sample}\n[1,195 of 1,200 rows omitted]\n{rows[-1]}"


def test_rows_as_json_keep_their_count_columns_and_a_sample():
    rows = [{"id": n, "name": f"Name {n}", "total": n / 4} for n in range(1_200)]
    short = shortened(json.dumps({"status": "ok", "rows": rows}), COUNTER.count)
    assert short.startswith('{"status": "ok", "rows": [{"id": 0, "name": "Name 0",')
    assert '1,195 more of 1,200 rows with "id", "name", "total"]' in short
    assert '"id": 1199' in short
    lines = "\n".join(map(json.dumps, rows))
    assert "[1,195 of 1,200 rows omitted]" in shortened(lines, COUNTER.count)


def test_an_answer_keeps_its_state_its_ids_and_its_numbers_as_written():
    answer = {
        "description": "It is a very long text. " * 200,
        "order": {"order_id": "W100", "total": 0, "note": "as before", "paid": True},
        "customer": {"email": "ada@example.org", "born": "1815-12-10"},
        "status": "delivered",
    }
    text = json.dumps(answer).replace('"total": 0', '"total": 2674.40')
    short = shortened(text, COUNTER.count)
    for kept in ("delivered", "W100", "2674.40", "ada@example.org", "1815-12-10"):
        assert kept in short
    assert "It is a very long text. It" in short
    assert "4,700 characters more)" in short


def test_of_an_answer_that_cannot_stay_the_names_go_last():
    items = [{"item_id": f"I{n}", "note": "words and words " * 5} for n in range(20)]
    short = outline(items, ANSWER_TOKENS, COUNTER.count)
    assert all(f'"item_id": "I{n}"' in short for n in range(20))
    assert COUNTER.count(short) <= ANSWER_TOKENS


def test_a_long_text_keeps_its_head_and_its_tail():
    short = shortened(LOG, COUNTER.count)
    assert short.startswith("line 0: worker 0 did step 0\n")
    assert short.endswith(LOG[-100:])
    assert "characters omitted]" in short


@pytest.mark.parametrize(
    "text",
    [
        "short",
        "word " * 180,
        json.dumps([{"id": n, "name": f"N{n}"} for n in range(30)]),
        "\n".join(
            f"field_{n}: a value of {n} and no more than that" for n in range(33)
        ),
    ],
)
def test_small_outputs_and_small_structures_stay_whole(text: str):
    assert shortened(text, COUNTER.count) == text


def test_an_output_marked_as_failed_stays_whole():
    kept = session()
    kept.append(Entry("assistant", "", "x", "look", "{}"))
    kept.append(Entry("tool", LOG, "x", "look", FAILED))
    for n in range(5):
        kept.append(Entry("user", f"and {n}?"))
    assert pruned(kept) == {}


def test_the_last_line_says_what_is_missing_and_how_to_get_it():
    kept = session(LOG)
    (place, text), *none = pruned(kept).items()
    assert none == []
    assert kept.transcript[place].content == LOG
    whole = COUNTER.count(LOG)
    last = text.splitlines()[-1]
    assert last.endswith(f" of {whole:,} tokens omitted; recall({place}) returns them]")
    missing = int(last[1:].split()[0].replace(",", ""))
    assert missing == whole - COUNTER.count(text.rpartition("\n")[0])


def test_the_newest_three_units_stay_untouched():
    assert list(pruned(session(LOG, LOG + "2", steps_after=2))) == [3]
    assert list(pruned(session(LOG, LOG + "2", steps_after=3))) == [3, 5]
    assert pruned(session(LOG, steps_after=2)) == {}


def test_of_the_same_output_read_again_the_later_one_stays():
    text = pruned(session(numbered(300), "ok", numbered(300)))
    assert list(text) == [3]
    first, last = text[3].splitlines()
    assert first == "[same as recall(7)]"
    assert last.endswith("recall(3) returns them]")


def test_a_protected_tool_keeps_its_outputs():
    engine = CompactionEngine(
        policy=Policy("p", prunes=True, protected_tools=("look",))
    )
    assert engine.prune(session(LOG)) is None


def test_a_policy_that_does_not_prune_does_not():
    assert CompactionEngine().prune(session(LOG)) is None
    assert CompactionEngine(policy=PRUNES).prune(session(LOG)) is not None


def test_a_pruning_that_frees_too_little_is_not_worth_the_cache():
    said = "We talked of this and that and came to no end of it. " * 400
    kept = Session([("user", said), *session(LOG[:2_000]).transcript])
    assert make_pruning(kept, COUNTER).saved_tokens > 300
    assert CompactionEngine(policy=PRUNES).prune(kept) is None


def test_no_output_is_pruned_while_a_call_waits():
    kept = session(LOG)
    kept.append(Entry("assistant", "", "open", "look", "{}"))
    assert CompactionEngine(policy=PRUNES).prune(kept) is None


def test_a_window_that_stays_too_full_needs_a_summary():
    def proposed(window: int) -> bool:
        engine = CompactionEngine(policy=PRUNES, info=ModelInfo("m", window=window))
        return engine.prune(kept, trigger="window") is not None

    kept = session(LOG, "word " * 1_500, steps_after=2)
    left = CompactionEngine(policy=PRUNES).prune(kept).tokens_after
    assert proposed(left * 3)
    assert not proposed(left)


def read(lines: int = 400) -> str:
    """Read the log."""
    return "\n".join(LOG.splitlines()[:lines])


def agent_with(
    *lines: object, policy: Policy = PRUNES, threshold: int = 9_000
) -> Agent:
    engine = CompactionEngine(threshold, policy=policy)
    return Agent(ScriptedProvider(*lines), tools=[read], engine=engine)  # type: ignore[arg-type]


TALK = (calls("read"), says("one"), says("two"), says("three"), says("four"))


def test_when_a_pruning_is_enough_no_model_is_asked_for_a_summary():
    agent = agent_with(*TALK)
    events = [e for text in ("read it", "and?", "so?") for e in agent.run(text)]
    (record,) = [e.compaction for e in events if isinstance(e, Compacted)]
    assert (record.kind, record.trigger, record.model) == ("pruning", "cumulative", "")
    assert record.cost.total_tokens == 0
    assert record.tokens_after < record.tokens_before / 2
    assert all(request.answer_tag == "" for request in agent.provider.requests)
    assert agent.engine.input_tokens < 9_000
    assert agent.ask("more?") == "four"
    seen = agent.provider.requests[-1].history[2].content
    assert seen.startswith("line 0: worker 0")
    assert seen.endswith("recall(2) returns them]")
    assert agent.session.transcript[2].content == LOG
    assert compaction_text(record)
    assert compaction_html(record)


def test_prunings_give_a_failing_summariser_no_new_patience():
    broken = 0

    def line(request: Request) -> Line:
        nonlocal broken
        if request.answer_tag:
            broken += 1
            return says("no tags")
        is_asked = request.history[-1].role == "user"
        return calls("read", lines=60) if is_asked else says("Fine.")

    agent = agent_with(*[line] * 1_000, threshold=1_500)
    for turn in range(50):
        list(agent.run(f"Read it, {turn}."))
    kinds = [record.kind for record in agent.session.active_compactions]
    assert kinds.count("pruning") > 5
    assert broken <= 7  # two answers, then one after 1, 2, 4, 8 and 16 requests


def test_without_pruning_the_same_talk_is_summarised():
    agent = agent_with(*TALK, policy=Policy("plain"))
    for text in ("read it", "and?", "so?"):
        list(agent.run(text))
    assert any(request.answer_tag for request in agent.provider.requests)


def test_a_summary_after_a_pruning_sees_the_originals():
    kept = session(LOG[:6_000])
    engine = CompactionEngine(policy=PRUNES)
    assert commit(kept, engine)
    plan = engine.plan(kept)
    assert LOG[:6_000] in engine.create_summary_request(plan).history[0].content
    seen = kept.history[: -len(plan.recent)]
    assert plan.tokens_covered == engine.tracker.counter.count_entries(seen)


def test_undo_reverts_the_newest_record_and_restores_the_pruned_view():
    agent = agent_with(*[says("<summary>It was read.</summary>")] * 3)
    agent.session = kept = session(LOG, LOG[::-1], steps_after=6)
    whole = kept.history
    assert commit(kept, agent.engine)
    shorter = kept.history
    assert shorter != whole
    list(agent.compact())
    assert kept.history[0].role == "summary"
    for view in (shorter, whole):
        events = list(agent.undo_compaction())
        assert isinstance(events[-1], CompactionUndone)
        assert kept.history == view
    assert agent.engine.undo(kept) is None


def test_prunings_pile_up_and_never_touch_what_is_short_already():
    kept = session(LOG)
    engine = CompactionEngine(policy=PRUNES)
    assert commit(kept, engine)
    first = kept.history[3]
    assert not commit(kept, engine)
    for n in range(4):
        kept.append(Entry("assistant", "", f"d{n}", "look", "{}"))
        kept.append(Entry("tool", LOG[n:], f"d{n}", "look"))
    assert commit(kept, engine)
    assert kept.history[3] == first
    assert len(kept.active_compactions) == 2


def test_what_a_summary_covers_is_not_pruned():
    kept = session(LOG, LOG + "2", steps_after=4)
    kept.compactions.append(Compaction("s", 0, 4, "<summary>x</summary>"))
    assert list(pruned(kept)) == [5]


def test_a_pruned_view_is_the_same_after_saving_and_loading(tmp_path: Path):
    store = SessionStore(f"sqlite:///{tmp_path / 'sessions.db'}")
    agent = agent_with(*TALK)
    agent.autosave = autosave_of(store, agent.session, agent)
    for text in ("read it", "and?", "so?"):
        list(agent.run(text))
    loaded = store.load(agent.session.session_id)
    assert loaded.history == agent.session.history != agent.session.transcript
    assert loaded.compactions == agent.session.compactions


@pytest.mark.parametrize("run", read_trajectories(), ids=lambda run: run.name[:40])
def test_real_conversations_prune_legally_and_keep_their_names(run: Trajectory):
    kept = Session(run.entries)
    found = make_pruning(kept, COUNTER)
    for place, text in found.replacements:
        whole, value = run.entries[place], parsed(run.entries[place].content)
        assert COUNTER.count(text) < COUNTER.count(whole.content)
        assert NOTE.search(text)
        again = whole._replace(content=text)
        assert prune_text(again, COUNTER) == text
        if value is not None and not text.startswith("[same as"):
            names = set(re.findall(r'_(?:id|number)": "([^"]+)"', whole.content))
            assert names
            assert names <= set(re.findall(r'"([^"]+)"', text))
    assert found.saved_tokens == COUNTER.count_entries(
        run.entries
    ) - COUNTER.count_entries(
        [
            entry._replace(content=dict(found.replacements).get(place, entry.content))
            for place, entry in enumerate(run.entries)
        ]
    )
    if commit(kept, CompactionEngine(policy=PRUNES)):
        assert len(kept.history) == len(run.entries)
    assert tuple(kept.transcript) == run.entries
    history = (*legal(kept.history), Entry("user", "Go on."))
    request = Request(history, run.system, max_output_tokens=100)
    body = openai_wire.body(request)
    said = [m for m in body["messages"] if m["role"] not in ("system", "developer")]
    assert openai_faults(said) == []
    assert anthropic_faults(anthropic_wire.wire_messages(request)) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=80), inner),
    max_leaves=20,
)


@pytest.mark.slow
@given(value=st.lists(JSON, min_size=1, max_size=50), repeat=st.integers(1, 40))
def test_any_json_gets_smaller_or_stays_and_twice_is_once(value: list, repeat: int):
    entry = Entry("tool", json.dumps(value * repeat), "1", "get")
    once = prune_text(entry, COUNTER, position=7)
    assert once == entry.content or COUNTER.count(once) < COUNTER.count(entry.content)
    assert prune_text(entry._replace(content=once), COUNTER, position=7) == once
    assert prune_text(entry, COUNTER, position=7) == once


@pytest.mark.slow
@given(text=st.text(max_size=400), mark=st.sampled_from(["", "\n", "\t", ",", " | "]))
def test_any_text_gets_smaller_or_stays_and_twice_is_once(text: str, mark: str):
    entry = Entry("tool", (text + mark) * 50, "1", "get")
    once = prune_text(entry, COUNTER)
    assert once == entry.content or COUNTER.count(once) < COUNTER.count(entry.content)
    assert prune_text(entry._replace(content=once), COUNTER) == once


@pytest.mark.parametrize(
    "text",
    [
        "a" * 100_000,
        "\n" * 100_000,
        " " * 100_000,
        "\t|," * 33_000,
        "[" * 100_000,
        '{"a":' * 20_000 + "1" + "}" * 20_000,
        "[" * 300 + "1" * 90_000 + "]" * 300,
        '{"a":' * 950 + f'"{"1" * 90_000}"' + "}" * 950,
        json.dumps({"k" * 50_000: "v" * 50_000}),
        json.dumps([{}] * 30_000),
        json.dumps([[]] * 30_000),
        json.dumps({str(n): n for n in range(8_000)}),
        "https://" * 12_000,
        "[a](https://x)\n\n" * 6_000,
        "[" + "](" * 50_000,
        "- " * 50_000,
        "1\t" * 50_000,
        "----" * 25_000,
        "word: " * 20_000,
    ],
)
def test_hostile_outputs_take_no_longer_than_others(text: str):
    COUNTER.count("warm")
    began = CpuTime()
    entry = Entry("tool", text, "1", "search_files")
    once = prune_text(entry, COUNTER)
    assert began.spent() < 1
    assert len(once) < 6_000
    assert prune_text(entry._replace(content=once), COUNTER) == once


def test_what_is_no_output_of_a_tool_is_left_alone():
    assert prune_text(Entry("user", LOG), COUNTER) == LOG
    assert prune_text(Entry("tool", LOG, "1", "x", FAILED), COUNTER) == LOG
