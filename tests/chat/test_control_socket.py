"""The control socket outside of a kernel; `jupyter/test_server.py` has it in real ones."""

import json
import os
import resource
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from nbchat.chat.control_socket import (
    MOST_CONNECTIONS,
    ControlSocket,
    _addresses,
    kernel_id,
    send_action,
)
from nbchat.errors import ChatUnreachable, NbchatError


def test_no_socket_is_opened_outside_of_a_kernel(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    control_socket = ControlSocket({}, "chat")
    control_socket.open()
    assert kernel_id() == ""
    assert list(tmp_path.iterdir()) == []
    control_socket.close()


def test_a_kernel_without_a_chat_cannot_be_reached(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(ChatUnreachable, match=r"Can't reach a chat in kernel \*"):
        send_action("*", "stop")


SLOW_CONNECTIONS = 1_000


@pytest.fixture
def many_descriptors():
    """Let this process open as many connections as the test needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = SLOW_CONNECTIONS + 1_000
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, max(hard, needed)))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Chat:
    """A control socket that counts what it was asked to stop."""

    def __init__(self) -> None:
        self.stops: list[object] = []
        self.socket = ControlSocket({"stop": self.stops.append}, "chat")
        self.socket._open("kernel")
        assert self.socket._has_started.wait(60)

    @property
    def listener(self) -> socket.socket:
        assert self.socket._listener is not None
        return self.socket._listener

    def connect(self) -> socket.socket:
        connection = socket.socket(self.listener.family)
        connection.settimeout(20)
        connection.connect(self.listener.getsockname())
        return connection


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path is short."""
    with TemporaryDirectory(prefix="nb", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture
def folder(short: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A private runtime folder."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(short / "r"))
    (short / "r").mkdir(mode=0o700)
    return short / "r"


@pytest.fixture
def chat(folder: Path) -> Iterator[Chat]:
    """In a private folder: a Unix socket."""
    made = Chat()
    assert made.listener.family == socket.AF_UNIX
    yield made
    made.socket.close()


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chat]:
    """In a folder whose path is too long for a Unix socket: a port."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / ("long" * 30)))
    made = Chat()
    assert made.listener.family == socket.AF_INET
    yield made
    made.socket.close()


@pytest.fixture(params=["chat", "shared"])
def either(request: pytest.FixtureRequest) -> Chat:
    found: Chat = request.getfixturevalue(request.param)
    return found


def test_stop_is_answered_by_either_socket(either):
    send_action("kernel", "stop", token="a")
    send_action("kernel", "stop", chat_id="chat")
    assert len(either.stops) == 2


@pytest.mark.slow
@pytest.mark.usefixtures("many_descriptors")
def test_stop_is_answered_while_1000_slow_connections_hang(either):
    threads = threading.active_count()
    most, may_accept = 0, threading.Event()
    either.socket._loop.call_soon_threadsafe(may_accept.wait, 20)
    with ExitStack() as hanging:
        slow = []
        for number in range(SLOW_CONNECTIONS):
            connection = hanging.enter_context(either.connect())
            slow.append(connection)
            connection.sendall(b'{"secret":')
            most = max(most, len(either.socket._tasks))
            if number == 200:
                may_accept.set()
        with suppress(ConnectionResetError):
            assert slow[-MOST_CONNECTIONS - 1].recv(1) == b""  # later ones ended it
        send_action("kernel", "stop", token="a")
        assert len(either.stops) == 1
        assert threading.active_count() <= threads + 2
    assert most <= MOST_CONNECTIONS


@pytest.mark.slow
@pytest.mark.usefixtures("many_descriptors")
def test_connections_beyond_the_limit_take_no_descriptors(either):
    before = len(list(Path("/dev/fd").iterdir()))
    with ExitStack() as hanging:
        for _ in range(400):
            hanging.enter_context(either.connect())
        send_action("kernel", "stop")
        opened = len(list(Path("/dev/fd").iterdir())) - before - 400
    assert opened <= MOST_CONNECTIONS + 2


FLOOD = """
import json, os, socket, sys, time
os.setgid(65534); os.setuid(65534)
family, address = json.loads(sys.argv[1])
address = tuple(address) if isinstance(address, list) else address
print("begins", flush=True)
end = time.monotonic() + float(sys.argv[2])
reached = 0
while time.monotonic() < end:
    try:
        with socket.socket(family) as connection:
            connection.settimeout(1)
            connection.connect(address)
            reached += 1
    except OSError:
        pass
print(reached, flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")
def test_a_flood_of_another_user_keeps_no_stop_out(chat):
    address = json.dumps([chat.listener.family, chat.listener.getsockname()])
    command = [sys.executable, "-c", FLOOD, address, "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as flood:
        assert flood.stdout is not None
        assert flood.stdout.readline() == "begins\n"
        for _ in range(20):
            send_action("kernel", "stop")
        reached = flood.stdout.readline()
    assert len(chat.stops) == 20
    assert reached == "0\n"


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")
def test_a_peer_of_another_user_is_refused_where_the_folder_lets_it_in(chat, folder):
    for each in (folder, folder.parent):
        each.chmod(0o755)
    Path(chat.listener.getsockname()).chmod(0o777)
    secret = json.loads(next(folder.glob("*.json")).read_text())["secret"]
    script = (
        "import os, socket, sys\nos.setgid(65534); os.setuid(65534)\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
        "try:\n"
        "    s.sendall(sys.argv[2].encode() + b'\\n')\n"
        "    print(s.recv(100))\n"
        "except OSError:\n"
        "    print(b'')"
    )
    asked = json.dumps({"secret": secret, "action": "stop"})
    command = [sys.executable, "-c", script, chat.listener.getsockname(), asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "b''\n"
    assert chat.stops == []


def test_a_request_that_was_read_is_not_ended_by_later_connections(either):
    begun, may_end = threading.Event(), threading.Event()

    def slow(_asked: object) -> None:
        begun.set()
        assert may_end.wait(60)

    either.socket._actions = {"stop": slow}
    failed: list[Exception] = []

    def ask() -> None:
        try:
            send_action("kernel", "stop")
        except NbchatError as error:
            failed.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    assert begun.wait(60)
    with ExitStack() as hanging:
        for _ in range(MOST_CONNECTIONS + 10):
            hanging.enter_context(either.connect())
        may_end.set()
        asking.join(60)
    assert failed == []


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"\n", b"{}\n", b"[]\n", b"null\n", b'{"secret": 1}\n', b"\xff\n"),
        *(b"[" * 60_000 + b"\n", b"x" * 70_000, b'{"secret":"","action":"stop"}\n'),
        b'{"secret": "\\ud800", "action": "stop"}\n',
    ],
    ids=lambda line: repr(line[:20]),
)
def test_what_is_no_request_is_refused_and_the_next_one_answered(either, line):
    with either.connect() as connection:
        connection.sendall(line)
        with suppress(OSError):  # it was answered and closed already
            connection.shutdown(socket.SHUT_WR)
        answer = connection.makefile("rb").readline()
    assert b'"error"' in answer
    send_action("kernel", "stop")
    assert len(either.stops) == 1


def test_a_folder_that_others_may_read_has_a_private_one_for_the_socket(folder):
    folder.chmod(0o755)
    made = Chat()
    place = Path(made.listener.getsockname()).parent
    assert place == folder / "nbchat"
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    send_action("kernel", "stop")
    assert len(made.stops) == 1
    made.socket.close()
    assert list(place.iterdir()) == []
    assert list(folder.glob("*.json")) == []


def test_a_folder_that_is_a_link_is_followed_to_a_private_one_alone(short, monkeypatch):
    (short / "real").mkdir(mode=0o700)
    (short / "r").symlink_to(short / "real")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(short / "r"))
    made = Chat()
    assert Path(made.listener.getsockname()).parent == short / "real"
    send_action("kernel", "stop")
    made.socket.close()
    (short / "real").chmod(0o777)
    (short / "real" / "nbchat").symlink_to(short)
    short.chmod(0o755)
    made = Chat()
    assert made.listener.family == socket.AF_INET
    send_action("kernel", "stop")
    assert len(made.stops) == 1
    made.socket.close()


@pytest.mark.parametrize("kind", ["loop", "file", "nothing"])
def test_a_folder_that_is_none_is_logged_and_the_chat_continues(
    kind, tmp_path, monkeypatch, caplog
):
    place = tmp_path / "r"
    if kind == "loop":
        place.symlink_to(place)
    elif kind == "file":
        place.write_text("")
    else:
        place.symlink_to(tmp_path / "missing" / "folder")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(place))
    opened = ControlSocket({}, "chat")
    with pytest.raises(OSError, match="r"):
        opened._open("kernel")
    opened.close()


def test_an_address_that_another_user_planted_is_not_asked(folder, chat):
    address = next(folder.glob("*.json"))
    planted = folder / "nbchat-kernel-aaa.json"
    planted.symlink_to(address)
    assert len(list(_addresses("kernel", ""))) == 1
    send_action("kernel", "stop")
    assert len(chat.stops) == 1


def test_a_socket_left_by_a_killed_kernel_is_replaced(folder):
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(folder / "nbchat-kernel-chat.sock"))
    left.close()
    made = Chat()
    send_action("kernel", "stop")
    assert len(made.stops) == 1
    made.socket.close()
    assert list(folder.iterdir()) == []


NO_DESCRIPTORS = """
import resource, socket, time
from contextlib import ExitStack, suppress
from nbchat.chat.control_socket import ControlSocket, send_action
from nbchat.errors import ChatUnreachable

stops = []
control_socket = ControlSocket({"stop": stops.append}, "chat")
control_socket._open("kernel")
address = control_socket._listener.getsockname()
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
with ExitStack() as opened:
    family = control_socket._listener.family
    slow = [opened.enter_context(socket.socket(family)) for _ in range(3)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (slow[-1].fileno() + 1, limits[1]))
    for each in slow:
        each.connect(address)  # accepting them needs descriptors, too
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
end = time.monotonic() + 60
while not stops and time.monotonic() < end:
    with suppress(ChatUnreachable):
        send_action("kernel", "stop", token="b")
control_socket.close()
print(bool(stops))  # one that was slow to answer may have been sent twice
"""


@pytest.mark.slow
def test_the_socket_continues_after_the_process_had_no_descriptor_left(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    # In a process of its own: no other thread may want a descriptor meanwhile.
    command = [sys.executable, "-c", NO_DESCRIPTORS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
