"""Tool outputs get smaller by their kind, without a model."""

import json

import pytest
from cpu_time import CpuTime
from hypothesis import given, settings
from hypothesis import strategies as st

from nbchat.compaction.pruning.output_kinds import ANSWER_TOKENS, outline, shortened
from nbchat.providers.tokens import TokenCounter

pytestmark = pytest.mark.usefixtures("garbage_kept")

COUNTER = TokenCounter()
LOG = "\n".join(f"line {n}: worker {n % 7} did step {n * 31 % 97}" for n in range(400))


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


@pytest.mark.slow
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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=80), inner),
    max_leaves=20,
)


@pytest.mark.slow
@settings(max_examples=20)
@given(value=st.lists(JSON, min_size=1, max_size=50), repeat=st.integers(1, 40))
def test_any_json_gets_smaller_or_stays(value: list, repeat: int):
    text = json.dumps(value * repeat)
    short = shortened(text, COUNTER.count, tool_name="get")
    assert short == text or COUNTER.count(short) < COUNTER.count(text)


@pytest.mark.slow
@given(text=st.text(max_size=400), mark=st.sampled_from(["", "\n", "\t", ",", " | "]))
def test_any_text_gets_smaller_or_stays(text: str, mark: str):
    whole = (text + mark) * 50
    short = shortened(whole, COUNTER.count, tool_name="get")
    assert short == whole or COUNTER.count(short) < COUNTER.count(whole)


@pytest.mark.slow
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
    short = shortened(text, COUNTER.count, tool_name="search_files")
    assert began.spent() < 1
    assert len(short) < 6_000
