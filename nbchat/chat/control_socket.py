"""Loopback socket by which Jupyter Server controls a chat while its kernel is busy.

Some versions of ipykernel deliver no click while a cell runs. So a chat also listens on
a socket; a file that only its user can read has the port, and the secret without which
a request is refused:

    <jupyter_runtime_dir>/nbchat-<kernel id>-<chat id>.json

A request is a line of JSON each way: {"secret": ..., "action": "stop"} and
{"done": true} or {"error": "..."}. A file that outlives its kernel is harmless:
nothing at its address knows the secret.
"""

import asyncio
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
from functools import partial
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_runtime_dir, secure_write

from nbchat.errors import ChatUnreachable, NbchatError

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 1.0
"""How long either side waits for the other's line."""

LINE_LIMIT_BYTES = 65_536

MOST_WAITING = 1_024
"""Connections that wait to be accepted. The system drops a further one, whose sender
tries again after a second: a Stop would come too late."""

MOST_CONNECTIONS = 64
"""Open at once; a further one ends the oldest, so slow ones never keep out a Stop."""


@dataclass(frozen=True, slots=True)
class Address:
    """Contents of the file: where the socket listens, and its secret."""

    port: int
    secret: str
    pid: int


Action = Callable[[Mapping[str, Any]], object]
"""Runs a request; its NbchatError is the answer."""


class ControlSocket:
    """Runs the actions of one chat for processes that can read its file."""

    def __init__(self, actions: Mapping[str, Action], chat_id: str) -> None:
        """Listen on nothing yet; `actions` are by the names that requests give."""
        self._actions = actions
        self._chat_id = chat_id
        self._opening = threading.Lock()
        self._listener: socket.socket | None = None
        self._file: Path | None = None
        self._is_closed = False
        self._pid = 0
        self._secret = secrets.token_urlsafe(32)
        self._context = copy_context()
        self._has_started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end = asyncio.Event()
        self._tasks: dict[asyncio.Task[None], None] = {}
        """Of open connections, the oldest first."""

    def open(self) -> None:
        """Start listening; does nothing outside of a kernel.

        If that fails, it is logged, and the chat continues without it.
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
        """Stop listening for good, and remove the file."""
        with self._opening:
            self._is_closed = True
            self._close()

    def _open(self, kernel: str) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=MOST_WAITING)
        self._pid = os.getpid()
        _remove_stale(kernel)
        self._file = _folder() / f"nbchat-{kernel}-{self._chat_id}.json"
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        address = Address(self._listener.getsockname()[1], self._secret, self._pid)
        with secure_write(str(self._file)) as stream:
            json.dump(asdict(address), stream)
        atexit.register(self.close)
        threading.Thread(
            target=self._context.copy().run,
            args=(asyncio.run, self._serve(self._listener)),
            name="nbchat-control-socket",
            daemon=True,
        ).start()

    def _close(self) -> None:
        listener, self._listener = self._listener, None
        if listener is None or self._pid != os.getpid():  # not in a fork
            return
        atexit.unregister(self.close)
        if self._file is not None:
            self._file.unlink(missing_ok=True)
        if self._has_started.wait(TIMEOUT_SECONDS) and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._end.set)

    async def _serve(self, listener: socket.socket) -> None:
        """Answer requests until the end, all on this thread.

        Without a free file descriptor asyncio tries again after a second.
        """
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_note_fault)
        server = await asyncio.start_server(  # it sets the backlog again
            self._receive, sock=listener, limit=LINE_LIMIT_BYTES, backlog=MOST_WAITING
        )
        self._has_started.set()
        async with server:
            await self._end.wait()
            for task in self._tasks:
                task.cancel()

    async def _receive(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        if len(self._tasks) >= MOST_CONNECTIONS:
            oldest = next(iter(self._tasks))
            del self._tasks[oldest]
            oldest.cancel()
        self._tasks[task] = None  # type: ignore[index]  # always in a task
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                line = await reader.readline()
            step = partial(self._context.copy().run, self._answer, line)
            answer = await asyncio.get_running_loop().run_in_executor(None, step)
            writer.write(json.dumps(answer).encode() + b"\n")
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await writer.drain()
        except (OSError, TimeoutError, ValueError) as error:  # the last: a long line
            logger.debug("a request to the control socket ended: %s", error)
        except asyncio.CancelledError:
            logger.debug("a slow connection to the control socket was closed")
        finally:
            self._tasks.pop(task, None)  # type: ignore[arg-type]  # always in a task
            writer.close()

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            asked = json.loads(line)
            secret, name = str(asked["secret"]), str(asked["action"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return {"error": "this is not a request"}
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


def _note_fault(_loop: asyncio.AbstractEventLoop, fault: dict[str, Any]) -> None:
    logger.debug("the control socket: %s", fault.get("message"))


def kernel_id() -> str:
    """The id that Jupyter Server has for this process; empty outside of a kernel."""
    module = sys.modules.get("ipykernel.kernelapp")  # loaded in every kernel
    if module is None or not module.IPKernelApp.initialized():
        return ""
    file = Path(module.IPKernelApp.instance().connection_file)
    return file.stem.removeprefix("kernel-")


def new_chat_id() -> str:
    """An id that no other chat of the kernel has."""
    return secrets.token_hex(4)


def send_action(
    kernel: str, action: str, *, chat_id: str = "", **details: object
) -> None:
    """Send an action to the chats of a kernel, or to one.

    Raises ChatUnreachable when no chat listens, NbchatError when all refuse.
    """
    refusals = []
    addresses = _addresses(kernel, chat_id)
    answers = [_answer_of(address, action, details) for address in addresses]
    for answer in answers:
        if answer and "done" in answer:
            return
        refusals += [str(answer["error"])] if answer and "error" in answer else []
    if not refusals:
        raise ChatUnreachable(
            f"no chat can be reached in kernel {kernel}: none has started a turn, or "
            "the kernel runs on another machine"
        )
    raise NbchatError(refusals[0])


def _answer_of(
    address: Address, action: str, details: Mapping[str, object]
) -> dict[str, Any] | None:
    """The answer of one socket; None when nothing listens, or something else does."""
    target = ("127.0.0.1", address.port)
    try:
        with socket.create_connection(target, TIMEOUT_SECONDS) as connection:
            request = {**details, "secret": address.secret, "action": action}
            _send(connection, request)
            found = json.loads(_line(connection))
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
    """Remove the files of earlier processes of this kernel, which were killed."""
    for file in _files(kernel):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if json.loads(file.read_text(encoding="utf-8"))["pid"] != os.getpid():
                file.unlink()


def _folder() -> Path:
    return Path(jupyter_runtime_dir())


def _send(to: socket.socket, answer: Mapping[str, object]) -> None:
    to.sendall(json.dumps(answer).encode() + b"\n")


def _line(sender: socket.socket) -> bytes:
    """One line, or what arrived of it before the end or the limit."""
    with sender.makefile("rb") as stream:
        return stream.readline(LINE_LIMIT_BYTES)
