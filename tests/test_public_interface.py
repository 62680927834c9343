"""The public interface: its names, its signatures, its types, and what loading costs."""

import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tables import every

import nbchat

ROOT = Path(nbchat.__file__).parents[1]

NAMES = """
    Agent Answer Approvals Branched Budget ChatUI Commands Compacted Compaction CompactionChanged
    CompactionEngine CompactionFailed CompactionProgress CompactionProposed CompactionSkipped
    CompactionStarted CompactionUndone ContentLeftOut Entry EntryAdded Event MapRun McpServers ModelInfo PRESETS PinsChanged Plan
    Policy Prices Provider RequestQueued RetryScheduled SavingFailed Session SessionStore StopReason Store
    TextDelta ThinkingDelta ToolRequested Turn TurnFailed TurnFinished Usage
    UsageReported build_agent connect errors idempotency_key map_agents model_info session_log settings
    show testing tool
"""

SIGNATURES = {
    "Agent": "provider * base_url api_key window tools system engine session tool_choice "
    "max_steps max_output_tokens approve listener recall context_tools rules budget options",
    "Agent.run": "self text * stop attached pasted from_cell output budget",
    "Agent.chat": "self text * stop attached output budget",
    "Agent.ask": "self text * stop attached output budget",
    "Agent.aask": "self text * stop attached output budget",
    "Agent.achat": "self text * stop attached output budget",
    "Agent.retry": "self * stop output budget keeps_partial",
    "Agent.compact": "self * focus keep upto stop",
    "Agent.use": "self provider * window",
    "Turn.result": "self",
    "Turn.close": "self",
    "CompactionEngine": "context_token_threshold summary_prompt summary_model policy "
    "* info fallback_model live_variables encoding threshold",
    "Session": "transcript * session_id compactions usages pins dropped_rules ancestors "
    "cell_changes",
    "build_agent": "config * tools system tool_choice approve session store namespace "
    "connects_later",
    "map_agents": "make_agent rows * key prompt output samples workers executor budget store "
    "name redo_changed on_error batch start",
    "MapRun.wait": "self timeout_seconds",
    "MapRun.table": "self * wait",
    "connect": "model * base_url api_key window api_key_hosts headers proxy options",
    "Approvals": "* free listener",
    "Approvals.approve": "self ticket * always turn draft",
    "Approvals.deny": "self ticket reason",
}

ERRORS = """
    AttachmentError AuthenticationFailed CompactionError ConfigError ConnectionFailed
    ContextOverflow HistoryError ModelFileError NbchatError Overloaded ProtocolFault
    ProviderError QuotaExhausted RateLimited RequestRefused SessionNotFound Stopped
    StoreError
"""


def run_python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_dir_lists_the_public_names_and_nothing_else():
    assert dir(nbchat) == sorted(NAMES.split()) == sorted(nbchat.__all__)


def test_every_public_name_can_be_loaded():
    assert all(getattr(nbchat, name) is not None for name in nbchat.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Agnet'"):
        _ = nbchat.Agnet


def test_type_checkers_find_each_name_where_python_does():
    stub = ast.parse((ROOT / "nbchat" / "__init__.pyi").read_text(encoding="utf-8"))
    found = {
        alias.name: node.module.removeprefix("nbchat.")
        for node in stub.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    assert {name: found.pop(name) for name in ("errors", "testing")}
    assert found == nbchat._HOMES


@every(("path", "expected"), SIGNATURES.items())
def test_the_main_signatures_stay(path: str, expected: str):
    name, _, method = path.partition(".")
    target = getattr(nbchat, name)
    parameters = inspect.signature(getattr(target, method) if method else target)
    names: list[str] = []
    for each in parameters.parameters.values():
        if each.kind is each.KEYWORD_ONLY and "*" not in names:
            names.append("*")
        names.append(each.name)
    assert " ".join(names) == expected


def test_the_errors_are_in_one_module():
    assert [name for name in ERRORS.split() if not hasattr(nbchat.errors, name)] == []


def test_looking_at_the_package_loads_nothing_and_is_silent():
    code = (
        "import sys, nbchat; dir(nbchat), nbchat.__all__, nbchat.__version__\n"
        "loaded = [n for n in sys.modules if n.startswith('nbchat.')]\n"
        "sys.exit(len(loaded))"
    )
    done = run_python("-W", "error", "-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_mypy_checks_a_users_module_beside_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["tool"]["mypy"]["files"] == ["nbchat", "tests/data/users_module.py"]
    assert project["tool"]["mypy"]["strict"]


def test_the_package_says_that_it_is_typed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "Typing :: Typed" in project["classifiers"]
    assert project["urls"]
    assert (ROOT / "nbchat" / "py.typed").exists()


@pytest.mark.parametrize("name", ["nbchat.approvals", "nbchat.build"])
def test_a_path_from_before_fails_with_pythons_own_error(name: str):
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{name}'"):
        importlib.import_module(name)


SHOWN = re.compile(r"(?<!-m )\bnbchat\.([\w.]*\w)(?: import ([^#\n]+))?")
KNOWN = {
    "agent.telemetry",  # a logger
    "compaction",  # with the engine, as the requirements in tests/seeds name it
    "errors",
    "testing",
}


def shown_to_users() -> Iterator[tuple[str, str]]:
    """The texts that users read: documents, notebooks' cells and public docstrings."""
    for file in (*ROOT.glob("[A-Z]*.md"), *(ROOT / "docs").rglob("*.md")):
        yield file.name, file.read_text(encoding="utf-8")
    for file in (ROOT / "notebooks").rglob("*.ipynb"):
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        yield file.name, "\n".join("".join(cell["source"]) for cell in cells)
    for name in nbchat.__all__:
        thing = getattr(nbchat, name)
        yield name, inspect.getdoc(thing) or ""
        for own, method in vars(thing).items() if inspect.isclass(thing) else ():
            yield f"{name}.{own}", inspect.getdoc(method) or ""


def test_users_are_shown_public_names_only():
    paths = [
        (place, m) for place, text in shown_to_users() for m in SHOWN.finditer(text)
    ]
    assert len(paths) > 20
    hidden = [
        (place, path[0])
        for place, path in paths
        if path[1] not in KNOWN and path[1].partition(".")[0] not in dir(nbchat)
    ]
    assert hidden == []
    imported = re.compile(r"^from nbchat import (\w[\w, ]*)", re.MULTILINE)
    names = {
        name
        for _, text in shown_to_users()
        for line in imported.findall(text)
        for name in re.split(r"[, ]+", line)
    }
    assert names - set(dir(nbchat)) == set()
