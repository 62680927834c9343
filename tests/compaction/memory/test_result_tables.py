"""Results read as objects: JSON, and text that is a table for sure."""

import json
import time

import pandas as pd
import pytest
from tables import every

from nbchat.compaction.results import (
    KEY,
    LONGEST_RESULT,
    is_id,
    read_result,
    siblings_in,
)

ROWS = [
    {"order_id": "W1", "state": "open", "total": "10.50"},
    {"order_id": "W2", "state": "shut", "total": "20.00"},
]


def groups(value: object) -> list[list[dict[str, object]]]:
    return [list(each.objects) for each in siblings_in(value, has_id)]


def has_id(node: dict[str, object]) -> bool:
    return any(is_id(name) and isinstance(node[name], str) for name in node)


@every(
    "text",
    [
        "order_id,state,total\nW1,open,10.50\nW2,shut,20.00\n",
        "order_id,state,total\r\nW1,open,10.50\r\nW2,shut,20.00\r\n",
        "order_id\tstate\ttotal\nW1\topen\t10.50\nW2\tshut\t20.00",
        "2 rows x 3 columns, as CSV:\norder_id,state,total\nW1,open,10.50\nW2,shut,20.00",
        "| order_id | state | total |\n|---|:-:|--:|\n| W1 | open | 10.50 |\n|W2|shut|20.00|",
        "Two orders:\n\n|order_id|state|total|\n|-|-|-|\n|W1|open|10.50|\n|W2|shut|20.00|\n\nDone.",
        " order_id | state | total\n----------+-------+------\n W1 | open | 10.50\n W2 | shut | 20.00\n(2 rows)",
        "+----------+-------+-------+\n| order_id | state | total |\n+----------+-------+-------+\n| W1 | open | 10.50 |\n| W2 | shut | 20.00 |\n+----------+-------+-------+",
        "  order_id state  total\n0       W1  open  10.50\n1       W2  shut  20.00",
        "          state  total\norder_id              \nW1         open  10.50\nW2         shut  20.00",
        "\n".join(map(json.dumps, ROWS)),
        json.dumps(json.dumps(ROWS)),
    ],
)
def test_a_table_is_read_in_each_of_its_forms(text: str):
    assert read_result(text) == ROWS


@every(
    "text",
    [
        "",
        "done",
        "Dear Ann, I am sorry,\nas I said, it is late,\nbest, Bob",
        "a,b\n1,2",
        "a,b\n1,2,3\n4,5,6",
        "a,a\n1,2\n3,4",
        "12,13\n14,15\n16,17",
        "    def x():\n        pass\ny = 1",
        "  a  b\nhello  x  y  z\nhello  x  y",
        "| only a header |\n|---|",
        '{"id": 1, "id": 2}',
        '{"id": 1',
        '{"a": 1}\nnot json',
        '"not closed',
        "5",
        "a,b\n1," + "x" * 200_000 + "\n1,2",
        "[" + " " * LONGEST_RESULT + "]",
    ],
)
def test_other_text_is_no_table(text: str):
    assert read_result(text) is None


def test_a_printed_dataframe_is_read_as_it_is_printed():
    frame = pd.DataFrame(
        {"name of it": ["a b", "c  d", "e"], "n": [1, 22, 333], "x": [0.5, None, -1]}
    )
    assert read_result(str(frame)) == [
        {"name of it": "a b", "n": "1", "x": "0.5"},
        {"name of it": "c  d", "n": "22", "x": "NaN"},
        {"name of it": "e", "n": "333", "x": "-1.0"},
    ]


def test_gaps_of_a_printed_dataframe_are_no_rows_and_its_size_is_no_row():
    frame = pd.DataFrame({"n": range(100), "text": ["x"] * 100})
    rows = read_result(repr(frame))
    assert isinstance(rows, list)
    assert [row["index"] for row in rows] == [
        *map(str, range(5)),
        *map(str, range(95, 100)),
    ]


def test_a_declared_table_ends_before_the_note_about_more_rows():
    text = "3 rows x 2 columns, as CSV:\na,b\n1,2\n... 2 more rows"
    assert read_result(text) == [{"a": "1", "b": "2"}]


def test_a_value_with_a_line_break_stays_whole():
    assert read_result('id,note\nW1,"one\ntwo"') == [{"id": "W1", "note": "one\ntwo"}]


def test_numbers_keep_the_digits_they_were_written_with():
    found = read_result('{"id": 10000000000000000001, "total": 54.50, "x": NaN}')
    assert found == {"id": "10000000000000000001", "total": "54.50", "x": "NaN"}


@every("value", [
        {"data": {"orders": ROWS}},
        {"ok": True, "count": 2, "results": ROWS},
        {"columns": ["order_id", "state", "total"], "rows": [[*each.values()] for each in ROWS]},
        {name: {str(n): row[name] for n, row in enumerate(ROWS)} for name in ROWS[0]},
        {"edges": [{"node": row} for row in ROWS]},
        {"W1": ROWS[0], "W2": ROWS[1]},
        [[ROWS[0], ROWS[1]]],
    ])  # fmt: skip
def test_records_are_taken_out_of_what_is_around_them(value: object):
    assert groups(value)[-1] == ROWS


def test_what_is_deeper_than_any_wrapper_is_not_taken_out():
    value: object = {"id": "W1"}
    for _ in range(20):
        value = {"data": value}
    assert groups(value) == [[value]]
    value = {"id": "W1"}
    for _ in range(20):
        value = [value]
    assert groups(value) == []


def test_the_rest_of_a_wrapper_is_an_object_of_its_own():
    value = {"message": "resumed", "line": {"line_id": "L1", "state": "on"}}
    assert groups(value) == [[{"message": "resumed"}], [value["line"]]]


def test_an_object_without_an_id_that_holds_several_kinds_of_things_stays_whole():
    value = {"name": "Ann", "cards": [{"id": "c1"}], "friends": [{"name": "Bo"}]}
    assert groups(value) == [[value]]


def test_the_key_of_an_object_is_a_field_where_no_other_field_says_it():
    value = {"P10": {"name": "Ann"}, "P11": {"code": "P11"}}
    assert groups(value) == [[{KEY: "P10", "name": "Ann"}, {"code": "P11"}]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("id", True),
        ("ID", True),
        ("_id", True),
        ("order_id", True),
        ("orderId", True),
        ("ticketID", True),
        ("paid", False),
        ("valid", False),
        ("idea", False),
        ("status", False),
    ],
)
def test_names_of_ids(name: str, *, expected: bool):
    assert is_id(name) is expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 1_000 + "1" + "}" * 1_000,
        json.dumps([{"id": n, "text": "x" * 50} for n in range(20_000)]),
        json.dumps([[[[{"a": 1}] * 100] * 10] * 10] * 10),
        json.dumps({f"k{n}": {"a": {"b": n}} for n in range(20_000)}),
        "a,b\n" * 250_000,
        "  a  b\n" + "0  1  2\n" * 100_000,
        "  a  b" + " " * 1_000_000 + "c\n0  1  2",
        "|" * 500_000 + "\n" + "|-" * 250_000 + "\n",
        'a,"' + "x" * 1_000_000,
    ],
    ids=["nested", "deep", "many", "lists", "keys", "lines", "frame", "wide", "pipes", "quote"],
)  # fmt: skip
def test_hostile_results_are_bounded_and_take_little_time(text: str):
    began = time.process_time()
    found = groups(read_result(text))
    assert sum(map(len, found)) <= 4_000
    assert time.process_time() - began < 5
