"""Routes of Jupyter Server under `nbchat/`: control a chat while its kernel is busy.

    GET  nbchat/health
    GET  nbchat/sessions
    GET  nbchat/sessions/ID/export?format=md|html|json|ipynb
    POST nbchat/stop      {"kernel_id": ..., "chat_id": "", "token": ""}
    POST nbchat/approve   {"kernel_id": ..., "ticket": ..., "always": false,
                           "turn": false, "draft": null}
    POST nbchat/deny      {"kernel_id": ..., "ticket": ..., "reason": ""}

`ticket` is that of a waiting tool call (`Approvals.waiting`). Without `chat_id` all
chats of the kernel stop; stops with the same `token` count once.

Every request must be authenticated and authorized for the resource "nbchat"; with a
cookie it also needs the XSRF token. An error is {"message": one line}.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict
from http.client import responses
from importlib.metadata import version
from typing import Any, NoReturn

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import url_path_join
from tornado.web import HTTPError, authenticated

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
from nbchat.storage.factory import opened_store
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
"""The status of an error that is not a bad request."""


MOST_BYTES = 65_536
"""Bytes of the body of a request: the longest has a few names."""

REASONS = {
    403: "Log in, or send the server's token.",
    500: "Unexpected error. See the server's log.",
}
"""The message of an error that has none."""


class Route(APIHandler):
    """Base of all routes: threads and errors."""

    auth_resource = "nbchat"

    async def off_loop(self, step: Callable[[], Any], *, status: int = 400) -> Any:
        """Run what may block in a thread; an NbchatError is answered with `status`."""
        try:
            return await asyncio.to_thread(step)
        except NbchatError as error:
            refuse(STATUSES.get(type(error), status), str(error))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer one line; the server's log has the traceback."""
        error = kwargs.get("exc_info", (None, None))[1]
        message = getattr(error, "log_message", "") or REASONS.get(
            status_code, responses[status_code]
        )
        self.finish({"message": message.replace("%%", "%")})


class Health(Route):
    """The version of nbchat, which shows that the routes are enabled."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer without opening anything."""
        self.finish({"status": "ok", "version": version("jupyter-nbchat")})


class Sessions(Route):
    """The sessions in the store of the server's settings."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """One object per session, the last used first; a page of `limit` of them.

        The next page has the last id as `before`.
        """
        limit = self.get_query_argument("limit", str(MOST_LISTED))
        before = self.get_query_argument("before", "")
        if not limit.isdecimal():
            raise HTTPError(400, "limit must be a number.")
        found: list[SessionInfo] = await self.off_loop(
            lambda: _store().sessions(limit=int(limit), before=before)
        )
        self.finish({"sessions": [asdict(info) for info in found]})


class Export(Route):
    """Download of a session."""

    @authenticated
    @authorized
    async def get(self, session_id: str) -> None:
        """Always a download: a model's text must not be a page of this origin."""
        name = self.get_query_argument("format", "json")
        text: str = await self.off_loop(lambda: _exported(session_id, name))
        file = f"nbchat-{session_id}.{name}"
        self.set_header("Content-Disposition", f'attachment; filename="{file}"')
        media_type = f"{MEDIA_TYPES[name]}; charset=utf-8"
        self.finish(text, set_content_type=media_type)


class ChatAction(Route):
    """Stop, approve or deny, sent to the control sockets of a kernel's chats."""

    @authenticated
    @authorized
    async def post(self, action: str) -> None:
        """Send the action; works while a cell runs."""
        asked = _body(self.request.body)
        kernel = _text(asked, "kernel_id")
        if kernel not in self.kernel_manager:
            refuse(404, f"There's no kernel {kernel!r} on this server.")
        details = _details(action, asked)
        await self.off_loop(lambda: send_action(kernel, action, **details), status=404)
        self.finish({"done": True})


def load(app: ServerApp) -> None:
    """Add the routes to a server, and announce them to its pages."""
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
    """End a request with a one-line error."""
    raise HTTPError(status, message)


def _details(action: str, asked: dict[str, Any]) -> dict[str, Any]:
    """The arguments of an action."""
    if action == "stop":
        names = ("chat_id", "token")
        return {name: _text(asked, name) for name in names if name in asked}
    if "call_id" in asked:
        refuse(400, "Send the ticket of the waiting call, not its id.")
    call = {"ticket": _text(asked, "ticket")}
    if action == "deny":
        return {**call, "reason": _optional_text(asked, "reason")}
    scopes = {name: asked.get(name) is True for name in ("always", "turn")}
    draft = asked.get("draft")
    return {**call, **scopes, "draft": draft if isinstance(draft, str) else None}


def _optional_text(asked: dict[str, Any], name: str) -> str:
    value = asked.get(name)
    return value if isinstance(value, str) else ""


def _exported(session_id: str, name: str) -> str:
    to = format_named(name)
    return exported(_store().load(session_id), to)


MOST_LISTED = 100
"""Sessions of an answer, unless its request has a limit."""


def _store() -> SessionStore:
    return opened_store(settings())


def _body(body: bytes) -> dict[str, Any]:
    if len(body) > MOST_BYTES:  # before it is parsed, which would hold up the server
        refuse(413, f"The body has over {MOST_BYTES:,} bytes.")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        refuse(400, "The body must be a JSON object.")
    return found


def _text(asked: dict[str, Any], name: str) -> str:
    value = asked.get(name)
    if not isinstance(value, str) or not value:
        refuse(400, f"{name} is required, as a string.")
    return value
