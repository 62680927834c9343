"""What Jupyter Server answers under `nbchat/`: reach a chat while its kernel is busy.

    GET  nbchat/health
    GET  nbchat/sessions
    GET  nbchat/sessions/ID/export?format=md|html|json|ipynb
    POST nbchat/stop      {"kernel_id": ..., "chat_id": "", "token": ""}
    POST nbchat/approve   {"kernel_id": ..., "call_id": ..., "always": false}
    POST nbchat/deny      {"kernel_id": ..., "call_id": ...}

`call_id` is the id of a tool call, or the ticket under which it waits. Without
`chat_id` all chats of the kernel stop; stops of one `token` count once.

Every request must be authenticated, authorized for the resource "nbchat", and, where a
cookie vouches for it, carry the XSRF token. A fault is {"message": one line}.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict
from http.client import responses
from typing import Any, NoReturn

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import url_path_join
from tornado.web import HTTPError, authenticated

import nbchat
from nbchat.chat.control_socket import send_action
from nbchat.config.layers import settings
from nbchat.errors import (
    ChatUnreachable,
    ConfigError,
    NbchatError,
    SessionNotFound,
    StoreError,
)
from nbchat.storage.export import exported, format_named
from nbchat.storage.serialization import SessionInfo
from nbchat.storage.store import SessionStore

MEDIA_TYPES = {
    "md": "text/markdown",
    "html": "text/html",
    "json": "application/json",
    "ipynb": "application/x-ipynb+json",
}

STATUSES: dict[type[NbchatError], int] = {
    SessionNotFound: 404,
    ChatUnreachable: 409,
    StoreError: 500,
    ConfigError: 500,
}
"""The status of a fault that is not simply a bad request."""


REASONS = {
    403: "this needs a login, or the server's token",
    500: "an unexpected fault; the server's log says more",
}
"""What an error says that brings no text of its own."""


class Route(APIHandler):
    """What all routes have in common."""

    auth_resource = "nbchat"

    async def off_loop(self, step: Callable[[], Any], *, status: int = 400) -> Any:
        """Do what may block in a thread; an error becomes the answer, with `status`."""
        try:
            return await asyncio.to_thread(step)
        except NbchatError as error:
            refuse(STATUSES.get(type(error), status), str(error))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """One line; of a fault of ours the server's log has the rest."""
        error = kwargs.get("exc_info", (None, None))[1]
        message = getattr(error, "log_message", "") or REASONS.get(
            status_code, responses[status_code]
        )
        self.finish({"message": message.replace("%%", "%")})


class Health(Route):
    """Whether the routes are there, and of which version."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer without looking at anything."""
        self.finish({"status": "ok", "version": nbchat.__version__})


class Sessions(Route):
    """The sessions kept in the store that the server's settings name."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """One object a session, the last used first."""
        found: list[SessionInfo] = await self.off_loop(lambda: _store().sessions())
        self.finish({"sessions": [asdict(info) for info in found]})


class Export(Route):
    """A session as a file to keep."""

    @authenticated
    @authorized
    async def get(self, session_id: str) -> None:
        """Always a download: what a model wrote is no page of this origin."""
        name = self.get_query_argument("format", "json")
        text: str = await self.off_loop(lambda: _exported(session_id, name))
        file = f"nbchat-{session_id}.{name}"
        self.set_header("Content-Disposition", f'attachment; filename="{file}"')
        media_type = f"{MEDIA_TYPES[name]}; charset=utf-8"
        self.finish(text, set_content_type=media_type)


class ChatAction(Route):
    """Something done to the chats of a kernel, on another way than its messages."""

    @authenticated
    @authorized
    async def post(self, action: str) -> None:
        """Have it done, also while a cell runs."""
        asked = _body(self.request.body)
        kernel = _text(asked, "kernel_id")
        if kernel not in self.kernel_manager:
            refuse(404, f"there is no kernel {kernel!r} on this server")
        details = _details(action, asked)
        await self.off_loop(lambda: send_action(kernel, action, **details), status=404)
        self.finish({"done": True})


def load(app: ServerApp) -> None:
    """Add the routes to a server, and tell its pages that they are there."""
    pages = app.web_app.settings.setdefault("page_config_data", {})
    pages["nbchatRoutes"] = True
    base = url_path_join(app.web_app.settings["base_url"], "nbchat")
    app.web_app.add_handlers(  # type: ignore[no-untyped-call]
        ".*$",
        [
            (f"{base}/health", Health),
            (f"{base}/sessions", Sessions),
            (f"{base}/sessions/([\\w-]+)/export", Export),
            (f"{base}/(stop|approve|deny)", ChatAction),
        ],
    )


_load_jupyter_server_extension = load


def refuse(status: int, message: str) -> NoReturn:
    """End a request with one line; tornado doubles percent signs in it."""
    raise HTTPError(status, message)


def _details(action: str, asked: dict[str, Any]) -> dict[str, Any]:
    """What a chat must know to do it."""
    if action == "stop":
        names = ("chat_id", "token")
        return {name: _text(asked, name) for name in names if name in asked}
    call = {"call_id": _text(asked, "call_id")}
    return (
        {**call, "always": asked.get("always") is True} if action == "approve" else call
    )


def _exported(session_id: str, name: str) -> str:
    to = format_named(name)
    return exported(_store().load(session_id), to)


def _store() -> SessionStore:
    return SessionStore(settings().store_url)


def _body(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        refuse(400, "the body must be a JSON object")
    return found


def _text(asked: dict[str, Any], name: str) -> str:
    value = asked.get(name)
    if not isinstance(value, str) or not value:
        refuse(400, f"{name} must be given, as a text")
    return value
