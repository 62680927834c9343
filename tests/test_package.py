"""What a user gets by pip: the wheel, built and looked into."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from nbchat.cli.main import DEMO_FOLDER

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel_files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
    ]
    subprocess.run(
        [*command, "--quiet", "--wheel-dir", str(folder), str(ROOT)],
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.mark.slow
@pytest.mark.parametrize(
    "file",
    [
        "nbchat/py.typed",
        "nbchat/__init__.pyi",
        "nbchat/jupyter/panel/frontend/bundle.js",
        "nbchat/jupyter/panel/frontend/header.css",
        "nbchat/rendering/css/base.css",
        "nbchat/cli/data/quickstart.ipynb",
        "nbchat/cli/data/ticket_triage.ipynb",
        "nbchat/cli/data/ticket_desk.py",
        "nbchat/cli/data/data/tickets.jsonl",
        "nbchat/cli/data/data/help_articles.jsonl",
        "nbchat/testing/data/LICENSES.md",
        "nbchat/providers/smollm2.jinja",
        "etc/jupyter/nbchat_config.d/10-defaults.json",
        "etc/jupyter/jupyter_server_config.d/nbchat.json",
        "share/jupyter/labextensions/jupyter-nbchat/install.json",
        "share/jupyter/labextensions/jupyter-nbchat/package.json",
        "share/jupyter/labextensions/jupyter-nbchat/schemas/jupyter-nbchat/plugin.json",
    ],
)
def test_the_wheel_holds_what_the_product_needs(wheel_files: list[str], file: str):
    assert [name for name in wheel_files if name.endswith(file)]


@pytest.mark.slow
def test_the_wheel_holds_no_tests_no_database_and_no_model(wheel_files: list[str]):
    foreign = (".db", ".gguf", "conftest.py", ".pyc")
    assert [name for name in wheel_files if name.endswith(foreign)] == []
    assert [name for name in wheel_files if name.startswith("tests/")] == []
    tools = ("node_modules/", "frontend/src/", "package-lock.json", "jupyter/lab/")
    tools += ("protocol.json",)
    assert [name for name in wheel_files if any(tool in name for tool in tools)] == []


def test_the_readme_prints_the_test_command_that_ci_runs():
    command = '.venv/bin/pip install -e ".[test]" && .venv/bin/pytest'
    assert command in (ROOT / "README.md").read_text(encoding="utf-8")
    assert 'install -e "\\.\\[test\\]"' in (ROOT / ".ci" / "run").read_text()


def test_the_demo_leaves_a_checkout_clean(tmp_path: Path):
    for name in (".gitignore", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    left = tmp_path / DEMO_FOLDER / "ticket_triage-executed.ipynb"
    left.parent.mkdir()
    shutil.copy(ROOT / "notebooks" / "ticket_triage.ipynb", left)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    status = ["git", "status", "--porcelain", "--untracked-files=all"]
    assert shown(status, tmp_path) == "?? .gitignore\n?? pyproject.toml\n"
    ruff = [sys.executable, "-m", "ruff"]
    for arguments in (["check"], ["format", "--check"]):
        checked = [*ruff, *arguments, "--no-respect-gitignore", "--no-cache"]
        assert "ticket_triage" not in shown(checked, tmp_path)


def shown(command: list[str], folder: Path) -> str:
    """What a command that must succeed prints."""
    done = subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


def test_tests_are_marked_by_what_they_start(request: pytest.FixtureRequest):
    for item in request.session.items:
        marked = {marker.name for marker in item.iter_markers()}
        if "tests/browser/" in item.nodeid:
            assert "browser" in marked, item.nodeid
        elif "kernel" in getattr(item, "fixturenames", ()):
            assert "kernel" in marked, item.nodeid


def test_every_test_that_the_tests_readme_names_exists():
    tests = ROOT / "tests"
    named = set(re.findall(r"`(test_\w+)`", (tests / "README.md").read_text()))
    source = "".join(file.read_text() for file in tests.rglob("test_*.py"))
    defined = set(re.findall(r"def (test_\w+)\(", source))
    files = {file.stem for file in tests.rglob("test_*.py")}
    assert sorted(named - defined - files) == []


@pytest.mark.parametrize(
    ("heading", "number"),
    [
        ("## How compaction fails elsewhere", 48),
        ("## What users of notebook chats complain of", 28),
    ],
)
def test_the_tests_readme_names_a_test_for_each_failure_and_complaint(
    heading: str, number: int
):
    text = (ROOT / "tests" / "README.md").read_text()
    table = text.partition(heading)[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \|.*`test_\w+`", table, re.MULTILINE)
    assert [int(row) for row in rows] == list(range(1, number + 1))
