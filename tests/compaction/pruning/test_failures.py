"""Failures are found anywhere in an output, and what reports them is never cut."""

import json

import pytest
from cpu_time import CpuTime

from nbchat.compaction.exact_json import parsed
from nbchat.compaction.pruning.failure_lines import failed_lines
from nbchat.compaction.pruning.output_kinds import WHOLE_TOKENS, failures_in, shortened
from nbchat.providers.tokens import TokenCounter

COUNT = TokenCounter().count
LOG = [f"line {n}: worker {n % 7} did step {n * 31 % 97}" for n in range(300)]
TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "pay.py", line 3, in <module>',
    "    pay(order)",
    '  File "pay.py", line 9, in pay',
    "    return order['amount']",
    "KeyError: 'amount'",
]


@pytest.mark.parametrize(
    "line",
    [
        *("Traceback (most recent call last):", "KeyError: 'x'", "fatal: not a git"),
        *("E   AssertionError: 1 != 2", "java.lang.NullPointerException: order"),
        *("Exit code: 1", "exit code 1", "exited with 127", "exit status 2"),
        *("returncode=1", '"exit_code": 3', "exit code -9", "non-zero exit status"),
        *(
            "3 failed, 12 passed in 2s",
            "FAILED tests/test_x.py::test_y",
            "BUILD FAILED",
        ),
        *("npm ERR! missing", "2025-01-01 ERROR db is down", "not ok 3 - parses"),
        *("foo.c:3:1: error: expected ;", "error[E0308]: mismatched types"),
        *("src/a.ts(1,2): error TS2345: a string", "bash: foo: command not found"),
        *("cat: x: No such file or directory", "Segmentation fault (core dumped)"),
        *(
            "Failed to connect",
            "Cannot open file",
            "Fehler: kaputt",
            "错误: 失败",
            "error: no such order",
        ),
    ],
)
def test_a_line_that_reports_a_failure_is_found(line: str):
    assert failed_lines(["fine", line, "fine"]) == [1]


@pytest.mark.parametrize(
    "line",
    [
        *("0 failed, 12 passed", "12 passed", "no errors found", "errors: 0"),
        *("ERROR: 0", "error: none", "the error rate is low", "exit code 0"),
        *("exited with 0", "No ERROR found", "def fail(self):", "failover to B"),
        *("handles errors well", '"error": null', *LOG[:3]),
    ],
)
def test_a_line_without_a_failure_is_not(line: str):
    assert failed_lines([line]) == []


@pytest.mark.parametrize(
    ("value", "has_failed"),
    [
        ({"error": "no such order"}, True),
        ({"error": None, "errors": [], "failed": 0}, False),
        ({"error": {"code": 7}}, True),
        ({"status": "error"}, True),
        ({"status": "delivered"}, False),
        ({"success": False}, True),
        ({"ok": True}, False),
        ({"exit_code": 1}, True),
        ({"exit_code": 0}, False),
        ({"status": 404}, True),
        ({"status": 200}, False),
        ({"stdout": "\n".join(TRACEBACK)}, True),
        ({"tests": [{"name": "a", "outcome": "failed"}]}, True),
        ({"payments": [{"id": 1, "status": "failed"}] * 30}, False),  # data
        ({"payments": [{"id": 1, "error": "timeout"}] * 30}, True),
    ],
)
def test_failures_in_json_are_found_and_states_of_rows_are_data(value, has_failed):
    found = list(failures_in(parsed(json.dumps({"data": value}))))
    assert bool(found) is has_failed


@pytest.mark.parametrize(
    "failure",
    [TRACEBACK, ["E   AssertionError: 1 != 2"], ["exit code: 1", "stderr: KeyError"]],
)
def test_an_output_with_a_failure_in_its_middle_stays_whole(failure: list[str]):
    text = "\n".join([*LOG, *failure, *LOG])
    assert COUNT(text) < WHOLE_TOKENS
    assert shortened(text, COUNT) == text
    assert shortened("\n".join([*LOG, *LOG]), COUNT) != text


@pytest.mark.parametrize(
    "answer",
    [
        {"error": "\n".join(TRACEBACK), "context": LOG},
        {"status": "error", "message": "no stock", "tried": LOG},
    ],
)
def test_a_json_answer_that_reports_a_failure_stays_whole(answer):
    assert shortened(json.dumps(answer), COUNT) == json.dumps(answer)
    fine = json.dumps(answer | {"error": None, "status": "ok"})
    assert shortened(fine, COUNT) != fine


def test_of_a_very_long_output_the_failures_stay_with_the_lines_around():
    text = "\n".join([*LOG * 5, *TRACEBACK, *LOG * 5, "3 failed", *LOG * 5])
    assert COUNT(text) > WHOLE_TOKENS
    short = shortened(text, COUNT)
    assert "\n".join([LOG[-1], *TRACEBACK, LOG[0]]) in short
    assert f"{LOG[-1]}\n3 failed\n{LOG[0]}" in short
    assert short.startswith(LOG[0])
    assert short.endswith(LOG[-1])
    assert "[lines 21 to 1,497 of 4,507 omitted]" in short
    assert COUNT(short) < WHOLE_TOKENS


def test_of_a_very_long_json_the_failures_stay_whole():
    rows = [{"id": n, "price": 1.50, "note": LOG[n % 300]} for n in range(2_000)]
    rows[1_234] = {"id": 1_234, "error": "\n".join(TRACEBACK)}
    short = shortened(json.dumps(rows).replace("1.5,", "1.50,"), COUNT)
    assert json.dumps(rows[1_234]) in short
    assert COUNT(short) < WHOLE_TOKENS


def test_a_search_that_found_pages_about_errors_has_not_failed():
    hits = [
        {
            "title": f"Page {n}",
            "url": f"https://example.org/{n}",
            "text": "ERROR: x\n" * 99,
        }
        for n in range(5)
    ]
    whole = json.dumps({"results": hits})
    assert COUNT(shortened(whole, COUNT)) < COUNT(whole) / 4
    failed = json.dumps({"results": hits, "error": "the index is stale"})
    assert shortened(failed, COUNT) == failed


@pytest.mark.parametrize("tool_name", ["read_file", "cat"])
def test_a_file_of_500_lines_stays_whole_whatever_it_looks_like(tool_name: str):
    code = [
        f"    place(item_{n}, at(x={n}, y={n}), size=LARGE, colour='red'),"
        for n in range(500)
    ]
    text = "\n".join(code)
    assert COUNT(text) > WHOLE_TOKENS
    assert shortened(text, COUNT, tool_name=tool_name) == text
    table = "\n".join(f"{n},Name {n},{n}.50" for n in range(500))
    assert shortened(table, COUNT, tool_name=tool_name) == table


def test_code_with_equal_commas_is_no_table():
    code = "\n".join(f"place(item_{n}, {n}, {n})" for n in range(330))
    assert "rows omitted" not in shortened(code, COUNT)


def test_of_a_long_log_read_as_a_file_the_traceback_stays():
    text = "\n".join([*LOG * 3, *TRACEBACK, *LOG * 3])
    short = shortened(text, COUNT, tool_name="read_file")
    assert "\n".join(TRACEBACK) in short
    source = "\n".join(f"log('error: {n} failed')" for n in range(600))
    assert "[lines 21 to 590 of 600 omitted]" in shortened(
        source, COUNT, tool_name="read_file"
    )


@pytest.mark.parametrize(
    "text",
    [
        "ERROR " * 20_000,
        "ERROR\n" * 20_000,
        "Traceback (most recent call last):\n" * 3_000,
        "a." * 50_000 + "Error: ",
        "\n".join([" " * 500 + "x"] * 200),
        json.dumps([{"error": "x"}] * 10_000),
    ],
)
def test_hostile_failures_take_no_longer_than_others(text: str):
    COUNT("warm")
    began = CpuTime()
    short = shortened(text, COUNT)
    assert began.spent() < 1
    assert short == text or COUNT(short) < 1.2 * WHOLE_TOKENS
