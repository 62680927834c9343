"""The control socket outside of a kernel; `jupyter/test_server.py` has it in real ones."""

import resource
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress

import pytest

from nbchat.chat.control_socket import (
    MOST_CONNECTIONS,
    ControlSocket,
    kernel_id,
    send_action,
)
from nbchat.errors import ChatUnreachable


def test_no_socket_is_opened_outside_of_a_kernel(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    control_socket = ControlSocket({}, "chat")
    control_socket.open()
    assert kernel_id() == ""
    assert list(tmp_path.iterdir()) == []
    control_socket.close()


def test_a_kernel_without_a_chat_cannot_be_reached(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(ChatUnreachable, match=r"no chat can be reached in kernel \*"):
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


@pytest.mark.usefixtures("many_descriptors")
def test_stop_is_answered_while_1000_slow_connections_hang(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    stops: list[object] = []
    control_socket = ControlSocket({"stop": stops.append}, "chat")
    control_socket._open("kernel")
    threads = threading.active_count()
    address = control_socket._listener.getsockname()
    most, may_accept = 0, threading.Event()
    assert control_socket._has_started.wait(10)
    control_socket._loop.call_soon_threadsafe(may_accept.wait, 20)
    with ExitStack() as hanging:
        slow = []
        for number in range(SLOW_CONNECTIONS):
            connection = socket.create_connection(address, 20)
            slow.append(hanging.enter_context(connection))
            connection.sendall(b'{"secret":')
            most = max(most, len(control_socket._tasks))
            if number == 200:
                may_accept.set()
        with suppress(ConnectionResetError):
            assert slow[-MOST_CONNECTIONS - 1].recv(1) == b""  # later ones ended it
        send_action("kernel", "stop", token="a")
        assert len(stops) == 1
        assert threading.active_count() <= threads + 2
    assert most <= MOST_CONNECTIONS
    control_socket.close()


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
    slow = [opened.enter_context(socket.socket()) for _ in range(3)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (slow[-1].fileno() + 1, limits[1]))
    for each in slow:
        each.connect(address)  # accepting them needs descriptors, too
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
end = time.monotonic() + 20
while not stops and time.monotonic() < end:
    with suppress(ChatUnreachable):
        send_action("kernel", "stop", token="b")
control_socket.close()
print(bool(stops))  # one that was slow to answer may have been sent twice
"""


def test_the_socket_continues_after_the_process_had_no_descriptor_left(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    # In a process of its own: no other thread may want a descriptor meanwhile.
    command = [sys.executable, "-c", NO_DESCRIPTORS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
