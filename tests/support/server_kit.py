"""A real Jupyter Server in a process of its own, and a person's requests to it."""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.cookiejar import CookieJar
from pathlib import Path
from queue import Empty
from typing import Any

from child_processes import ending_with_us
from jupyter_client.blocking.client import BlockingKernelClient
from kernels import SERVER_WITHOUT_PORTS

REPOSITORY = Path(__file__).resolve().parents[2]

START_SECONDS = 60


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    text: str
    headers: Any

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass(frozen=True)
class Server:
    """A running server: its address, its token, and the environment of its kernels."""

    url: str
    token: str
    environment: dict[str, str]

    def ask(
        self,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        opener: Any = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """A request; a `body` makes it a POST, and an empty `token` sends none."""
        token = self.token if token is None else token
        authorization = {"Authorization": f"token {token}"} if token else {}
        data = None if body is None else _encoded(body)
        request = urllib.request.Request(
            f"{self.url}/{path}", data, {**authorization, **(headers or {})}
        )
        opened = opener.open if opener else urllib.request.urlopen
        try:
            with opened(request, timeout=30) as answer:
                return Answer(answer.status, answer.read().decode(), answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.read().decode(), error.headers)

    def browser(self) -> tuple[Any, str]:
        """Someone whom a cookie vouches for, and the XSRF token of their pages."""
        jar = CookieJar()
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
        opener.open(f"{self.url}/login?token={self.token}", timeout=30).close()
        found = {cookie.name: cookie.value or "" for cookie in jar}
        return opener, found["_xsrf"]


def _encoded(body: object) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


@contextlib.contextmanager
def jupyter_server(folder: Path, **environment: str) -> Iterator[Server]:
    """A server that finds its settings, sessions and runtime files in `folder`."""
    token = secrets.token_hex(16)
    first = environment.pop("PYTHONPATH", str(REPOSITORY))
    places = {
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_CONFIG_PATH": str(REPOSITORY / "jupyter-config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "IPYTHONDIR": str(folder / "ipython"),
        "PYTHONPATH": os.pathsep.join([first, os.environ.get("PYTHONPATH", "")]),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        **environment,
    }
    _install_server_config(folder / "config")
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ending_with_us(
                (
                    *(sys.executable, "-m", "jupyter_server", "--no-browser"),
                    *("--allow-root", "--ip=127.0.0.1", "--port=0"),
                    f"--ServerApp.root_dir={folder}",
                    f"--IdentityProvider.token={token}",
                    SERVER_WITHOUT_PORTS,
                )
            ),
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **places},
            start_new_session=True,
        )
    try:
        url = _await_address(folder / "runtime", process, log)
        yield Server(url, token, places)
    finally:
        process.send_signal(signal.SIGTERM)  # ends its kernels, too
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def _install_server_config(folder: Path) -> None:
    """Put the packaged file where a wheel puts it, below another prefix."""
    target = folder / "jupyter_server_config.d"
    target.mkdir(parents=True, exist_ok=True)
    packaged = REPOSITORY / "jupyter-config" / "server-config" / "nbchat.json"
    (target / "nbchat.json").write_text(packaged.read_text())


def _await_address(runtime: Path, process: "subprocess.Popen[bytes]", log: Path) -> str:
    """Where the server listens, as it tells when it does."""
    file = runtime / f"jpserver-{process.pid}.json"
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            url: str = json.loads(file.read_text())["url"].rstrip("/")
            urllib.request.urlopen(f"{url}/api", timeout=5).close()
            return url
        time.sleep(0.05)
    raise AssertionError(f"the server did not start:\n{log.read_text()}")


def _shown_text(content: dict[str, Any]) -> str:
    """What a message prints, or displays as plain text."""
    text: str = content.get("text", "") + content.get("data", {}).get("text/plain", "")
    return text


def _hears_broadcasts(client: BlockingKernelClient) -> bool:
    """True if its broadcasts arrive within 20 tries; what is sent before is lost."""
    for _ in range(20):
        client.kernel_info(reply=True, timeout=60)
        with contextlib.suppress(Empty):
            client.get_iopub_msg(timeout=0.5)
            return True
    return False


class ServerKernel:
    """A kernel that a server started, talked to as a notebook does.

    It asks for the next thing when the last one is answered: an ipykernel of 7.0 to 7.3
    that is asked while it sends an answer may hear nobody any more
    (https://github.com/ipython/ipykernel/issues/1554).
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.id: str = server.ask("api/kernels", {}).json["id"]
        runtime = Path(server.environment["JUPYTER_RUNTIME_DIR"])
        self.client = self._connected(runtime / f"kernel-{self.id}.json")

    def _connected(self, connection_file: Path) -> BlockingKernelClient:
        """A client that the kernel's broadcasts reach; one that hears none is replaced."""
        for _ in range(3):
            client = BlockingKernelClient(connection_file=str(connection_file))
            client.load_connection_file()
            client.start_channels()
            if _hears_broadcasts(client):
                return client
            client.stop_channels()
        raise AssertionError(f"no broadcast of kernel {self.id} arrives")

    def start(self, code: str) -> str:
        """Run a cell without waiting for it."""
        request: str = self.client.execute(code)
        return request

    def join(self, request: str) -> str:
        """All text a cell shows until it ends."""
        shown = ""
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            shown += _shown_text(content) + content.get("evalue", "")
            if content.get("execution_state") == "idle":
                self._await_reply(request)
                return shown

    def _await_reply(self, request: str) -> None:
        while True:
            reply = self.client.get_shell_msg(timeout=60)
            if reply["parent_header"].get("msg_id") == request:
                return

    def run(self, code: str) -> str:
        """All text a cell shows."""
        return self.join(self.start(code))

    def await_output(self, request: str, text: str) -> str:
        """What a cell that runs has printed, once that holds a certain text."""
        shown = ""
        while text not in shown:
            message = self.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") == request:
                shown += _shown_text(message["content"])
        return shown

    def close(self) -> None:
        self.client.stop_channels()
