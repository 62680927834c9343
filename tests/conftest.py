"""Fixtures and rules for every test: no keys, loopback only, nothing skipped in CI."""

import asyncio
import atexit
import gc
import os
import socket
import sys
from collections.abc import Generator, Iterator
from functools import cache
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fault_server import FaultServer

if TYPE_CHECKING:
    from nbchat.providers.local import LocalServer

TESTS = Path(__file__).parent

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
CHILDREN = str(TESTS / "support" / "children")
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [CHILDREN, os.environ.get("PYTHONPATH")])
)
# Else nbformat reads 38 grammars of web addresses, a second in each process, also in
# kernels and servers; no schema of ours has such an address.

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Else each kernel and each other process compiles the package again.

FILES = {
    "browser": ("browser/",),
    "kernel": (
        "test_notebooks.py",
        "jupyter/test_kernel.py",
        "jupyter/test_kernel_versions.py",
        "jupyter/test_server.py",
    ),
    "slow": (
        "agent/test_crash.py",
        "agent/test_growth.py",
        "chat/attachments/test_file_preview.py",
        "compaction/memory/test_records.py",
        "compaction/memory/test_work.py",
        "compaction/pruning/test_arriving_outputs.py",
        "compaction/test_injection.py",
        "conversation/test_values.py",
        "jupyter/panel/test_view_sync.py",
        "providers/test_history_repair.py",
        "providers/test_llama_cpp.py",
        "providers/test_local.py",
        "rendering/test_hostile_texts.py",
        "seeds/",
        "storage/test_autosave.py",
        "storage/test_drafts.py",
        "storage/test_postgres.py",
        "storage/test_stress.py",
    ),
}
"""Files and folders whose tests all have a marker. In those of `kernel` every test may
start a kernel or a Jupyter server; those of `slow` take over 4 s together, for they kill
processes, start servers, or try thousands of histories."""

FIXTURES = {"kernel": "kernel", "llama_server": "slow"}
"""Fixtures that start a kernel or a real model, and the marker of the tests with them."""

LONG = ("slow", "kernel")
"""Markers of tests that begin first, for the last ones to be short."""

KEYS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OPENAI_API_KEY",
)
SETTINGS = (
    "ANTHROPIC_BASE_URL",
    "GEMINI_BASE_URL",
    "OPENAI_BASE_URL",
    "JPY_SESSION_NAME",
)


_NUMBERS = count()


class NetworkClosedError(RuntimeError):
    """A test tried to leave this machine."""


@pytest.fixture(autouse=True, scope="session")
def closed_network() -> Iterator[None]:
    """Let sockets reach this machine only, so that no test can call a paid API."""
    connect = socket.socket.connect

    def loopback_only(self: socket.socket, address: object) -> None:
        if isinstance(address, tuple) and address[0] not in (
            "127.0.0.1",
            "::1",
            "localhost",
        ):
            raise NetworkClosedError(f"a test tried to connect to {address}")
        connect(self, address)  # type: ignore[arg-type]

    socket.socket.connect = loopback_only  # type: ignore[method-assign,assignment]
    yield
    socket.socket.connect = connect  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def clean_environment(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> None:
    """Remove keys and settings of the person running the tests; keep data apart."""
    for name in os.environ:
        if name in KEYS + SETTINGS or name.startswith("NBCHAT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    if "tmp_path" in request.fixturenames:
        folder = request.getfixturevalue("tmp_path")
    else:  # made only by a test that writes there: 4,000 folders take 10 s
        folder = tmp_path_factory.getbasetemp() / f"{next(_NUMBERS)}"
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(folder / "jupyter-data"))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(folder / "jupyter-config"))


@pytest.fixture(scope="session")
def llama_server() -> "LocalServer":
    """The real llama.cpp server with the embedded model and a 4,096-token window."""
    from nbchat.providers.local import LocalServer
    from nbchat.providers.model_download import model_file

    template = (files("nbchat.providers") / "smollm2.jinja").read_text(encoding="utf-8")
    return LocalServer(model_file("smollm2"), window=4_096, chat_template=template)


@pytest.fixture
def garbage_kept() -> Iterator[None]:
    """Collect no garbage: while a parser is a thousand brackets deep, no finalizer of
    what another test has left can run, and each says so."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A model's server on a real socket whose script is empty."""
    server = FaultServer()
    yield server
    server.close()


def pytest_sessionstart() -> None:
    """Collect no garbage while files are read: their objects stay, and it takes 5 s."""
    gc.disable()


def pytest_collect_file() -> None:
    """Set hypothesis up only where files are read: with `-n` this process needs none."""
    set_hypothesis_up()


@cache
def set_hypothesis_up() -> None:
    """Let no example fail for a slow machine; `tests/fuzz` tries more of them."""
    import hypothesis

    hypothesis.settings.register_profile("suite", max_examples=40, deadline=None)
    hypothesis.settings.load_profile("suite")


def pytest_collection_finish() -> None:
    """Keep what was read out of later collections, each of which would take 0.2 s."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # a twentieth of all time otherwise
    gc.enable()


def markers_of(path: Path) -> set[str]:
    """The markers that all tests of a file, or of a folder, have."""
    file = Path(os.path.relpath(path, TESTS)).as_posix() + "/" * path.is_dir()
    return {marker for marker, files in FILES.items() if file.startswith(files)}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files unread of which `-m "not slow and ..."` selects no test.

    Reading all files takes a process 14 s, which is most of a quick run.
    """
    expression = config.option.markexpr
    terms = [] if " or " in expression else expression.split(" and ")
    unwanted = {term.removeprefix("not ") for term in terms if term.startswith("not ")}
    return True if unwanted & markers_of(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by what they start, so that no test has to be marked by hand."""
    for item in items:
        markers = markers_of(item.path)
        if "browser" not in markers:
            markers |= {FIXTURES[each] for each in FIXTURES.keys() & item.fixturenames}
        for marker in markers:
            item.add_marker(marker)
    if "PYTEST_XDIST_WORKER" in os.environ:  # a long test must not begin last
        items.sort(key=lambda item: not any(map(item.get_closest_marker, LONG)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Run all browser tests in one process."""
    from workers import Shares

    return Shares(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Hide the loop that Playwright leaves running in the thread of its process.

    `asyncio.run` refuses beside it, so that a test would fail where browser tests ran.
    """
    if item.get_closest_marker("browser"):
        return (yield)
    loop = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        return (yield)
    finally:
        asyncio._set_running_loop(loop)


def spare_shells() -> None:
    """Let the process end at once: each IPython shell would collect all garbage then.

    There are hundreds, and it takes half a second for each.
    """
    if module := sys.modules.get("IPython.core.interactiveshell"):
        for each in gc.get_objects():
            if issubclass(type(each), module.InteractiveShell):
                atexit.unregister(each.atexit_operations)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail in CI if a test was skipped."""
    spare_shells()
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    if os.environ.get("CI") and skipped and session.exitstatus == pytest.ExitCode.OK:
        reporter.write_line(
            f"{len(skipped)} tests were skipped in CI: that is a failure"
        )
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
