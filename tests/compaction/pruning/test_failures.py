"""An output that reports a failure by its exit status stays whole, whatever its words."""

import json

import pytest
from cpu_time import CpuTime

from nbchat.compaction.pruning.output_kinds import WHOLE_TOKENS, shortened
from nbchat.providers.tokens import TokenCounter

COUNT = TokenCounter().count
LOG = [f"line {n}: worker {n % 7} did step {n * 31 % 97}" for n in range(300)]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"exit_code": 1, "stdout": "\n".join(LOG)}),
        json.dumps({"jobs": [{"name": "a", "returncode": 2, "log": LOG}]}),
        "\n".join([*LOG, "<exit_code>1</exit_code>"]),
    ],
)
def test_an_output_with_an_exit_status_of_failure_stays_whole(text: str):
    assert COUNT(text) < WHOLE_TOKENS
    assert shortened(text, COUNT) == text
    fine = text.replace(": 1,", ": 0,").replace(": 2,", ": 0,").replace(">1<", ">0<")
    assert shortened(fine, COUNT) != fine


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "ERROR\n" * 20_000,
        "a." * 50_000 + "Error: ",
        "\n".join([" " * 500 + "x"] * 200),
        json.dumps([{"error": "x"}] * 10_000),
    ],
)
def test_hostile_outputs_take_no_longer_than_others(text: str):
    COUNT("warm")
    began = CpuTime()
    short = shortened(text, COUNT)
    assert began.spent() < 1
    assert short == text or COUNT(short) < 1.2 * WHOLE_TOKENS
