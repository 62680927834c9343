"""README and docs: every block of code runs, the pages build, and nothing is fetched."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fault_server import (
    AnthropicDialect,
    FaultServer,
    OpenAIDialect,
    Recorded,
    Response,
    failure,
)
from IPython.core.interactiveshell import InteractiveShell
from tables import every

import nbchat
from nbchat.chat.commands import Commands
from nbchat.cli.main import _parser
from nbchat.config.settings import TABLE
from nbchat.errors import NbchatError
from nbchat.storage.store import SessionStore

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = [README, *sorted(DOCS.rglob("*.md")), *ROOT.glob("[CS]*.md")]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
README_BYTES = 4_096
CHANGELOG_LINES = 40

FENCED = re.compile(
    r"^(?:<!-- not run: (?P<reason>.+?) -->\n)?```(?P<language>\w+)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\]\(([^)#:]+?)(?:#[\w-]+)?\)")
DECISION = {"category": "card", "priority": "high", "reason": "It was declined."}


@dataclass(frozen=True)
class Block:
    """A block of code on a page."""

    language: str
    code: str
    reason: str
    """Why it is not run; empty if it is."""


def blocks(page: Path) -> list[Block]:
    found = FENCED.finditer(page.read_text(encoding="utf-8"))
    return [
        Block(each["language"], each["code"], each["reason"] or "") for each in found
    ]


class Models(FaultServer):
    """A model behind each API that the pages name."""

    def next_response(self, request: Recorded) -> Response:
        self.requests.append(request)
        if not request.body:
            return failure(404)
        if request.path.endswith("/messages"):
            return AnthropicDialect().text("It was shipped.")
        is_typed = '"json_schema"' in json.dumps(request.body)
        text = json.dumps(DECISION) if is_typed else "It was shipped."
        return OpenAIDialect().text(text)


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Models]:
    server = Models()
    for name, path in {"ANTHROPIC": "", "OPENAI": "/v1", "OLLAMA": "/v1"}.items():
        monkeypatch.setenv(f"{name}_API_KEY", "sk-test")
        monkeypatch.setenv(f"{name}_BASE_URL", f"{server.url}{path}")
    monkeypatch.chdir(tmp_path)
    yield server
    server.close()


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "nbchat")
    yield shell
    shell.run_line_magic("unload_ext", "nbchat")
    shell.history_manager.end_session()


def run_cells(shell: InteractiveShell, server: Models, cells: list[str]) -> None:
    """Run cells as a notebook does; the address on the page is the server's here."""
    for cell in cells:
        here = cell.replace("http://localhost:8000/v1", f"{server.url}/v1")
        shell.run_cell(here).raise_error()


CELLS = {
    name: [
        each.code
        for each in blocks(ROOT / name)
        if each.language in ("python", "ipython3") and not each.reason
    ]
    for name in NAMES
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, cells in CELLS.items() if cells])
def test_every_cell_of_a_page_runs(name, shell, models):
    run_cells(shell, models, CELLS[name])


OWN_SERVER = "NbChat.base_url"


@pytest.mark.slow
def test_own_server_answers_after_the_lines_that_name_it(shell, models):
    cell = next(
        each for each in CELLS["docs/get-started/own-server.md"] if OWN_SERVER in each
    )
    run_cells(shell, models, [cell, "%%chat\nHello"])
    asked = [each for each in models.requests if each.body]
    assert [each.path for each in asked] == ["/v1/chat/completions"]
    assert asked[0].body["model"] == "my-model"
    agent = shell.run_line_magic("chat", "agent")
    assert agent.engine.tracker.info.window == 32_000


@pytest.mark.slow
def test_a_local_server_is_found_by_its_name(shell, models):
    cells = [
        each for each in CELLS["docs/get-started/own-server.md"] if "ollama:" in each
    ]
    run_cells(shell, models, [*cells, "%%chat\nHello"])
    assert models.requests[-1].body["model"] == "qwen3:8b"


EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]
ELSEWHERE = {
    "python3 -m venv": "test_main.py runs the demo, and .ci/run the tests, as written",
    "jupyter labextension ": "browser/test_beside.py uses it in JupyterLab",
    ".venv/bin/jupyter": "test_notebooks.py compares what it writes",
    "NBCHAT_TEST_NOTEBOOK_7=1 .venv/bin/pytest": "browser/labkit.py reads the variable",
}
"""Commands that other tests run, by how they begin."""


@every("name", NAMES)
def test_every_command_of_a_page_exists(name):
    page = blocks(ROOT / name)
    lines = [
        line
        for each in page
        if each.language in ("bash", "text")
        for line in each.code.splitlines()
    ]
    commands = Commands(SessionStore("sqlite://")).table
    for line in lines:
        check_command(line, commands)


def check_command(line: str, commands: dict[str, object]) -> None:
    """Fail if a line of a shell, or a slash command, names what does not exist."""
    if line.startswith(tuple(ELSEWHERE)):
        return
    if line.startswith("/"):
        name, setting, *_ = [*line[1:].split(), ""]
        assert name in commands, line
        assert name != "set" or setting in TABLE, line
        return
    match shlex.split(line, comments=True):
        case ["pip", "install", package]:
            found = re.fullmatch(r"jupyter-nbchat(?:\[([\w,]+)\])?", package)
            assert found, line
            assert {*filter(None, (found[1] or "").split(","))} <= EXTRAS.keys()
        case ["nbchat", *arguments]:
            assert _parser().parse_args(arguments).command, line
        case ["export", variable]:
            assert variable.partition("=")[0] in {e.variable for e in TABLE.values()}
        case ["python" | "pytest", file, *_]:
            assert (ROOT / file).is_file(), line
        case _:
            raise AssertionError(f"how is this line checked? {line}")


@every("name", NAMES)
def test_every_json_of_a_page_is_valid(name):
    for each in blocks(ROOT / name):
        if each.language == "json":
            found = json.loads(each.code)
            assert {*found.get("NbChat", {}), *found.get("locked", [])} <= TABLE.keys()


def test_every_block_has_a_language_that_is_checked():
    known = {"python", "ipython3", "bash", "text", "json"}
    others = {each.language for page in PAGES for each in blocks(page)} - known
    assert others == set()


@every("name", NAMES)
def test_every_file_that_a_page_links_to_exists(name):
    page = ROOT / name
    links = LINK.findall(page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_readme_is_read_in_two_minutes():
    assert len(README.read_bytes()) <= README_BYTES


def test_the_changelog_has_this_version_in_a_screen_of_lines():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    unreleased, heading, rest = text.partition(f"## [{nbchat.__version__}] - ")
    section = rest.partition("\n## [")[0]
    assert heading
    assert "## [Unreleased]\n" in unreleased
    assert len(section.splitlines()) < CHANGELOG_LINES


OFFLINE = """
import socket, sys
def refuse(*_): raise RuntimeError("a build must not need a network")
socket.socket.connect = refuse
from sphinx.cmd.build import main
sys.exit(main(sys.argv[1:]))
"""


def build(source: Path, target: Path) -> "subprocess.CompletedProcess[str]":
    """Build pages as `.ci/run` does, without a network."""
    options = ["-q", "-n", "-W", "--keep-going", "-c", str(DOCS)]
    folders = ["-d", str(target / "doctrees"), str(source), str(target / "html")]
    return subprocess.run(
        [sys.executable, "-c", OFFLINE, *options, *folders],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    built = build(DOCS, folder)
    assert built.returncode == 0, built.stderr
    return folder / "html"


@pytest.mark.slow
def test_the_pages_load_nothing_from_elsewhere(html):
    loaded = re.compile(
        r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"(?:https?:)?//"
    )
    imported = re.compile(r"(?:@import\s+|url\()['\"]?(?:https?:)?//")
    pages = {file: file.read_text(encoding="utf-8") for file in html.rglob("*.html")}
    styles = {file: file.read_text(encoding="utf-8") for file in html.rglob("*.css")}
    assert pages
    assert styles
    assert [file for file, text in pages.items() if loaded.search(text)] == []
    assert [file for file, text in styles.items() if imported.search(text)] == []


@pytest.mark.slow
def test_the_reference_has_every_setting_command_error_and_public_name(html):
    def page(name: str) -> str:
        return (html / "reference" / f"{name}.html").read_text(encoding="utf-8")

    settings, commands = page("settings"), page("commands")
    ids = {name: f'id="setting-{name.replace("_", "-")}"' for name in TABLE}
    assert [name for name, each in ids.items() if settings.count(each) != 1] == []
    known = Commands(SessionStore("sqlite://")).table
    assert [name for name in known if f">/{name}<" not in commands] == []
    python = page("python") + page("events")
    names = [name for name in nbchat.__all__ if name not in ("errors", "testing")]
    assert [name for name in names if f'id="nbchat.{name}"' not in python] == []
    errors = page("errors")
    waiting = [NbchatError]
    while waiting:
        error = waiting.pop()
        assert f'id="nbchat.errors.{error.__name__}"' in errors
        waiting += [
            e for e in error.__subclasses__() if e.__module__ == error.__module__
        ]


@pytest.mark.slow
def test_a_broken_link_inside_fails_the_build(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    links = ("[Here](gone.md)", "[Here](index.md#lost)", "{py:class}`nbchat.Gone`")
    (source / "index.md").write_text("# Title\n\n" + "\n\n".join(links) + "\n")
    built = build(source, tmp_path / "built")
    assert built.returncode
    for name in ("gone.md", "lost", "nbchat.Gone"):
        assert name in built.stderr
