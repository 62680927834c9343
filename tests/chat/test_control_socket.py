"""The control socket outside of a kernel; `jupyter/test_server.py` has it in real ones."""

import pytest

from nbchat.chat.control_socket import ControlSocket, kernel_id, send_action
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
