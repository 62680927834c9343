"""What left the model's view is found again, by its position or by its words."""

import copy
import itertools
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cpu_time import CpuTime
from recall_questions import all_meetings, follow_ups, meetings
from tables import every

from nbchat.agent.agent import Agent
from nbchat.chat.commands import Commands
from nbchat.compaction.engine import CompactionEngine
from nbchat.config.layers import settings
from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.search import BUDGET_TOKENS, MOST_RESULTS, find, snippet
from nbchat.conversation.search_index import TOOL_NAME, SearchIndex
from nbchat.conversation.session import Session
from nbchat.errors import ConfigError
from nbchat.providers.tokens import TokenCounter
from nbchat.storage.factory import build_agent
from nbchat.storage.store import SessionStore
from nbchat.testing import ScriptedProvider, calls, says

STORY = "The customer asks about a parcel. " * 30
LOG = "\n".join(f"line {n}: worker {n % 7} did step {n * 31 % 97}" for n in range(480))

TALK = (
    Entry("user", "Order W100 is late."),
    Entry("assistant", "", "1", "get_order", '{"order": "W100"}'),
    Entry("tool", "W100 left Lisbon on 2025-03-01", "1", "get_order"),
    Entry("thinking", "W100 is in Lisbon", tool_name="anthropic"),
    Entry("assistant", "Your order left Lisbon."),
    Entry("user", "And the late one, was it in Lisbon?"),
)


def places(found) -> list[int]:
    return [place for place, _ in found.entries]


@every("query", [2, "2", " 2 ", "recall(2)", 'recall("2:3")', "2:3"])
def test_a_number_is_a_place_in_the_transcript(query: int | str):
    found = Session(TALK).recall(query)
    assert found.entries[0] == (2, TALK[2])


def test_a_call_comes_with_its_result_and_a_result_with_its_call():
    kept = Session(TALK)
    assert places(kept.recall(1)) == [1, 2]
    assert places(kept.recall(2)) == [2, 1]
    assert places(kept.recall('{"order": "w100"}')) == [1, 2]
    assert "call of get_order" in kept.recall("left Lisbon on").text()


FILLER = "Nothing of note was said here, and it took some time to say it. " * 20
"""Longer than a passage."""


def apart(*texts: str) -> Session:
    """A session in which each text is in a passage of its own."""
    return Session([("user", each) for text in texts for each in (text, FILLER)])


def best(session: Session, query: str) -> list[int]:
    """The numbers of the texts that are found, as `apart` was given them."""
    return [result.position // 2 for result in session.recall(query).results]


def test_any_word_finds_an_entry_and_more_words_find_it_first():
    kept = apart("the order left Porto", "Lisbon is far", "the order left Lisbon")
    assert best(kept, "order lisbon") == [2, 1, 0]
    assert best(kept, "Lisbon Madrid") == [1, 2]
    assert best(kept, "Madrid") == []
    assert kept.recall("Madrid").text() == "Nothing was found."
    assert best(kept, "") == []


def test_a_rare_word_counts_more_than_a_frequent_one():
    texts = [f"the printer number {n}" for n in range(5)]
    assert best(apart(*texts, "a toner"), "printer toner")[0] == 5


def test_the_exact_phrase_comes_first_the_newest_before_the_others():
    kept = apart("late in May", "in time or late, or late", "be late in  May")
    assert best(kept, "LATE in") == [2, 0, 1]
    assert best(kept, "in late") == best(kept, "late, in")


@every(
    ("text", "query"),
    [
        ("I was printing documents", "printed document"),
        ("Le caf\u00e9 est ferm\u00e9", "cafe"),
        ("Ann's printer", "ann printers"),
        ("the id is #W2378156.", "W2378156"),
        ("the id is #W2378156.", "2378156"),
        ("step_one of run-7", "run-7"),
        ("speech recognition", "speech-recognition"),
        ("Die Rechnungen sind falsch", "Rechnung"),
        (
            "\u0437\u0430\u043a\u0430\u0437\u044b \u043d\u0435 \u043f\u0440\u0438\u0448\u043b\u0438",
            "\u0437\u0430\u043a\u0430\u0437",
        ),
        ("\u6211\u4eec\u7684\u6253\u5370\u673a\u574f\u4e86", "\u6253\u5370\u673a"),
        ("\u6211\u4eec\u7684\u6253\u5370\u673a\u574f\u4e86", "\u673a"),
        (
            "\u6771\u4eac\u30bf\u30ef\u30fc\u306e\u9ad8\u3055\u306f333\u30e1\u30fc\u30c8\u30eb",
            "\u30bf\u30ef\u30fc \u9ad8\u3055",
        ),
        (
            "\ud504\ub9b0\ud130\uac00 \uace0\uc7a5\ub0ac\uc5b4\uc694",
            "\ud504\ub9b0\ud130",
        ),
        (
            "\u092e\u0947\u0930\u093e \u092a\u094d\u0930\u093f\u0902\u091f\u0930 \u0916\u0930\u093e\u092c \u0939\u0948",
            "\u092a\u094d\u0930\u093f\u0902\u091f\u0930",
        ),
        (
            "\u0627\u0644\u0637\u0627\u0628\u0639\u0629 \u0645\u0639\u0637\u0644\u0629",
            "\u0627\u0644\u0637\u0627\u0628\u0639\u0629",
        ),
        (
            "\u0e40\u0e04\u0e23\u0e37\u0e48\u0e2d\u0e07\u0e1e\u0e34\u0e21\u0e1e\u0e4c\u0e02\u0e2d\u0e07\u0e09\u0e31\u0e19",
            "\u0e1e\u0e34\u0e21\u0e1e\u0e4c",
        ),
        ("fine \U0001f642", "\U0001f642"),
        ("100% sure", "100%"),
    ],
)
def test_words_are_found_in_other_forms_scripts_and_inside_ids(text: str, query: str):
    assert best(apart("something else", text, "other things"), query) == [1]


def test_all_forms_of_a_word_are_found():
    kept = apart("it was printed", "I am printing", "something else", "a print")
    assert sorted(best(kept, "printed")) == [0, 1, 3]


def test_all_forms_of_a_word_in_other_alphabets_are_found():
    kept = apart("мой заказ", "нет заказа", "другое дело", "два заказа")
    assert sorted(best(kept, "заказа")) == [0, 1, 3]
    assert sorted(best(kept, "заказы")) == [0, 1, 3]


def test_an_id_that_never_occurs_finds_no_others_like_it():
    assert best(apart("order QX-77", "order ZZ-2"), "ZZ-77") == []


def test_a_result_is_a_passage_with_the_messages_around_the_best_one():
    kept = Session([*TALK[:3], *TALK[4:], ("user", FILLER), ("user", FILLER)])
    (result,) = kept.recall("Porto or Lisbon on 2025-03-01").results
    assert result.position == 2
    assert result.passage == range(6)
    text = kept.recall("W100 2025-03-01").text()
    assert [text.index(f"[{index}] ") for index in range(5)] == sorted(
        text.index(f"[{index}] ") for index in range(5)
    )


def test_results_are_passages_apart_from_each_other():
    kept = Session([("user", f"printer {n}: {STORY}") for n in range(50)])
    results = kept.recall("printer").results
    assert len(results) == MOST_RESULTS
    ordered = sorted(results, key=lambda result: result.position)
    for one, other in itertools.pairwise(ordered):
        assert one.passage.stop <= other.passage.start


def test_new_messages_are_found_and_the_rest_is_not_indexed_again():
    kept = apart(*[f"text {n}" for n in range(20)])
    for n in range(20, 40):
        assert best(kept, f"printer{n}") == []
        kept.append(Entry("user", f"printer{n}"))
        kept.append(Entry("user", FILLER))
        assert best(kept, f"printer{n}") == [n]
    fresh = Session(kept.transcript)
    for query in ("text", "note printer30", "text 7 printer39"):
        found, expected = (
            each._search_index.search(each.transcript, query) for each in (kept, fresh)
        )
        assert found == expected  # with equal scores


@pytest.mark.slow
def test_threads_may_search_one_session_at_once():
    kept = Session([("user", f"printer{n % 97} {STORY}") for n in range(300)])
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda n: places(kept.recall(f"printer{n}")), range(97)))
    assert all(place % 97 == n for n, found_ in enumerate(found) for place in found_)


def test_a_search_that_was_interrupted_is_made_up_for():
    class Interrupting(list):
        at = -1

        def __getitem__(self, key):
            if isinstance(key, slice) and key.start == self.at:
                self.at = -1
                return Broken([0])
            return super().__getitem__(key)

    class Broken(list):
        def __iter__(self):
            yield Entry("user", "one toner")
            raise KeyboardInterrupt

    entries = Interrupting(Entry("user", f"printer {n}") for n in range(5))
    index = SearchIndex()
    assert index.search(entries, "printer")
    entries += [Entry("user", "one toner"), Entry("user", "two toners")]
    entries.at = 5
    with pytest.raises(KeyboardInterrupt):
        index.search(entries, "toner")
    fresh = SearchIndex().search(list(entries), "toner printer")
    assert index.search(entries, "toner printer") == fresh


def test_a_copied_session_has_its_own_index():
    kept = Session(TALK)
    assert best(kept, "Lisbon")
    copied = copy.deepcopy(kept)
    copied.append(Entry("user", "toner"))
    kept.append(Entry("user", "paper"))
    assert (len(copied.search("toner")), len(copied.search("paper"))) == (1, 0)
    assert (len(kept.search("toner")), len(kept.search("paper"))) == (0, 1)


def test_the_text_of_an_attached_file_is_searched():
    data = json.dumps({"media_type": "text/plain", "data": "the toner is empty"})
    kept = Session([Entry("user", "a file", "", "notes.txt", data)])
    assert "the toner is empty" in kept.recall("toner").text()


def test_thinking_is_searched_only_for_the_user():
    kept = apart("hello")
    kept.append(Entry("thinking", "the toner", tool_name="anthropic"))
    assert places(kept.recall("toner")) == []
    assert kept.search("toner") == [2]


def test_a_number_that_is_no_place_is_looked_for_as_a_text():
    kept = Session([("user", "My order is 4760268021."), ("user", "Thanks.")])
    assert places(kept.recall("4760268021")) == [0]
    assert places(kept.recall(99)) == []
    assert places(kept.recall("W1")) == []


def test_results_are_bounded_and_the_positions_of_the_rest_are_named():
    kept = Session([("user", f"number {n}: {STORY * 3}") for n in range(50)])
    found = kept.recall("customer number")
    assert len(found.results) == MOST_RESULTS
    text = found.text()
    assert TokenCounter().count(text) <= BUDGET_TOKENS * 1.1
    shown = [
        result.position
        for result in found.results
        if f"[{result.position}] user" in text
    ]
    rest = [str(r.position) for r in found.results if r.position not in shown]
    assert shown
    assert rest
    assert text.endswith(f"[more matches: {', '.join(rest)}; recall one by its number]")


def test_a_long_entry_is_read_on_where_the_note_says():
    kept = Session([("user", "Read it."), ("tool", LOG, "1", "read")])
    query, parts = "1", []
    while query:
        text = kept.recall(query).text()
        assert len(text) < 4 * BUDGET_TOKENS
        head, *lines = text.split("\n")
        assert head == "[1] result of read:"
        more = lines.pop() if "characters more;" in lines[-1] else ""
        lines = lines[1:] if "characters before" in lines[0] else lines
        parts.append("\n".join(lines))
        query = more.partition('recall("')[2].rstrip('")]')
    assert len(parts) > 2
    assert "".join(parts) == LOG


def test_of_a_long_entry_the_part_with_the_words_is_shown():
    hay = "straw " * 10_000
    kept = Session([("user", f"{hay} the golden needle {hay}")])
    text = kept.recall("golden needle").text()
    assert "the golden needle" in text
    assert "characters before this]" in text
    assert "characters more; recall(" in text


def test_what_a_recall_brought_back_is_not_found_again():
    kept = Session(TALK)
    kept.append(Entry("assistant", "", "9", TOOL_NAME, '{"query": "lisbon order"}'))
    kept.append(Entry("tool", "[2] W100 left Lisbon", "9", TOOL_NAME))
    text = kept.recall("lisbon order").text()
    assert "[2] result of get_order" in text
    assert "of recall:" not in text
    assert places(kept.recall(7)) == [7, 6]


def test_a_recollection_shows_itself_and_nothing_in_it_runs():
    found = Session([("user", "<script>alert(1)</script> hello")]).recall("hello")
    assert repr(found) == "<SearchResults: 1 passages>"
    assert "&lt;script&gt;alert(1)&lt;/script&gt; hello" in found._repr_html_()


def test_what_was_recalled_can_be_displayed_whatever_it_holds() -> None:
    html = find([Entry("user", "half a \ud83d pair")], 0)._repr_html_()
    assert "half a ? pair" in html
    html.encode()


def test_hidden_is_what_a_summary_covers_or_a_pruning_shortens():
    kept = Session(TALK)
    assert kept.hidden_positions == set()
    kept.compactions.append(
        Compaction("p", 2, 3, "", kind="pruning", replacements=((2, "short"),))
    )
    assert kept.hidden_positions == {2}
    kept.compactions.append(Compaction("s", 0, 5, "<summary>x</summary>"))
    assert kept.hidden_positions == {0, 1, 2, 3, 4}


def read() -> str:
    """Read the log, which is too long to stay whole."""
    return f"{LOG}\n{LOG}"


def agent_with(*lines: object, **options: object) -> Agent:
    return Agent(
        ScriptedProvider(*lines),  # type: ignore[arg-type]
        tools=[read],
        engine=CompactionEngine(None),
        **options,  # type: ignore[arg-type]
    )


def tools(agent: Agent) -> list[str]:
    return [each.name for each in agent.tools]


def test_a_model_is_offered_recall_when_it_is_asked_for():
    assert tools(agent_with()) == ["read"]
    assert tools(agent_with(recall=True)) == ["read", "recall"]

    def recall() -> str:
        """One of the user's own."""
        return ""

    with pytest.raises(ConfigError, match="Two tools are named recall"):
        Agent(ScriptedProvider(), tools=[recall], recall=True)


def test_a_model_gets_back_what_it_sees_shortened_by_the_number_in_the_note():
    agent = agent_with(
        calls("read"),
        says("Step 50 is the last."),
        calls("recall", query="2"),
        says("Worker 3 was first."),
        recall=True,
    )
    agent.ask("Read it.")
    assert agent.session.history[2].content.endswith("recall(2) returns them]")
    agent.ask("Who was third?")
    answer = next(
        e
        for e in agent.session.transcript
        if e.tool_name == "recall" and e.role == "tool"
    )
    assert answer.content.startswith("[2] result of read:\nline 0: worker 0 did step 0")
    assert agent.engine.tracker.counter.count(answer.content) <= BUDGET_TOKENS


def test_a_model_finds_what_was_compacted_and_not_what_it_sees_anyway():
    agent = agent_with(
        says(f"Order W100 is in Lisbon. {STORY}"),
        says("<summary>They talked about a parcel.</summary>"),
        calls("recall", query="w100"),
        says("In Lisbon."),
        recall=True,
    )
    agent.ask(STORY)
    list(agent.compact())
    agent.ask("Where is W100?")
    answer = next(e for e in agent.session.transcript if e.role == "tool")
    assert "Order W100 is in Lisbon." in answer.content
    assert "Where is W100?" not in answer.content


def test_the_model_sees_if_nothing_was_omitted():
    agent = agent_with(calls("recall", query="x"), says("Well."), recall=True)
    agent.ask("Look it up.")
    assert agent.session.transcript[2].content.startswith("nothing is hidden")


def test_a_recall_is_no_row_of_the_facts():
    agent = agent_with(
        says(STORY),
        calls("recall", query="zzz"),
        says(STORY),
        says("<summary>A parcel.</summary>"),
        recall=True,
    )
    agent.ask("Hello.")
    agent.ask("What was it?")
    list(agent.compact())
    assert agent.session.compaction.status == "done"
    assert "recall" not in agent.session.compaction.summary


def test_slash_recall_finds_what_was_said(tmp_path: Path):
    agent = agent_with(says("In Lisbon."))
    agent.ask("Where is W100?")
    run = Commands(SessionStore(f"sqlite:///{tmp_path / 'sessions.db'}"))
    (found,) = run(agent, "/recall w100")
    assert found.text == "[0] user:\nWhere is W100?\n\n[1] assistant:\nIn Lisbon."
    (found,) = run(agent, "/recall 1")
    assert found.text == "[1] assistant:\nIn Lisbon."


@pytest.mark.parametrize(
    ("values", "is_offered"),
    [
        ({"model": "openai:gpt-5"}, True),
        ({"model": "anthropic:claude-haiku-4-5"}, True),
        ({"model": "openai:gemma3", "base_url": "http://127.0.0.1:1/v1"}, False),
        (
            {
                "model": "openai:gemma3",
                "base_url": "http://127.0.0.1:1/v1",
                "recall": True,
            },
            True,
        ),
        ({"model": "local:smollm2"}, False),
        ({"model": "openai:gpt-5", "recall": False}, False),
    ],
)
def test_recall_is_offered_where_tools_are_sure_to_work(
    values, is_offered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    url = f"sqlite:///{tmp_path / 'sessions.db'}"
    agent = build_agent(settings(store_url=url, **values))
    assert ("recall" in tools(agent)) == is_offered


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("a" * 100_000, "a" * 100_000),
        ("a b " * 25_000, "a b " * 25_000),
        (" " * 100_000, "x"),
        ("\ud800" * 100_000, "\ud800"),
        ("İ" * 100_000, "i̇"),
        ("7" * 100_000, "7" * 100_000),
        ("y" * 100_000 + "x", "x " * 50_000),
    ],
)
def test_hostile_texts_and_queries_take_no_longer_than_others(text: str, query: str):
    entries = [Entry("user", text)] * 10
    began = CpuTime()
    shown = find(entries, query).text()
    assert began.spent() < 1
    assert len(shown) < 5 * BUDGET_TOKENS


@pytest.mark.slow
def test_one_of_the_first_five_results_answers_nine_of_ten_questions():
    answered = [
        question.is_answered(each.session.recall(question.text))
        for each in meetings()
        for question in each.questions
    ]
    assert len(answered) == 108
    assert sum(answered) >= 0.89 * len(answered)


@pytest.mark.slow
def test_a_follow_up_finds_its_own_chat_among_many():
    asked = follow_ups("chats_oasst")
    found = [
        question.is_answered(asked.session.recall(question.text), first=10)
        for question in asked.questions
    ]
    assert sum(found) >= 0.7 * len(found)


@pytest.mark.slow
def test_a_hundred_thousand_messages_are_searched_in_50_milliseconds():
    asked = all_meetings()
    said = itertools.islice(itertools.cycle(asked.session.transcript), 100_000)
    session = Session(said)
    began = time.process_time()
    session.recall("hello")
    assert time.process_time() - began < 10  # 2 s: once, at the first search
    times = []
    for question in asked.questions[::5]:
        session.append(Entry("user", "One more."))
        began = time.process_time()
        assert session.recall(question.text).results
        times.append(time.process_time() - began)
    assert sorted(times)[len(times) // 2] < 0.05


def test_an_excerpt_is_the_part_that_matches_best():
    hay = "straw and hay " * 100
    text = f"needle {hay} the golden\nneedle is here {hay}"
    shown = snippet(text, "Golden needles")
    assert "the golden needle is here" in shown
    assert shown[0] == shown[-1] == "…"
    assert snippet("the needle", "x") == "the needle"
