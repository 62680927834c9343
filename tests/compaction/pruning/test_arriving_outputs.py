"""Outputs are bounded when they arrive, in every policy, and what failed is readable."""

import json
import random
from functools import cache

import pytest
from PIL import Image

from nbchat import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import PRESETS
from nbchat.compaction.pruning.outputs import bounded
from nbchat.providers.base import user_text
from nbchat.providers.tokens import TokenCounter
from nbchat.testing import ScriptedProvider, calls, says

COUNTER = TokenCounter()

FAILURES = (
    "--- FAIL: TestParse (0.00s)",
    "  14:7  error  'x' is not defined  no-undef",
    "[error] (compile) Compilation failed",
    'ERROR: failed to solve: process "/bin/sh" did not complete',
    "ORA-00942: table or view does not exist",
    'Error from server (NotFound): pods "web" not found',
    "Killed",
    "command timed out after 60 s",
    "expected 3 to equal 4",
    "make: *** [Makefile:12: all] Segmentation fault",
    "W/e0308: mismatched types",
    "Die Datei ist beschädigt",
    "undefined reference to `main'",
    "permission was not granted",
)  # fmt: skip


def log(*lines: str) -> str:
    """300 ordinary lines, of which some that matter are spread over the middle."""
    texts = [f"ok\tpkg/part{number}\t0.{number}s" for number in range(300)]
    texts[100 : 100 + 9 * len(lines) : 9] = lines
    return "\n".join(texts)


@cache
def a_long_output() -> str:
    """Four million words."""
    words = ["<td>", "total", "7", "row", "</td>"]
    return " ".join(random.Random(1).choices(words, k=4_000_000))


def read_by_model(
    output: object, policy: str, name: str = "run", *, fails: bool = False
) -> str:
    """What the model reads of the output of a tool."""

    def run() -> object:
        """Run it."""
        if fails:
            raise ValueError(output)
        return output

    run.__name__ = name
    provider = ScriptedProvider(calls(name), says("Done."))
    engine = CompactionEngine(None, policy=policy)
    agent = Agent(provider, tools=[run], engine=engine)
    agent.ask("Go.")
    history = provider.requests[-1].history
    return next(each.content for each in history if each.role == "tool")


@pytest.mark.parametrize("policy", PRESETS)
@pytest.mark.parametrize("name", ["run", "search_logs", "read_file", "shell"])
def test_300_lines_are_whole_in_every_policy_whatever_the_tool_is(
    policy: str, name: str
):
    output = log(*FAILURES)
    assert read_by_model(output, policy, name) == output


@pytest.mark.parametrize("policy", PRESETS)
def test_a_long_output_is_bounded_in_every_policy_and_can_be_recalled(policy: str):
    shown = read_by_model(a_long_output(), policy)
    assert COUNTER.count(shown) <= 4_100
    assert "recall(2) returns them]" in shown


@pytest.mark.parametrize("policy", ["single-summary", "early"])
def test_of_a_failed_call_the_last_60_lines_stay(policy: str):
    line = "compiling a part of it, then the next one, and all that is left of it after"
    text = "\n".join(f"{number}: {line} {number * 7}" for number in range(5_000))
    shown = read_by_model(text, policy, fails=True)
    assert all(f"\n{number}: compiling" in shown for number in range(4_941, 5_000))
    assert COUNTER.count(shown) <= 4_100


@pytest.mark.parametrize("key", ["exit_code", "returncode", "exitStatus"])
@pytest.mark.parametrize("policy", ["single-summary", "early"])
def test_a_call_with_an_exit_status_keeps_stderr(key: str, policy: str):
    lines = "\n".join(f"{number}: compiling a part of it" for number in range(5_000))
    result = {key: 2, "stdout": lines, "stderr": "the cause\nof it"}
    shown = read_by_model(result, policy)
    assert json.loads(shown.rpartition("\n")[0])["stderr"] == "the cause\nof it"
    assert "4999: compiling" in shown
    assert "4940 lines omitted" in shown.replace(",", "")
    assert COUNTER.count(shown) <= 4_100


def test_an_exit_status_of_zero_is_no_failure():
    lines = "\n".join(f"{number}: compiling a part of it" for number in range(5_000))
    text = json.dumps({"exit_code": 0, "stdout": lines})
    assert "0: compiling" in bounded(text, COUNTER.count)[:200]


@pytest.mark.parametrize(
    ("text", "is_whole"),
    [
        ("word " * 7_900, True),
        ("word " * 8_200, False),
        ("a b c d e f g h i j\n" * 499, True),
        ("a b c d e f g h i j\n" * 501, False),
        ("a\n" * 600, True),
    ],
)
def test_a_text_is_whole_up_to_8000_tokens_and_500_lines(text: str, *, is_whole: bool):
    assert (bounded(text, COUNTER.count) == text) == is_whole


def test_of_many_pictures_the_model_sees_three():
    def draw() -> list[Image.Image]:
        """Draw."""
        return [Image.new("RGB", (9, 9))] * 200

    provider = ScriptedProvider(calls("draw"), says("Done."))
    agent = Agent(provider, tools=[draw])
    agent.ask("Go.")
    history = provider.requests[-1].history
    assert sum(each.tool_name == "image" for each in history) == 3
    assert any("the first 3 of 200 pictures follow" in user_text(e) for e in history)
