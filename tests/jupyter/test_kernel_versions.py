"""Stop while a cell runs, on three generations of ipykernel: one way in always works.

Before 7 a kernel hears no click until its cell ends; 7.3 hears it on a subshell; 7.4
sends it to where the last message came from. The server's route works on all of them.
The older ones are fetched from the package index once, as the embedded model is.
"""

import contextlib
import tempfile
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import Any

import ipykernel
import pytest
from server_kit import REPOSITORY, Server, ServerKernel, jupyter_server

from nbchat.providers.model_download import _download, cache_folder

WAIT_SECONDS = {True: 20, False: 2}
"""How long a stop that is expected, and one that is not, is waited for. It takes 0.1 s
on a quiet machine; what matters is that the cell still runs."""

CHAT = """
import time
from nbchat import Agent, ChatUI
from nbchat.testing import ScriptedProvider, says
answers = [says('word ' * 2_000, delay_seconds=0.02)] * 2
chat = ChatUI(Agent(ScriptedProvider(*answers)))
"""

BUSY = """
import os
from pathlib import Path
end = Path(os.environ['JUPYTER_RUNTIME_DIR'], 'cell-may-end')
print('begun', flush=True)
latest = time.monotonic() + 60
while time.monotonic() < latest and not end.exists():
    sum(range(1_000))
end.unlink()
"""


@dataclass(frozen=True)
class Expected:
    """An ipykernel, and whether it hears a click while a cell runs."""

    version: str
    has_subshells: bool
    hears_clicks: bool


EXPECTED = [
    Expected("6.31.0", has_subshells=False, hears_clicks=False),
    Expected("7.3.0", has_subshells=True, hears_clicks=True),
    Expected("7.4.0", has_subshells=True, hears_clicks=True),
]


class View:
    """A panel's view as a notebook has it: it hears the kernel and sends clicks."""

    def __init__(self, kernel: ServerKernel, *, has_subshells: bool) -> None:
        self.client = kernel.client
        self.comm = kernel.run("print(chat.comm.comm_id)").strip()
        self.subshell = self._subshell() if has_subshells else None

    def _subshell(self) -> str:
        """JupyterLab gives the widgets of a notebook a subshell of their own."""
        request = self.client.session.msg("create_subshell_request", {})
        self.client.control_channel.send(request)
        reply = self.client.control_channel.get_msg(timeout=60)
        subshell: str = reply["content"]["subshell_id"]
        return subshell

    def send(self, **content: Any) -> None:
        data = {"method": "custom", "content": content}
        click = self.client.session.msg(
            "comm_msg", {"comm_id": self.comm, "data": data}
        )
        if self.subshell:
            click["header"]["subshell_id"] = self.subshell
        self.client.shell_channel.send(click)

    def leave(self) -> None:
        """What JupyterLab does when no widget is left that needs the subshell."""
        if self.subshell is not None:
            content = {"subshell_id": self.subshell}
            request = self.client.session.msg("delete_subshell_request", content)
            self.client.control_channel.send(request)
            reply = self.client.control_channel.get_msg(timeout=60)
            assert reply["content"]["status"] == "ok"

    def hear(self, *, seconds: float) -> Iterator[dict[str, Any]]:
        """What the kernel says to the view, for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            with contextlib.suppress(Empty):
                message = self.client.get_iopub_msg(timeout=left)
                if message["header"]["msg_type"] == "comm_msg":
                    yield message["content"]["data"].get("content", {})

    def begin_a_turn(self, text: str) -> None:
        """Say what was not said before and wait until its own answer streams.

        The last words of the answer before may still be on their way.
        """
        self.send(type="send", text=text)
        is_said = False
        for said in self.hear(seconds=60):
            for event in said.get("events", []):
                is_said = is_said or text in str(event)
                if is_said and event["op"] == "text":
                    return
        raise AssertionError(f"no answer to {text!r} in time")

    def seconds_to_the_end(self, *, limit: float) -> float | None:
        """How long until the partial answer is marked; None if it is not in time."""
        began = time.monotonic()
        for said in self.hear(seconds=limit):
            if "cut off here" in str(said):
                return time.monotonic() - began
        return None


def unpacked(version: str) -> str:
    """The folder that an ipykernel is imported from, fetched if it is not there."""
    if version == ipykernel.__version__:
        return ""
    folder = cache_folder() / f"ipykernel-{version}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as place:
            wheel = _download(f"ipykernel=={version}", Path(place), is_quiet=True)
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(Path(place) / "whole")
            (Path(place) / "whole").rename(folder)
    return str(folder)


@pytest.fixture(scope="module", params=EXPECTED, ids=lambda expected: expected.version)
def expected(request: pytest.FixtureRequest) -> Expected:
    chosen: Expected = request.param
    return chosen


@pytest.fixture(scope="module")
def server(
    expected: Expected, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folders = [unpacked(expected.version), str(REPOSITORY)]
    path = ":".join(filter(None, folders))
    place = tmp_path_factory.mktemp("server")
    with jupyter_server(place, PYTHONPATH=path) as running:
        yield running


@pytest.fixture(scope="module")
def kernel(server: Server) -> Iterator[ServerKernel]:
    """One kernel of each version; a test makes a chat of its own there."""
    started = ServerKernel(server)
    yield started
    started.close()


def let_cell_end(kernel: ServerKernel, cell: str) -> None:
    """End a cell that is BUSY."""
    Path(kernel.server.environment["JUPYTER_RUNTIME_DIR"], "cell-may-end").touch()
    kernel.join(cell)


def test_stop_ends_a_turn_while_a_cell_runs_on_every_ipykernel(
    expected: Expected, kernel: ServerKernel, capsys: pytest.CaptureFixture[str]
) -> None:
    imported = kernel.run("import ipykernel; print(ipykernel.__version__)")
    assert imported.strip() == expected.version
    kernel.run(CHAT)
    view = View(kernel, has_subshells=expected.has_subshells)
    view.send(type="hello")
    took = {}
    for way in ("click", "route"):
        view.begin_a_turn(f"Tell me a story of a {way}.")
        cell = kernel.start(BUSY)
        kernel.await_output(cell, "begun")
        if way == "click":
            view.send(type="stop")
        else:
            answer = kernel.server.ask("nbchat/stop", {"kernel_id": kernel.id})
            assert answer.json == {"done": True}
        is_expected = way == "route" or expected.hears_clicks
        took[way] = view.seconds_to_the_end(limit=WAIT_SECONDS[is_expected])
        assert (took[way] is not None) is is_expected, way
        let_cell_end(kernel, cell)
        assert kernel.run("print(chat.wait(50))") == "True\n"
    figures = ", ".join(
        f"{way} {f'{seconds:.2f} s' if seconds is not None else 'not heard'}"
        for way, seconds in took.items()
    )
    with capsys.disabled():
        print(f"\nipykernel {expected.version}: {figures}")


def test_a_chat_works_in_a_tab_that_is_opened_after_another_one_was_closed(
    expected: Expected, kernel: ServerKernel
) -> None:
    kernel.run(CHAT)
    for _ in range(2):
        view = View(kernel, has_subshells=expected.has_subshells)
        view.send(type="hello")
        assert any(said.get("type") == "snapshot" for said in view.hear(seconds=30))
        view.leave()


def test_a_click_takes_effect_while_a_cell_runs_that_has_changed_the_panel(
    expected: Expected, kernel: ServerKernel
) -> None:
    kernel.run(CHAT)
    view = View(kernel, has_subshells=expected.has_subshells)
    view.begin_a_turn("Tell me a story.")
    cell = kernel.start(f"chat.height = '500px'\n{BUSY}")
    kernel.await_output(cell, "begun")
    view.send(type="stop")
    took = view.seconds_to_the_end(limit=WAIT_SECONDS[expected.hears_clicks])
    let_cell_end(kernel, cell)
    assert (took is not None) is expected.hears_clicks
