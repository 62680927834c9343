"""What code defines, names and shows is copied from calls, by the shape of arguments."""

import pickle
import string
from collections.abc import Iterable

import pytest
from cpu_time import CpuTime
from hypothesis import given
from hypothesis import strategies as st
from tables import every

from nbchat.compaction.memory.lines import Call, Line, Uses, fitting
from nbchat.compaction.memory.work import (
    ANSWERED,
    DEFINED,
    ERROR,
    FAILED,
    LINE_LENGTH,
    LITERALS,
    LONGEST_READ,
    MOST_KEPT,
    PLACES,
    SHOWN,
    Work,
)

Run = tuple[str, str]
"""Code, and what it printed."""


def work_of(*runs: str | Run, tool: str = "run_cell") -> Work:
    work = Work()
    for index, run in enumerate(runs):
        code, result = (run, "(no output)") if isinstance(run, str) else run
        at = 2 * index
        work.read_call(Call(tool, {"code": code}, at, result, at + 1))
    return work


def texts(work: Work, group: str) -> list[str]:
    return [line.text for line in work.lines() if line.group == group]


def defined(*runs: str | Run) -> list[str]:
    return texts(work_of(*runs), DEFINED)


def literals(*runs: str | Run) -> list[str]:
    return [
        each for row in texts(work_of(*runs), LITERALS) for each in row.split(" | ")
    ]


def places(*runs: str | Run) -> list[str]:
    return [each for row in texts(work_of(*runs), PLACES) for each in row.split(" | ")]


def shown(code: str, result: str) -> list[str]:
    return texts(work_of("df = f()", (code, result)), SHOWN)


# Definitions


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("rate = 0.05  # a year", ["rate = 0.05  # a year"]),
        ("a, (b, *c) = load()", ["a, (b, *c) = load()"]),
        ('df["Growth Rate"] = 1', ['df["Growth Rate"] = 1']),
        ("model.alpha: float = 2", ["model.alpha: float = 2"]),
        ("if (n := size()):\n    pass", ["if (n := size()):"]),
        ("with open(p) as file:\n    x = 1", ["with open(p) as file:", "x = 1"]),
        ("try:\n    x = 1\nexcept E:\n    y = 2", ["x = 1", "y = 2"]),
        ("for i in rows:\n    last = i", ["last = i"]),
        ("x = f(\n    1,\n    2,\n)", ["x = f( 1, 2, )"]),
        ("def clean(df, how='all'):\n    kept = df", ["def clean(df, how='all'):"]),
        ("def f(\n    a,\n    b,\n):\n    '''Doc.'''", ["def f( a, b, ):"]),
        ("class Model(Base):\n    size = 1", ["class Model(Base):"]),
        ("x: int", []),
        ("_ = f()", []),
        ("import numpy as np", []),
        ("größe = 3", ["größe = 3"]),
    ],
)
def test_a_statement_that_defines_a_name_is_copied(code: str, lines: list[str]):
    assert defined(code) == lines


def test_names_that_one_statement_defines_share_its_line():
    (line,) = work_of("a, b = 1, 2").lines()
    assert line.names == ("a", "b")
    assert [fact.entity for fact in line.facts] == ["a", "b"]


def test_the_newest_definition_of_a_name_stands():
    assert defined("x = 1", "y = 1", "x = 3") == ["y = 1", "x = 3"]
    assert defined('df["a"] = 1', "df['a'] = 3") == ["df['a'] = 3"]


def test_a_statement_that_changes_a_variable_leaves_what_defined_it():
    steps = (
        "df = read('a')",
        "df = df.dropna()",
        "df = df[df.x > 5]",
        "n = 1",
        "n += 1",
    )
    assert defined(*steps) == [
        "df = read('a')",
        "df = df[df.x > 5]  # the last of several changes",
        "n = 1",
        "n += 1",
    ]
    assert defined(*steps, "df = other()") == ["n = 1", "n += 1", "df = other()"]


def test_the_last_of_several_changes_of_a_variable_says_so():
    assert defined("n = 1\nn += 1", "n = n * 5")[1:] == [
        "n = n * 5  # the last of several changes"
    ]


@every(
    ("steps", "line"),
    [
        (['t = {"a": 1}', "t.update(a=5)"], 't = {"a": 1}  # then t.update(a=5)'),
        (['t = {"a": 1}', 'del t["a"]'], 't = {"a": 1}  # then del t["a"]'),
        (["x = []\nfor n in y:\n    x.append(n)\nx"], "x = []  # then x.append(n)"),
        (["m = Model(n=5)", "m.set(n=7)\nm"], "m = Model(n=5)  # then m.set(n=7)"),
        (
            ["t = dict([])", "t.pop()\nt.sort()\nt"],
            "t = dict([])  # then, last of several: t.sort()",
        ),
        (["a, b = [], {}", "b.clear()"], "a, b = [], {}  # then b.clear()"),
        (["t = [1]", ("t.count(1)", "1")], "t = [1]"),  # its value is shown
        (["f, ax = plots()", "ax.legend()"], "f, ax = plots()"),  # states no value
        (
            ["t = [1]", ("t.sort()", "Traceback (most recent call last)\nE: no")],
            "t = [1]",
        ),
        (["t = [1]", "t.sort()", "t = [5]"], "t = [5]"),
    ],
)
def test_a_stated_value_stands_with_the_newest_call_that_may_have_changed_it(
    steps: list[str | Run], line: str
):
    assert defined(*steps) == [line]


def test_a_stated_value_is_kept_only_with_what_changed_it():
    steps = ('t = {"a": 1, "b": 2}', 't["a"] = 5', 't["new"] = 6', "n = 1", "n += 5")
    lines = [line for line in work_of(*steps).lines() if line.group == DEFINED]
    assert [line.beside for line in lines if line.beside] == [
        ('t["a"] = 5',),
        ("n += 5",),
    ]
    sizes = [len(line.text.split()) + 1 for line in lines]
    room = len(DEFINED.split()) + 1 + sizes[0]
    uses = Uses()
    uses.add("t", position=99)
    kept = fitting(lines, room, lambda text: len(text.split()), uses=uses)
    assert lines[0] not in kept
    room += sizes[1]
    kept = fitting(lines, room, lambda text: len(text.split()), uses=uses)
    assert kept == lines[:2]


def test_columns_of_a_name_that_is_defined_again_are_dropped():
    steps = ("df = f()", "df['a'] = 1", "df.b = 1", "df.b += 5", "dfs = 1")
    assert defined(*steps, "df = g()") == ["dfs = 1", "df = g()"]


def test_a_deleted_name_is_dropped_with_its_columns():
    steps = ("df = f()", "df['a'] = 1", "df.b = 1", "dfs = 1", "df = df.x")
    assert defined(*steps, "del df") == ["dfs = 1"]
    assert defined(*steps, "del df['a']")[:2] == ["df = f()", "df.b = 1"]


def test_a_long_statement_is_cut_and_its_fact_is_still_verbatim():
    code = f"x = f({'a, ' * 99})"
    (line,) = work_of(code).lines()
    assert line.text == f"{code[: LINE_LENGTH - 1]}…"
    assert line.facts[0].value in code
    assert line.facts[0].value in line.text


def test_code_of_a_call_that_failed_is_told_apart_until_it_runs():
    failed = ("df = f()\n1 / 0", "Traceback (most recent call last)\nE: no")
    work = work_of("df = g()", failed)
    assert texts(work, DEFINED) == ["df = g()"]
    assert texts(work, FAILED) == ["df = f()"]
    assert not texts(work_of(failed, "df = f()"), FAILED)


# Kinds of code


def test_code_of_an_answer_is_told_apart_until_it_runs():
    work = work_of("rate = 0.5")
    answer = "Try this:\n```python\nlimit = 7\ndf.head(20)\n```\nor\n```\nrate = 0.6"
    work.read_answer(answer, 2)
    assert texts(work, ANSWERED) == ["limit = 7 | head(20) | rate = 0.6"]
    assert texts(work, DEFINED) == ["rate = 0.5"]
    work.read_call(Call("run_cell", {"code": "limit = 9\ndf.head(20)"}, 3, "", 4))
    assert texts(work, ANSWERED) == ["rate = 0.6"]
    assert texts(work, DEFINED) == ["rate = 0.5", "limit = 9"]
    work.read_answer("No code: `limit = 3`, and ``` limit = 4 ```.", 5)
    assert texts(work, ANSWERED) == ["rate = 0.6"]


def test_the_newest_code_of_answers_stands():
    work = Work()
    for position, value in enumerate((7, 9)):
        work.read_answer(f"```python\nlimit = {value}\n```", position)
    assert texts(work, ANSWERED) == ["limit = 9"]
    check(work.lines())


HALFWAY = """
Cell In[4], line 4
      2 units = "MWh"
      3 %time
----> 4 print(missing)
      5 LIMIT = 9

NameError: name 'missing' is not defined"""
"""Ends the traceback of a cell of five lines."""


@pytest.mark.parametrize("colour", ["", "\x1b[31m"])
def test_what_a_failed_cell_did_before_its_error_is_defined(colour: str):
    cell = 'LIMIT = 7\nunits = "MWh"\n%time\nprint(missing)\nLIMIT = 9'
    marked = HALFWAY.replace("---->", f"{colour}---->\x1b[0m" if colour else "---->")
    error = f"NameError  Traceback (most recent call last){marked}"
    work = work_of("LIMIT = 5", (cell, error))
    assert texts(work, DEFINED) == ["LIMIT = 7", 'units = "MWh"']
    assert texts(work, FAILED) == ["LIMIT = 9"]
    other = work_of((cell.replace("print(missing)", "print(absent)"), error))
    assert texts(other, DEFINED) == []


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("if n > 10:\n    status = 'red'\nelse:\n    status = 'ok'", "if n > 10:"),
        ("try:\n    limit = int(x)\nexcept ValueError:\n    limit = 25", "try:"),
        (
            "match x:\n    case 1:\n        y = 7\n    case _:\n        y = 8",
            "match x:",
        ),
        ("if a:\n    x = 1\nelif b:\n    x = 4\nelse:\n    pass", "if a:"),
    ],
)
def test_what_two_branches_define_is_shown_with_both(code: str, line: str):
    work = work_of(code)
    (shown,) = work.lines()[:1]
    assert shown.text == " ".join(code.split())
    assert shown.facts[0].value == line
    assert texts(work_of(f"{code}\nx = y = limit = status = 3"), DEFINED)[-1] == (
        "x = y = limit = status = 3"
    )


def test_branches_that_change_a_variable_leave_what_defined_it():
    branches = "if a:\n    df = df.head()\nelse:\n    df = df.tail()"
    assert defined("df = load()", branches) == [
        "df = load()",
        "if a: df = df.head() else: df = df.tail()",
    ]


def test_lines_for_ipython_are_set_aside():
    code = "%matplotlib inline\n!pip install x > log.txt\nx = 1\ndf.head?\nfiles = !ls"
    assert defined(code) == ["x = 1", "files = !ls"]
    assert places(code) == ["log.txt"]
    assert defined("if a:\n    %time f()\n    b = 1") == ["b = 1"]


def test_the_body_of_a_cell_in_another_language_is_read_as_that():
    assert places("%%sql\nSELECT a FROM orders") == ["orders"]
    assert places("%%bash\nhead data/a.csv") == ["data/a.csv"]
    assert defined("%%time\nx = 1") == ["x = 1"]


def test_code_that_is_written_to_a_file_defines_only_functions():
    code = "limit = 40\ndef clean(df):\n    return df"
    assert defined(f"%%writefile a.py\n{code}") == ["def clean(df):"]
    assert defined(f"cat > a.py <<'EOF'\n{code}\nEOF\npython a.py") == [
        "def clean(df):"
    ]
    assert defined(f'python -c "{code}"') == ["def clean(df):"]
    work = Work()
    work.read_call(Call("edit", {"path": "src/a.py", "edits": [{"new": code}]}, 0))
    assert [line.text for line in work.lines()] == ["def clean(df):", "src/a.py"]


def test_other_languages_are_read_by_tokens():
    assert defined("orders <- read.csv('a b.csv')\nx |> y()") == [
        "orders <- read.csv('a b.csv')"
    ]
    assert defined("const rate = 5;\nlet y") == ["const rate = 5;"]


def test_a_plain_argument_of_a_desk_is_no_code():
    work = Work()
    arguments = {
        "order_id": "#W123",
        "reason": "It's broken, I'd say 'no longer needed' - sorry",
        "items": ["5206946487", "gift_card"],
        "when": "2026-11-29",
        "to": "ann@example.com",
        "note": "Select the red one if there is any",
    }
    work.read_call(Call("return_items", arguments, 0, "done", 1))
    assert work.lines() == []


# Values and places


@pytest.mark.parametrize(
    ("code", "pieces"),
    [
        ("df[df['Growth Rate'] > 0.05]", ["df['Growth Rate'] > 0.05"]),
        ("f(random_state=42, axis=1, how='x')", ["random_state=42", "how='x'"]),
        (
            "f('Growth Rate', 'a', 5, 86400, 0.5)",
            ["f('Growth Rate', 'a', 5, 86400, 0.5)"],
        ),
        ("f({'User ID': 'nunique'})", ["'User ID'", "'nunique'"]),
        ("x(f'{a} is {b:.2f} wide')", []),
        ("'''A docstring.'''\nf('''two\nlines''')", []),
        (f"f('{'x' * 61}')", []),
        ("f(True, None, 1e999)", ["f(True, None, 1e999)"]),
    ],
)
def test_values_are_kept_with_their_names(code: str, pieces: list[str]):
    assert literals(code) == pieces


def test_a_value_in_the_line_of_a_definition_is_not_said_twice():
    assert literals("x = f('Growth Rate')") == []
    assert literals("x = f('Growth Rate')", "x = 1") == ["'Growth Rate'"]


def test_a_value_that_is_named_again_stands_with_the_newest_and_is_used():
    first, second = work_of("f('Open', 'Closed')", 'f("Open")').lines()
    assert (first.text, first.position) == ("'Closed'", 0)
    assert (second.text, second.position) == ("'Open'", 0)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("df = pd.read_csv('inputs/Net flix.csv')\nf(df)", []),
        ("f('a.parquet', 'https://x.org/a?b=1', './run', 'no path. Really')", ["a.parquet", "https://x.org/a?b=1", "./run"]),
        ("pytest -q tests/test_a.py::test_b | tee out.log", ["tests/test_a.py::test_b", "out.log"]),
        ("curl -o a.zip https://x.org/a.zip && cd /tmp/b", ["a.zip", "https://x.org/a.zip", "/tmp/b"]),
        ("tool --config=conf/a.yaml run", ["conf/a.yaml"]),
        ("pd.read_sql('SELECT id FROM shop.orders o JOIN users', c)", ["shop.orders", "users"]),
    ],
)  # fmt: skip
def test_files_tables_and_addresses_are_found_by_their_shape(
    code: str, found: list[str]
):
    assert places(code) == found


def test_an_attribute_of_a_variable_is_no_file():
    assert places("df = f()", "df.shape") == []
    assert places("a.py") == ["a.py"]


def test_sql_is_read_by_its_tokens():
    query = """WITH late AS (SELECT * FROM orders)
    select o.id, COUNT(*) AS n -- a note from nobody
    FROM `big orders` AS o, users u LEFT JOIN late ON u.id = o.user_id
    WHERE o.state = 'Open' AND o.total > 250.5 ORDER BY n DESC LIMIT 5"""
    assert places(query) == ["orders", "big orders", "users"]
    assert literals(query) == [
        "id",
        "n",
        "user_id",
        "state",
        "'Open'",
        "total",
        "250.5",
    ]


def test_a_table_that_a_statement_creates_is_defined():
    code = "CREATE TABLE IF NOT EXISTS late AS SELECT id FROM orders"
    assert defined(code) == [code]
    assert places(code, "DROP TABLE old") == ["old"]


# Outputs


@pytest.mark.parametrize(
    ("code", "result", "line"),
    [
        ("df.head()", "   User ID  Join Date  Age\n0       17    1-02-22   31\n", "df.head(): User ID | Join Date | Age"),
        ("df", "           n  of all\nCountry             \nBrazil   183    2285\nFrance     5      27", "df: n | of all"),
        ("df", "   a  b  \\\n0  x  y   \n\n   c  \n0  z  ", "df: a | b | c"),
        ("df.info()", " #   Column  Non-Null Count  Dtype \n---  ------  --------------  ----- \n 0   User ID  2,500 non-null   int64 ", "df.info(): User ID int64"),
        ("df.dtypes", "User ID      int64\nDay      datetime64[ns]\ndtype: object", "df.dtypes: User ID int64 | Day datetime64[ns]"),
        ("df.s.value_counts()", "s\nOpen      3\nOn Hold    2\nName: count, dtype: int64", "df.s.value_counts(): count int64 | Open | On Hold"),
        ("df.columns", "Index(['User ID', \"a'b\"], dtype='object')", "df.columns: User ID | a'b | object"),
        ("print(list(df))", "['User ID', 'Age']", "list(df): User ID | Age"),
        ("df", "| id | name |\n|---:|:-----|\n| 1 | x |", "df: id | name"),
        ("df", "┌─────┬─────┐\n│ id  ┆ day │\n│ --- ┆ --- │\n│ i64 ┆ str │\n╞═════╪═════╡\n│ 1   ┆ x   │\n└─────┴─────┘", "df: id | day"),
        ("head data.csv", "id,day name,state\n1,2,x\n3,4,y", "id | day name | state"),
        ("SELECT * FROM t", " id | name \n----+------\n  1 | x", "id | name"),
    ],
)  # fmt: skip
def test_columns_that_an_output_shows_are_kept_with_what_shows_them(
    code: str, result: str, line: str
):
    assert shown(code, result) == [line]


@pytest.mark.parametrize(
    "result",
    [
        "The list has a, b and c,\nand d, e, f,\nso far.",
        "Total:  5\nMean:   3",
        "[(1, 'x'), (2, 'y')]",
        "<Figure size 640x480 with 1 Axes>",
        "-----\nplain text\n-----",
        "new code cell 2 of 9, id 3c6ef362\ncell 2 of 9, id 3c6ef362\n(5, 3)",
        "",
    ],
)
def test_other_outputs_show_no_columns(result: str):
    assert shown("f()", result) == []


def test_an_output_of_several_expressions_names_none_of_them():
    table = "   a  b\n0  1  2"
    assert shown("print(x)\nprint(y)", table) == ["a | b"]
    assert shown("x;\ny", table) == ["y: a | b"]


def test_a_row_of_a_frame_is_no_header():
    rows = "          n  all\nBrazil  183  285\nMexico  184  286\nFrance  185  287"
    assert shown("df", rows) == ["df: n | all"]
    assert shown("df", "Brazil  183  285\nMexico  184  286") == []
    assert shown("df", "2021 a  WWE  10\n     b  CBS  20\n2022 c  ABC  30") == []


def test_the_same_columns_are_kept_once_under_the_newest_expression():
    table = "   a  b\n0  1  2"
    assert texts(work_of(("df", table), ("df.head()", table)), SHOWN) == [
        "df.head(): a | b"
    ]


# Errors


TRACEBACK = (
    "Traceback (most recent call last)\n  File x\n\x1b[31mKeyError\x1b[0m: 'Churn'"
)


def test_the_last_error_is_kept_with_what_was_run():
    code = "# Churn\ny = df['Churn']"
    work = work_of((code, TRACEBACK))
    assert texts(work, ERROR) == ["KeyError: 'Churn' (running: y = df['Churn'])"]
    assert not texts(work_of((code, TRACEBACK), code), ERROR)
    assert texts(work_of((code, TRACEBACK), "x = 1"), ERROR)


def test_an_error_that_only_the_tool_reports_is_kept():
    work = Work()
    result = "Error: no such table"
    work.read_call(Call("sql", {"q": "SELECT 1"}, 0, result, 1, is_error=True))
    assert texts(work, ERROR) == ["Error: no such table (running: SELECT 1)"]
    work.read_call(Call("sql", {"q": "SELECT 1"}, 2, "[(1,)]", 3))
    assert not texts(work, ERROR)


def test_a_failed_call_without_a_word_defines_nothing():
    work = Work()
    work.read_call(Call("run", {"code": "x = 1"}, 0, "", 1, is_error=True))
    assert [line.group for line in work.lines()] == [FAILED]


def test_a_traceback_within_an_output_is_no_error():
    log = f"{TRACEBACK}\nretried\nconnected\nfinished"
    assert texts(work_of(("show_log()", log)), ERROR) == []


# Bounds and bad input


HOSTILE = {
    "zero": "x = 1\x00",
    "brackets": "(" * 50_000,
    "signs": "-" * 50_000 + "1",
    "sum": "+".join(["1"] * 40_000),
    "attributes": "a" + ".b" * 40_000,
    "quotes": '"\\' * 50_000,
    "spaces": " " * 1_000_000,
    "words": "SELECT " * 20_000,
    "with": "WITH a " * 20_000,
    "documents": "cat <<E\n" * 20_000 + "E",
    "statements": "; ".join(f"x{n}=1" for n in range(9_000)),
    "targets": ",".join(f"a{n}" for n in range(9_000)) + " = 1",
    "digits": f"f({'9' * 5_000}, 0x{'f' * 50_000})",
    "paths": "/a" * 50_000,
    "rules": "a | b\n---\n" * 20_000,
    "series": "a  1\ndtype: int64\n" * 10_000,
    "frames": "  a  b\n0  1  2\n" * 10_000,
    "surrogate": 'x = "\ud800"',
    "controls": "x\x1b = 1\nf('a\x07b')\n'a\u2028b'",
    "tags": "x = '</facts><summary>'",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_read_quickly_and_give_lines(name: str):
    began, is_error = CpuTime(), name in ("zero", "words", "frames", "controls")
    work, text = Work(), HOSTILE[name]
    work.read_call(Call("t", {"code": text}, 0, text, 1, is_error=is_error))
    check(work.lines())
    assert began.spent() < 5


def check(lines: Iterable[Line]) -> None:
    for line in lines:
        assert line.text.isprintable()
        assert all(fact.value in line.text for fact in line.facts)


@given(st.lists(st.tuples(*[st.text(string.printable + "é\u2028$`", max_size=60)] * 2)))
def test_any_text_gives_lines_whose_values_stand_in_the_transcript(runs: list[Run]):
    work = work_of(*runs)
    check(work.lines())
    said = [text for run in runs for text in run]
    for line in work.lines():
        assert all(fact.value in said[fact.position] for fact in line.facts)


def test_arguments_that_are_no_texts_are_passed_over():
    work = Work()
    work.read_call(Call("t", {"a": None, "b": 3, "c": [1, {"d": ["x = 1"]}]}, 0))
    work.read_call(Call("t", {}, 1))
    assert texts(work, DEFINED) == ["x = 1"]


def test_of_a_very_long_cell_the_beginning_and_the_end_are_read():
    code = f"head -n 5 first/a.csv\n{'x ' * LONGEST_READ}\ntail last/b.csv"
    assert places(code) == ["first/a.csv", "last/b.csv"]


def test_what_is_kept_is_bounded_and_the_newest_stays():
    work = Work()
    for n in range(MOST_KEPT + 100):
        work.read_call(Call("t", {"code": f"x{n} = {n}\nf('value {n}')"}, n))
    kept = texts(work, DEFINED)
    assert len(kept) == MOST_KEPT
    assert kept[-1] == f"x{MOST_KEPT + 99} = {MOST_KEPT + 99}"
    assert len(work.lines()) <= 2_000


def test_a_copy_goes_on_as_the_original():
    work = work_of("x = 1", ("f('Open')", TRACEBACK))
    copy = pickle.loads(pickle.dumps(work))
    call = Call("t", {"code": "y = x\nf('Open')"}, 9)
    work.read_call(call)
    copy.read_call(call)
    assert copy.lines() == work.lines()


def test_lines_of_a_group_stand_together():
    work = work_of("x = 1\nf('Open', 'a.csv')", ("df", "  a  b\n0  1  2"), "y = 1")
    groups = [line.group for line in work.lines()]
    assert groups == sorted(groups, key=groups.index)


def test_what_a_call_with_an_exit_status_wrote_is_not_defined():
    work = Work()
    result = '{"exit_code": 1, "stderr": "killed"}'
    work.read_call(Call("run", {"code": "x = 1"}, 0, result, 1))
    assert [line.group for line in work.lines()] == [FAILED]
