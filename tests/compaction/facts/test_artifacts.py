"""Files, commands and errors, in the form in which they were written."""

import json

import pytest

from nbchat.compaction.facts import artifacts
from nbchat.conversation.entries import FAILED, Entry
from nbchat.providers.tokens import TokenCounter

COUNTER = TokenCounter()


def user(text: str) -> Entry:
    return Entry("user", text)


def answer(text: str) -> Entry:
    return Entry("assistant", text)


def called(tool: str, output: str = "ok", *, failed: bool = False, **arguments: object):
    """A call and its result."""
    call = Entry("assistant", "", "1", tool, json.dumps(arguments))
    return [call, Entry("tool", output, "1", tool, FAILED if failed else "")]


def test_files_commands_and_errors_are_listed():
    call = '{"command": "pytest -q tests/test_a.py"}'
    entries = [
        user("See /srv/app/config.yaml and README.md, not version 1.2.3 or e.g. this."),
        Entry("assistant", "", "1", "execute_bash", call),
        Entry("tool", "E   ValueError: bad port\nok", "1", "execute_bash"),
        Entry("tool", "error: no such tool", "2", "look", FAILED),
        answer("```bash\n$ make install\n```"),
    ]
    assert artifacts.files(entries) == [
        "/srv/app/config.yaml",
        "README.md",
        "tests/test_a.py (run)",
    ]
    assert artifacts.commands(entries) == ["pytest -q tests/test_a.py", "make install"]
    assert artifacts.errors(entries) == [
        "E ValueError: bad port (from pytest -q tests/test_a.py)",
        "no such tool",
    ]


@pytest.mark.parametrize(
    "path",
    [
        "./scripts/build.sh",
        "../other/Makefile",
        "~/notes",
        "~/.config/app.toml",
        "C:\\data\\x.csv",
        "C:\\data",
        "/srv/app/config.yaml",
        "src/app.py",
        "my-file.v2.txt",
    ],
)
def test_a_path_keeps_its_form(path):
    assert artifacts.files([user(f"Look at {path}, please.")]) == [path]
    assert artifacts.files([user(f"It is in {path}.")]) == [path]
    assert artifacts.files(called("open_tab", path=path)) == [f"{path} (read)"]
    assert artifacts.files(called("browse", text=f"in {path} now")) == [path]


def test_a_path_argument_is_taken_as_it_is():
    path = "C:\\My Documents\\report final.docx"
    assert artifacts.files(called("write_file", path=path)) == [f"{path} (written)"]


def test_files_are_in_the_order_of_their_last_use_with_what_was_done_to_them():
    entries = [
        *called("read_file", path="a.py"),
        *called("read_file", path="b.py"),
        *called("str_replace_editor", command="create", path="c.py"),
        *called("str_replace_editor", command="str_replace", path="a.py"),
        *called("bash", command="rm -f d.py"),
        *called("bash", "found e.py and f.py", command="./run.sh b.py"),
        *called("edit_file", "error: no such file", failed=True, path="g.py"),
    ]
    assert artifacts.files(entries) == [
        "e.py",
        "f.py",
        "c.py (written)",
        "a.py (read, edited)",
        "d.py (deleted)",
        "b.py (read)",
        "./run.sh (run)",
        "g.py",
    ]


def test_a_diff_names_its_files_without_its_prefixes():
    diff = (
        "diff --git a/src/app.py b/src/app.py\n--- a/src/app.py\n+++ b/src/app.py\n"
        "@@ -38,7 +38,9 @@ def main():\n-    old()\n+    new()\n"
    )
    assert artifacts.files([user(diff)]) == ["src/app.py"]


@pytest.mark.parametrize(
    ("output", "status"),
    [
        ("all good", ""),
        ("2 failed\nexit code: 1", " (exit 1)"),
        ("[The command completed with exit code 0.]", " (exit 0)"),
        (json.dumps({"stdout": "x", "returncode": 2}), " (exit 2)"),
        ("Process exited with code 127", " (exit 127)"),
    ],
)
def test_a_command_has_its_exit_status_where_it_is_known(output, status):
    entries = called("bash", output, command="make test")
    assert artifacts.commands(entries) == [f"make test{status}"]


def test_a_command_that_failed_without_a_status_says_so():
    entries = called("bash", "error: killed", failed=True, command="make test")
    assert artifacts.commands(entries) == ["make test (failed)"]


def test_a_command_run_again_is_listed_once_with_its_newest_status():
    entries = [
        *called("bash", "exit code 1", command="make test"),
        *called("bash", "ok", command="ls src"),
        *called("bash", "exit code 0", command="make test"),
    ]
    assert artifacts.commands(entries) == ["ls src", "make test (exit 0)"]


def test_an_error_has_its_cause():
    python = (
        "Traceback (most recent call last):\nValueError: bad port\n\nThe above exception "
        "was the direct cause of the following exception:\n\nRuntimeError: cannot start\n"
    )
    java = "AppException: cannot start\n  at x.y\nCaused by: z\nIoError: no disk"
    assert artifacts.errors([user(python)]) == [
        "RuntimeError: cannot start, caused by ValueError: bad port"
    ]
    assert artifacts.errors(called("deploy", java)) == [
        "AppException: cannot start, caused by IoError: no disk (from deploy)"
    ]


def test_an_error_that_begins_on_the_next_line_is_read():
    assert artifacts.errors(called("edit", "ERROR:\nNo match in a.py.")) == [
        "ERROR: No match in a.py. (from edit)"
    ]


def test_code_that_speaks_of_errors_is_none():
    code = (
        "except ValueError as error:\n    raise SyntaxError(text)\nlet e: SyntaxError"
    )
    assert artifacts.errors([Entry("tool", code, "1", "read")]) == []


def test_artifacts_are_within_their_budget_and_say_what_is_missing():
    entries = [user(f"/data/file_{n}.csv") for n in range(200)]
    lines = artifacts.artifact_lines(entries, 100, COUNTER)
    assert lines[0] == artifacts.FILES_TITLE
    assert lines[1].endswith("earlier omitted)")
    assert lines[-1] == "/data/file_199.csv"
    assert COUNTER.count("\n".join(lines)) <= 110
