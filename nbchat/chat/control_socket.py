"""Socket by which Jupyter Server controls a chat while its kernel is busy.

Some versions of ipykernel deliver no click while a cell runs. So a chat also listens on
a socket; a file that only its user can read has its address, and the secret without
which a request is refused:

    <jupyter_runtime_dir>/nbchat-<kernel id>-<chat id>.json

Where that folder is private, the socket is a Unix socket in it, which other users of
the machine cannot reach, and the system tells each side who the other is. Elsewhere (on
Windows, in a shared folder, below a long path) it is a port of the loopback address.

A request is a line of JSON each way: {"secret": ..., "action": "stop"} and
{"done": true} or {"error": "..."}; what an action returns is the "value" of the first.
A file that outlives its kernel is harmless: nothing at its address knows the secret.
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
import stat
import struct
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

TIMEOUT_SECONDS = 5.0
"""Time that either side waits for the other's line. A cell or other work on the machine
may keep a chat's thread from running for longer than a second."""

LINE_LIMIT_BYTES = 65_536

ANSWER_LIMIT_BYTES = 1_000_000

RETRY_SECONDS = 0.1
"""Pause before accepting again after the system ran out of file descriptors."""

MOST_WAITING = 1_024
"""Connections that wait to be accepted. The system drops a further one, whose sender
tries again after a second: a Stop would come too late."""

MOST_CONNECTIONS = 64
"""Open at once. Before a further one is accepted, the oldest that has not proved to
know the secret is ended: slow ones never keep out a Stop, nor use up descriptors."""

LONGEST_PATH = 100
"""Bytes of a Unix socket's path: systems take 104 to 108."""

OTHERS = 0o077
"""Permission bits of everyone but the owner."""

ROOT = 0


@dataclass(frozen=True, slots=True)
class Address:
    """Contents of the file: where the socket listens, and its secret."""

    port: int
    secret: str
    pid: int
    path: str = ""
    """Path of a Unix socket; then there is no port."""


Action = Callable[[Mapping[str, Any]], object]
"""Runs a request; what it returns, or its NbchatError, is the answer."""


class ControlSocket:
    """Runs the actions of one chat for processes that can read its file."""

    def __init__(self, actions: Mapping[str, Action], chat_id: str) -> None:
        """Listen on nothing yet; `actions` are by the names that requests give."""
        self._actions = actions
        self._chat_id = chat_id
        self._opening = threading.Lock()
        self._listener: socket.socket | None = None
        self._file: Path | None = None
        self._path = ""
        self._is_closed = False
        self._pid = 0
        self._secret = secrets.token_urlsafe(32)
        self._context = copy_context()
        self._has_started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end = asyncio.Event()
        self._tasks: dict[asyncio.Task[None], None] = {}
        """Open connections that may be closed, oldest first."""

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
                logger.warning("The server can't reach the chat: %s", error)
                self._close()

    def close(self) -> None:
        """Stop listening for good, and remove the file."""
        with self._opening:
            self._is_closed = True
            self._close()

    def _open(self, kernel: str) -> None:
        _remove_stale(kernel)
        folder = _folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"nbchat-{kernel}-{self._chat_id}"
        self._listener, self._path = _listener(folder, f"{name}.sock")
        self._pid = os.getpid()
        self._file = folder / f"{name}.json"
        port = 0 if self._path else self._listener.getsockname()[1]
        address = Address(port, self._secret, self._pid, self._path)
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
        if self._path:
            Path(self._path).unlink(missing_ok=True)
        if self._has_started.wait(TIMEOUT_SECONDS) and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._end.set)
        else:
            listener.close()

    async def _serve(self, listener: socket.socket) -> None:
        """Answer requests until the end, all on this thread."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_note_fault)
        listener.setblocking(False)
        accepting = asyncio.create_task(self._accept(listener))
        self._has_started.set()
        await self._end.wait()
        for task in (accepting, *self._tasks):
            task.cancel()
        await asyncio.gather(accepting, *self._tasks, return_exceptions=True)
        listener.close()

    async def _accept(self, listener: socket.socket) -> None:
        """Accept connections one by one, up to the limit of open ones.

        Without a free file descriptor, try again after a moment.
        """
        loop = asyncio.get_running_loop()
        while True:
            await self._make_room()
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:
                logger.debug("the control socket accepts nothing: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            connection.setblocking(False)
            task = asyncio.create_task(self._receive(connection))
            self._tasks[task] = None
            task.add_done_callback(partial(self._forget, connection))

    def _forget(self, connection: socket.socket, task: asyncio.Task[None]) -> None:
        """Close a connection; a task that is ended before it began cannot do that."""
        self._tasks.pop(task, None)
        connection.close()

    async def _make_room(self) -> None:
        while len(self._tasks) >= MOST_CONNECTIONS:
            oldest = next(iter(self._tasks))
            oldest.cancel()
            await asyncio.wait([oldest])

    async def _receive(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            if not _is_ours(connection):
                return
            async with asyncio.timeout(TIMEOUT_SECONDS):
                line = await _received_line(connection)
            asked = self._checked(line)
            if isinstance(asked, str):
                answer = {"error": asked}
            else:
                self._tasks.pop(asyncio.current_task(), None)  # type: ignore[arg-type]  # always in a task
                step = partial(self._context.copy().run, self._answer, asked)
                answer = await loop.run_in_executor(None, step)
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await loop.sock_sendall(connection, _encoded(answer))
        except (OSError, TimeoutError) as error:
            logger.debug("a request to the control socket ended: %s", error)
        except asyncio.CancelledError:
            logger.debug("a slow connection to the control socket was closed")

    def _checked(self, line: bytes) -> dict[str, Any] | str:
        """A request with the right secret for a known action, or why there is none."""
        try:
            asked: dict[str, Any] = json.loads(line)
            secret, name = str(asked["secret"]), str(asked["action"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return "Not a request."
        given = secret.encode(errors="surrogatepass")
        if not hmac.compare_digest(given, self._secret.encode()):
            return "The secret is wrong."
        return asked if name in self._actions else f"There's no action {name!r}."

    def _answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        try:
            value = self._actions[str(asked["action"])](asked)
        except NbchatError as error:
            return {"error": str(error)}
        return {"done": True} if value is None else {"done": True, "value": value}


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
    kernel: str,
    action: str,
    *,
    chat_id: str = "",
    timeout_seconds: float = TIMEOUT_SECONDS,
    **details: object,
) -> object:
    """Send an action to the chats of a kernel, or to one; returns what it returned.

    Raises ChatUnreachable when no chat listens or answers in time, NbchatError when all
    refuse.
    """
    answers = [
        answer
        for address in _addresses(kernel, chat_id)
        if (answer := _answer_of(address, action, details, timeout_seconds))
    ]
    for answer in answers:
        if "done" in answer:
            return answer.get("value")
    for answer in answers:
        if "error" in answer:
            raise NbchatError(str(answer["error"]))
    raise ChatUnreachable(
        f"Can't reach a chat in kernel {kernel}. None has started a turn there, or the "
        "kernel runs on another machine."
    )


def chats() -> list[tuple[str, str]]:
    """The kernel and the id of each chat of this user that may listen."""
    names = (file.stem.removeprefix("nbchat-") for file in _files("*", is_pattern=True))
    parts = (name.rpartition("-") for name in names)
    return [(kernel, chat) for kernel, _, chat in parts if kernel]


def _answer_of(
    address: Address,
    action: str,
    details: Mapping[str, object],
    timeout_seconds: float,
) -> dict[str, Any] | None:
    """The answer of one socket; None when nothing listens, or something else does."""
    try:
        with _connected(address) as connection:
            connection.settimeout(timeout_seconds)
            request = {**details, "secret": address.secret, "action": action}
            connection.sendall(_encoded(request))
            found = json.loads(_line(connection))
    except (OSError, ValueError, RecursionError, OverflowError, TypeError):
        return None
    return found if isinstance(found, dict) else None


def _connected(address: Address) -> socket.socket:
    """A connection to the chat; raises OSError, also if another user listens there."""
    if not address.path:
        return socket.create_connection(("127.0.0.1", address.port), TIMEOUT_SECONDS)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(TIMEOUT_SECONDS)
        connection.connect(address.path)
        is_ours = os.getuid() == ROOT or _is_ours(connection)
    except BaseException:
        connection.close()
        raise
    if not is_ours:
        connection.close()
        raise PermissionError("Another user listens there.")
    return connection


def _addresses(kernel: str, chat_id: str) -> Iterator[Address]:
    for file in _files(kernel, chat_id):
        with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
            if _is_of_this_user(file):
                yield Address(**json.loads(file.read_text(encoding="utf-8")))


def _is_of_this_user(file: Path) -> bool:
    """True if a file, no link, was written by this user; root asks for all users."""
    found = file.lstat()
    if not hasattr(os, "getuid"):  # Windows, which protects the user's folders itself
        return stat.S_ISREG(found.st_mode)
    is_ours = found.st_uid in _own_users() or os.getuid() == ROOT
    return stat.S_ISREG(found.st_mode) and is_ours


def _own_users() -> tuple[int, int]:
    """User ids that may control this process anyway."""
    return os.getuid(), ROOT


def _is_ours(connection: socket.socket) -> bool:
    """True if the other side is this user or root; a loopback port doesn't say."""
    is_port = connection.family == socket.AF_INET
    return is_port or peer_user(connection) in _own_users()


def peer_user(connection: socket.socket) -> int | None:
    """The user id at the other end of a Unix socket; None if it isn't known."""
    if hasattr(socket, "SO_PEERCRED"):  # Linux
        found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int(struct.unpack("3i", found)[1])
    if sys.platform == "darwin":  # SOL_LOCAL, LOCAL_PEERCRED: version and user id
        return int(struct.unpack("Ii", connection.getsockopt(0, 1, 8))[1])
    return None


def _listener(folder: Path, name: str) -> tuple[socket.socket, str]:
    """A listening socket, and its path if it is a Unix socket."""
    for place in (folder, folder / "nbchat"):
        with contextlib.suppress(OSError, RuntimeError):  # also a loop of links
            place.mkdir(mode=0o700, exist_ok=True)
            path = place.resolve() / name
            if _is_private(path.parent) and _fits(path):
                return _unix_listener(path), str(path)
    return socket.create_server(("127.0.0.1", 0), backlog=MOST_WAITING), ""


def _is_private(folder: Path) -> bool:
    """True if this user alone may enter a folder, which is no link."""
    if not hasattr(os, "getuid") or not hasattr(socket, "AF_UNIX"):
        return False
    found = folder.lstat()
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return is_ours and not found.st_mode & OTHERS


def _fits(path: Path) -> bool:
    knows_peers = hasattr(socket, "SO_PEERCRED") or sys.platform == "darwin"
    return knows_peers and len(os.fsencode(path)) <= LONGEST_PATH


def _unix_listener(path: Path) -> socket.socket:
    """A socket at a path of a private folder; raises OSError where there are none."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(MOST_WAITING)
    except BaseException:
        listener.close()
        raise
    return listener


def _files(kernel: str, chat_id: str = "", *, is_pattern: bool = False) -> list[Path]:
    chats = glob.escape(chat_id) or "*"
    kernels = kernel if is_pattern else glob.escape(kernel)
    return sorted(_folder().glob(f"nbchat-{kernels}-{chats}.json"))


def _remove_stale(kernel: str) -> None:
    """Remove the files of earlier processes of this kernel, which were killed."""
    for file in _files(kernel):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(file.read_text(encoding="utf-8"))
            if _is_of_this_user(file) and found["pid"] != os.getpid():
                file.unlink()
                for folder in (file.parent, file.parent / "nbchat"):
                    (folder / file.name).with_suffix(".sock").unlink(missing_ok=True)


def _folder() -> Path:
    return Path(jupyter_runtime_dir())


def _encoded(answer: Mapping[str, object]) -> bytes:
    return json.dumps(answer).encode() + b"\n"


async def _received_line(connection: socket.socket) -> bytes:
    """One line, or what arrived of it before the end or the limit."""
    loop, line = asyncio.get_running_loop(), bytearray()
    part = b" "
    while part and b"\n" not in part and len(line) < LINE_LIMIT_BYTES:
        part = await loop.sock_recv(connection, LINE_LIMIT_BYTES)
        line += part
    return bytes(line.partition(b"\n")[0])


def _line(sender: socket.socket) -> bytes:
    """An answer, or what arrived of it before the end or the limit."""
    with sender.makefile("rb") as stream:
        return stream.readline(ANSWER_LIMIT_BYTES)
