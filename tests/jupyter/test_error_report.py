"""What a reader who sees only the report of an error needs to fix it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from nbchat.chat.attachments.error_report import REPORT_TOKENS, error_report
from nbchat.chat.attachments.failures import failure_of
from nbchat.jupyter.shell_contents import ShellContents
from nbchat.providers.tokens import TokenCounter

SETUP = """
import pandas as pd, numpy as np
sales = pd.DataFrame({
    "order_id": [1, 2, 3], "amount": [9.5, None, 3.0],
    "day": ["2024-01-05", "2024-02-11", "11/03/2024"], "region": ["N", "S", "N"],
})
orders = pd.DataFrame({"order_id": ["1", "2", "3"], "customer": ["a", "b", "c"]})
X, w = np.ones((100, 3)), np.ones(4)
"""

SALES = "DataFrame of 3 rows x 4 columns: order_id int64, amount float64, day str"

ERRORS: dict[str, tuple[str, list[str]]] = {
    "a column that is missing": (
        'import math\nsales["amout"].sum()',
        ["KeyError: 'amout'", '>   2  sales["amout"].sum()', SALES, ": amount"],
    ),
    "keys of two types": (
        'sales.merge(orders, on="order_id")',
        [
            "merge on int64 and str columns for key 'order_id'",
            "orders['order_id']: Series order_id of 3, str",
            "sales['order_id']: Series order_id of 3, int64",
        ],
    ),
    "a date of another form": (
        'sales["at"] = pd.to_datetime(sales["day"], format="%Y-%m-%d")',
        ["11/03/2024", "first 2024-01-05, 2024-02-11, 11/03/2024", "pandas 3"],
    ),
    "an encoding": (
        'pd.read_csv("latin.csv")',
        ["UnicodeDecodeError", "read as cp1252", "José,Roma"],
    ),
    "a package that is missing": (
        "import matplotlip.pyplot as plt",
        ["No module named 'matplotlip'", "matplotlib", sys.executable],
    ),
    "a file that is missing": (
        'pd.read_csv("data/sales2024.csv")',
        ["'data/sales2024.csv'", "Similar names: sales_2024.csv", "notes.txt"],
    ),
    "numbers that are missing": (
        'sales["amount"].astype(int)',
        ["IntCastingNaNError", "float64; 1 missing", "first 9.5, nan, 3.0"],
    ),
    "shapes": (
        "def score(data, weights):\n    return data @ weights\n\nscore(X, w)",
        [
            "cell [2], in score:",
            ">   2      return data @ weights",
            ">   4  score(X, w)",
            "- data: array of 100 x 3",
            "- weights: array of 4",
            "numpy 2",
        ],
    ),
    "a chained assignment": (
        """import warnings
warnings.simplefilter("error")
sales["amount"][sales["region"] == "N"] = 0""",
        ["ChainedAssignmentError", "Try using '.loc[", "N (2), S (1)", SALES],
    ),
    "columns that are missing": (
        'sales[["amout", "region"]]',
        ["not in index", "'amout', in sales: amount"],
    ),
    "errors of a group": (
        """async def check(n):
    if n > 2:
        raise ValueError(f"row {n} has no price")
async def check_all():
    async with asyncio.TaskGroup() as group:
        for n in range(5):
            group.create_task(check(n))
import asyncio
await check_all()""",
        [
            "ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)",
            "in the group: ValueError: row 3 has no price",
            "in the group: ValueError: row 4 has no price",
            "raise ValueError(f",
            "group.create_task(check(n))",
        ],
    ),
    "a name that is missing": (
        "print(salse.head())",
        ["NameError: name 'salse'", "variables: sales"],
    ),
}
"""For each error the cell that fails, and what a reader needs to repair it."""


@pytest.fixture
def shell(tmp_path, monkeypatch) -> Iterator[InteractiveShell]:
    monkeypatch.chdir(tmp_path)
    for name in ("last_value", "last_traceback", "last_type", "last_exc"):
        monkeypatch.setattr(sys, name, None, raising=False)
    Path("data").mkdir()
    Path("data/sales_2024.csv").write_text("day,amount\n2024-01-02,5\n")
    Path("data/notes.txt").write_text("none")
    Path("latin.csv").write_bytes("name,city\nJosé,Roma\n".encode("cp1252"))
    shell = InteractiveShell()
    yield shell
    shell.history_manager.end_session()


@pytest.fixture
def failed(shell, capsys):
    def run(cell: str, *, before: str = SETUP) -> str:
        shell.run_cell(before, store_history=True)
        shell.run_cell(cell, store_history=True)
        capsys.readouterr()
        return ShellContents(shell).error()

    return run


LOCAL = ("- data: array of 100 x 3", "- weights: array of 4")
"""Variables of functions, which only the exception itself has."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ERRORS)
def test_a_reader_of_the_report_alone_can_fix(kind, shell, failed):
    cell, needed = ERRORS[kind]
    report = failed(cell)
    assert [each for each in needed if each not in report] == []
    assert TokenCounter().count(report) < REPORT_TOKENS / 3
    output = list(shell.history_manager.exceptions.values())[-1]
    sys.last_value = None  # a saved output, after a restart of the kernel
    saved = ShellContents(shell).error("\n".join(output["traceback"]), cell)
    assert [each for each in needed if each not in saved and each not in LOCAL] == []


@pytest.mark.slow
def test_frames_of_libraries_are_one_line_each(failed):
    lines = failed(ERRORS["keys of two types"][0]).splitlines()
    calls = [line for line in lines if line.startswith("  at pandas/")]
    assert calls[0].endswith(" in DataFrame.merge")
    assert len(calls) > 2
    assert not any("def merge" in line for line in lines)


@pytest.mark.slow
def test_a_function_in_a_file_of_ones_own_is_shown_whole(failed, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(tmp_path)
    Path("own_rates.py").write_text(
        "import math\n\n\ndef share(part, whole):\n    return part[whole]\n"
    )
    report = failed("import own_rates\nown_rates.share({'total': 3}, 'totl')")
    assert f"{tmp_path}/own_rates.py, in share:" in report
    assert "    4  def share(part, whole):\n>   5      return part[whole]" in report
    assert "import math" not in report
    assert "'totl', in part: total" in report


@pytest.mark.slow
def test_parts_of_objects_and_columns_named_by_a_variable_are_described(failed):
    report = failed(
        "class Model:\n    def __init__(self, table):\n        self.table = table\n"
        "    def fit(self, column):\n        return self.table[column].astype(int)\n"
        "Model(sales).fit('amount')"
    )
    assert f"- self.table: {SALES}" in report
    assert "- column: str of length 6: 'amount'" in report


def test_what_an_error_was_raised_from_is_shown_with_its_line_and_its_values(failed):
    price = "def price_of(row):\n    return float(row['price'])"
    report = failed(
        "try:\n    total = sum(map(price_of, [{'price': '2,50'}]))\n"
        "except ValueError as error:\n    raise RuntimeError('no total') from error",
        before=price,
    )
    assert "raised from: ValueError: could not convert string to float" in report
    assert "cell [1], in price_of:\n    1  def price_of(row):\n>   2" in report
    assert "- row['price']: str of length 4: '2,50'" in report
    assert report.count("    raise RuntimeError('no total')") == 1


def test_lines_of_another_cell_are_not_taken_from_the_one_that_shows_the_error(
    shell, failed
):
    failed("x = 1\n\ndivide(x)", before="def divide(x):\n    return x / 0")
    (output,) = shell.history_manager.exceptions.values()
    text = "\n".join(output["traceback"])
    failed("no_such_name")
    report = ShellContents(shell).error(text, "x = 1\n\ndivide(x)")
    assert ">   3  divide(x)\ncell [1], in divide:\n" in report
    assert ">   2      return x / 0" in report


def test_where_a_parser_failed_its_text_is_shown_and_plain_attributes(failed):
    report = failed(
        "import json\nclass Reply:\n    def __init__(self, text):\n"
        "        self.text, self.status, self.long = text, 401, 'x' * 500\n"
        "reply = Reply('{\"a\": ' * 99 + '<html>')\njson.loads(reply.text)",
        before="",
    )
    assert "[here] is character 594 of 600:" in report
    assert '{"a": [here]<html>\n' in report
    assert "- reply: Reply: {'status': 401}" in report


def test_a_syntax_error_marks_its_line(failed):
    report = failed("x = 1\nfor i in range(3)\n    print(i)")
    assert "SyntaxError: expected ':'" in report
    assert ">   2  for i in range(3)" in report


@pytest.mark.slow
def test_a_long_cell_and_a_long_message_stay_within_the_limit(failed):
    lines = "\n".join(
        f"value_{n} = 'something of some length, {n}'" for n in range(300)
    )
    report = failed(f"{lines}\nraise ValueError('é' * 50_000)\n{lines}")
    assert TokenCounter().count(report) <= REPORT_TOKENS
    assert "> 301  raise ValueError('é' * 50_000)" in report


def deeper(n: int) -> int:
    return deeper(n + 1)


@pytest.mark.slow
def test_a_recursion_is_one_place_and_the_innermost_values():
    with pytest.raises(RecursionError) as raised:
        deeper(0)
    failure = failure_of(raised.value, lambda path: "")
    lines = error_report(failure, {}, Path()).splitlines()
    assert lines.count(f"{__file__}, in deeper:") == 1
    assert len([line for line in lines if line.startswith("- n: int ")]) == 1


@pytest.mark.slow
def test_secrets_in_values_and_columns_are_hidden(failed):
    report = failed(
        "password = 'hunter2-hunter2'\n"
        "users = pd.DataFrame({'password': ['hunter2-hunter2']})\n"
        "config = {'password': password}\n"
        "int(config['password']), password, users['password']"
    )
    shown = report.partition("Values that")[2]
    assert "hunter2" not in shown
    report = failed("users['password'].astype(int)")
    assert "hunter2" not in report.partition("Values that")[2]


@pytest.mark.slow
def test_values_of_ones_own_types_run_none_of_their_code(failed):
    report = failed(
        "class Odd:\n"
        "    def __repr__(self): raise SystemExit\n"
        "    def __getattr__(self, name): raise AttributeError(name)\n"
        "    def __eq__(self, other): raise SystemExit\n"
        "odd = Odd()\nodd.missing"
    )
    assert "AttributeError: missing" in report
    assert "- odd: Odd" in report


@pytest.mark.slow
def test_a_magics_error_since_then_hides_nothing(shell, failed):
    failed(ERRORS["a name that is missing"][0])
    shell.run_cell("%no_such_magic", store_history=True)
    report = ShellContents(shell).error()
    assert "NameError: name 'salse'" in report
    assert "variables: sales" in report
