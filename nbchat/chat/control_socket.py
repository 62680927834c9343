"""The door of a chat: how Jupyter Server reaches it in its kernel at any time.

A cell that runs keeps some versions of ipykernel from hearing a click; so a chat
listens on a loopback socket, too. Where it is, and the secret without which it does
nothing, stand in a file that only its user can read:

    <jupyter_runtime_dir>/nbchat-<kernel id>-<chat id>.json

A request is a line of JSON each way: {"secret": ..., "action": "stop"} and
{"done": true} or {"error": "..."}. A file that outlives its kernel is harmless:
nothing at its address knows the secret.
"""

import atexit
import contextlib
import glob
import hmac
import json
import logging
import os
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextvars import copy_context
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_runtime_dir, secure_write

from nbchat.agent.approvals import Approvals
from nbchat.errors import ChatUnreachable, NbchatError

logger = logging.getLogger(__name__)

VISIT_SECONDS = 1.0
"""How long either side waits for the other's line."""

LINE_LIMIT = 65_536


@dataclass(frozen=True, slots=True)
class Address:
    """What the file says of a door."""

    port: int
    secret: str
    pid: int


class ControlSocket:
    """Stops one chat, and answers its tool calls, for those who can read its file."""

    def __init__(
        self,
        stop: Callable[[str], object],
        approvals: Callable[[], Approvals | None],
        chat_id: str = "",
    ) -> None:
        """Nothing listens yet; without a `chat_id` the chat gets one of its own.

        `stop` is given the token of the click that stops, or an empty text.
        """
        self._actions = {
            "stop": lambda request: stop(str(request.get("token") or "")),
            "approve": self._approve,
            "deny": self._deny,
        }
        self._approvals = approvals
        self._chat_id = chat_id or new_chat_id()
        self._opening = threading.Lock()
        self._listener: socket.socket | None = None
        self._file: Path | None = None
        self._is_closed = False
        self._pid = 0
        self._secret = secrets.token_urlsafe(32)
        self._context = copy_context()

    def open(self) -> None:
        """Listen from now on; without a kernel nobody would come, so nothing is done.

        A door that cannot be opened is no reason not to chat: the log says why.
        """
        with self._opening:
            if self._listener is not None or self._is_closed:
                return
            if not (kernel := kernel_id()):
                return
            try:
                self._open(kernel)
            except (OSError, RuntimeError) as error:  # secure_write raises the latter
                logger.warning("the chat cannot be reached by the server: %s", error)
                self._close()

    def close(self) -> None:
        """Listen no more, for good, and take the file away."""
        with self._opening:
            self._is_closed = True
            self._close()

    def _open(self, kernel: str) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pid = os.getpid()
        _remove_stale(kernel)
        self._file = _folder() / f"nbchat-{kernel}-{self._chat_id}.json"
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        address = Address(self._listener.getsockname()[1], self._secret, self._pid)
        with secure_write(str(self._file)) as stream:
            json.dump(asdict(address), stream)
        atexit.register(self.close)
        self._start(self._listen, self._listener)

    def _close(self) -> None:
        listener, self._listener = self._listener, None
        if listener is None or self._pid != os.getpid():  # a fork leaves it be
            return
        atexit.unregister(self.close)
        if self._file is not None:
            self._file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # wakes `accept`, which a close would not
            socket.create_connection(listener.getsockname(), VISIT_SECONDS).close()
        listener.close()

    def _listen(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                visitor, _ = listener.accept()
                if self._listener is not listener:
                    visitor.close()
                    return
                self._start(self._receive, visitor)

    def _start(self, step: Callable[[socket.socket], None], on: socket.socket) -> None:
        threading.Thread(
            target=self._context.copy().run,
            args=(step, on),
            name="nbchat-control-socket",
            daemon=True,
        ).start()

    def _receive(self, visitor: socket.socket) -> None:
        with visitor, contextlib.suppress(OSError):
            visitor.settimeout(VISIT_SECONDS)
            _send(visitor, self._answer(_line(visitor)))

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            asked = json.loads(line)
            secret, name = str(asked["secret"]), str(asked["action"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return {"error": "this is no request"}
        given = secret.encode(errors="surrogatepass")
        if not hmac.compare_digest(given, self._secret.encode()):
            return {"error": "the secret is wrong"}
        if name not in self._actions:
            return {"error": f"there is no action {name!r}"}
        try:
            self._actions[name](asked)
        except NbchatError as error:
            return {"error": str(error)}
        return {"done": True}

    def _approve(self, request: Mapping[str, Any]) -> None:
        is_always = request.get("always") is True
        self._room().approve(str(request.get("call_id")), always=is_always)

    def _deny(self, request: Mapping[str, Any]) -> None:
        self._room().deny(str(request.get("call_id")))

    def _room(self) -> Approvals:
        approvals = self._approvals()
        if approvals is None:
            raise NbchatError("this chat asks nobody before its tools run")
        return approvals


def kernel_id() -> str:
    """The id by which Jupyter Server knows this process; empty if it is no kernel."""
    module = sys.modules.get("ipykernel.kernelapp")  # a kernel has it loaded
    if module is None or not module.IPKernelApp.initialized():
        return ""
    file = Path(module.IPKernelApp.instance().connection_file)
    return file.stem.removeprefix("kernel-")


def new_chat_id() -> str:
    """A name for a chat, which no other one of its kernel has."""
    return secrets.token_hex(4)


def send_action(
    kernel: str, action: str, *, chat_id: str = "", **details: object
) -> None:
    """Have a kernel's chats, or one, do something; raises NbchatError if none has.

    ChatUnreachable says that no chat listens there.
    """
    refusals = []
    addresses = _addresses(kernel, chat_id)
    answers = [_visited(address, action, details) for address in addresses]
    for answer in answers:
        if answer and "done" in answer:
            return
        refusals += [str(answer["error"])] if answer and "error" in answer else []
    if not refusals:
        raise ChatUnreachable(
            f"no chat can be reached in kernel {kernel}: none has begun a turn, or the "
            "kernel runs on another machine"
        )
    raise NbchatError(refusals[0])


def _visited(
    address: Address, action: str, details: Mapping[str, object]
) -> dict[str, Any] | None:
    """The answer of one door; None where nobody answers as a door does."""
    place = ("127.0.0.1", address.port)
    try:
        with socket.create_connection(place, VISIT_SECONDS) as door:
            _send(door, {**details, "secret": address.secret, "action": action})
            found = json.loads(_line(door))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _addresses(kernel: str, chat_id: str) -> Iterator[Address]:
    for file in _files(kernel, chat_id):
        with contextlib.suppress(OSError, ValueError, TypeError):
            yield Address(**json.loads(file.read_text(encoding="utf-8")))


def _files(kernel: str, chat_id: str = "") -> list[Path]:
    chats = glob.escape(chat_id) or "*"
    return sorted(_folder().glob(f"nbchat-{glob.escape(kernel)}-{chats}.json"))


def _remove_stale(kernel: str) -> None:
    """Take away what an earlier process of this kernel left when it was killed."""
    for file in _files(kernel):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if json.loads(file.read_text(encoding="utf-8"))["pid"] != os.getpid():
                file.unlink()


def _folder() -> Path:
    return Path(jupyter_runtime_dir())


def _send(to: socket.socket, answer: Mapping[str, object]) -> None:
    to.sendall(json.dumps(answer).encode() + b"\n")


def _line(sender: socket.socket) -> bytes:
    """One line, or what came of it before its end or its limit."""
    with sender.makefile("rb") as stream:
        return stream.readline(LINE_LIMIT)
