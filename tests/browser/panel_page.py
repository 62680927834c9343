"""Panels in a blank page of Chromium, with their chats in this process.

`PanelPage` runs cells in an IPython shell of this process, but needs neither JupyterLab
nor a kernel: a panel's messages travel through a WebSocket. A test that looks at the
panel alone takes a tenth of the time here.
"""

import asyncio
import contextlib
import io
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import comm
from comm.base_comm import BaseComm
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from playwright.sync_api import Locator, Page
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketHandler
from traitlets import Type
from traitlets.config import Config

from nbchat.jupyter.panel.chat_ui import FALLBACK_TEXT, ChatUI

HTML = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Panels</title>
<link rel="icon" href="data:,"></head><body><main></main><script type="module">
const socket = new WebSocket(`ws://${location.host}/messages`);
const models = new Map();
const asked = new Set(); // tokens of queries without an answer
const told = ["send", "stop", "approve", "deny", "compact", "branch", "notebook_answer"]; // get none
const isQuery = ({ type, token }) => token && !told.includes(type);
const queued = ["send", "branch", "compact"]; // make a chat busy, which is told soon after
let isHeard = true; // the kernel knows all that was said
const tellsOfWork = ({ state }) => state?.is_busy || state?.queue?.length;

class Model {
  constructor(id, state) {
    Object.assign(this, { id, state, listeners: new Map() });
    models.set(id, this);
  }
  get(name) { return this.state[name]; }
  on(name, react) {
    this.listeners.set(name, [...(this.listeners.get(name) ?? []), react]);
  }
  off(name, react) {
    this.listeners.set(name, (this.listeners.get(name) ?? []).filter((each) => each !== react));
  }
  emit(name, value) { this.listeners.get(name)?.forEach((react) => react(value)); }
  send(content) {
    if (content.type === window.unheard) return;
    if (isQuery(content)) asked.add(content.token);
    if (queued.includes(content.type)) isHeard = false;
    socket.send(JSON.stringify({ id: this.id, content }));
  }
  take({ method, content, state }) {
    if (method === "custom") this.emit("msg:custom", content);
    if (content?.type === "snapshot" || content?.events?.some(tellsOfWork)) isHeard = true;
    for (const [name, value] of Object.entries(method === "update" ? state : {})) {
      this.state[name] = value;
      this.emit(`change:${name}`);
    }
  }
}

window.messages = 0;
window.isAnswered = () => asked.size === 0;
window.isHeard = () => isHeard;
window.endKernel = () => {
  socket.onmessage = null; // what was on its way does not arrive either
  isHeard = true;
  models.forEach((model) => model.emit("comm:close"));
};

socket.onmessage = ({ data }) => {
  const { id, message } = JSON.parse(data);
  asked.delete(message.content?.token);
  window.messages += 1;
  models.get(id)?.take(message);
};

function outputOf(cell) {
  const output = document.createElement("div");
  output.className = "output";
  cell.append(output);
  return output;
}

async function showPanel(output, { id, state }) {
  const { _esm, _css, ...values } = state;
  const style = document.head.appendChild(document.createElement("style"));
  style.textContent = _css;
  const model = models.get(id) ?? new Model(id, values);
  const code = new Blob([_esm], { type: "text/javascript" });
  model.module ??= import(URL.createObjectURL(code)); // one for all views, as in JupyterLab
  const { default: widget } = await model.module;
  output.end = await widget.render({ model, el: output });
}

window.showOutputs = async (index, outputs) => {
  let cell = document.querySelector(`[data-cell="${index}"]`);
  if (!cell) {
    cell = document.querySelector("main").appendChild(document.createElement("section"));
    cell.dataset.cell = index;
  }
  for (const output of cell.children) output.end?.();
  cell.replaceChildren();
  for (const { text, html, panel } of outputs) {
    if (panel) await showPanel(outputOf(cell), panel);
    else if (html) outputOf(cell).innerHTML = html;
    else outputOf(cell).appendChild(document.createElement("pre")).textContent = text;
  }
};

await new Promise((resolve) => socket.addEventListener("open", resolve));
window.isReady = true;
</script></body></html>"""


MESSAGE_BYTES = 50_000_000

WITHOUT_HISTORY = Config({"HistoryManager": {"enabled": False}})
"""IPython that keeps no history in a file."""


class PanelServer:
    """Serves the blank page and carries messages between panels and their views."""

    def __init__(self) -> None:
        self.comms: dict[str, PageComm] = {}
        self.sockets: set[WebSocketHandler] = set()
        (listening,) = bind_sockets(0, "127.0.0.1")
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._loop.call_soon_threadsafe(self._serve, listening)

    def _serve(self, listening: Any) -> None:
        routes = [("/", _Blank), ("/messages", _Messages, {"server": self})]
        self._http = HTTPServer(
            Application(routes, websocket_max_message_size=MESSAGE_BYTES)
        )
        self._http.add_sockets([listening])

    def send(self, comm_id: str, message: dict[str, Any]) -> None:
        """Hand a panel's message to every open page, from any thread."""
        text = json.dumps({"id": comm_id, "message": message})
        self._loop.call_soon_threadsafe(self._write, text)

    def _write(self, text: str) -> None:
        for socket in self.sockets:
            socket.write_message(text)

    def close(self) -> None:
        """Close all connections and end the thread."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._http.stop()
        for socket in [*self.sockets]:
            socket.close()
        await self._http.close_all_connections()


class _Blank(RequestHandler):
    def get(self) -> None:
        self.finish(HTML)


class _Messages(WebSocketHandler):
    def initialize(self, server: PanelServer) -> None:
        self.server = server

    def open(self) -> None:
        self.server.sockets.add(self)

    def on_close(self) -> None:
        self.server.sockets.discard(self)

    def on_message(self, message: str | bytes) -> None:
        sent = json.loads(message)
        data = {"method": "custom", "content": sent["content"]}
        if found := self.server.comms.get(sent["id"]):
            found.handle_msg({"content": {"data": data}, "buffers": []})


class PageComm(BaseComm):
    """A widget's connection to its views in the page."""

    server: PanelServer

    def publish_msg(
        self,
        msg_type: str,
        data: dict[str, Any] | None = None,
        metadata: object = None,
        buffers: object = None,
        **_keys: object,
    ) -> None:
        if msg_type == "comm_open":
            self.state = (data or {}).get("state", {})
            self.server.comms[self.comm_id] = self
        elif msg_type == "comm_msg":
            self.server.send(self.comm_id, data or {})


@contextlib.contextmanager
def comms_through(server: PanelServer) -> Iterator[None]:
    """Connect the widgets that are made meanwhile to the page."""

    def create(**options: Any) -> BaseComm:
        made = PageComm.__new__(PageComm)
        made.server = server
        made.__init__(**options)  # type: ignore[misc]
        return made

    before = comm.create_comm
    comm.create_comm = create
    yield
    comm.create_comm = before
    server.comms.clear()


class _Results(DisplayHook):
    """Keeps the formats of a cell's last value, in place of printing it."""

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(
        self, format_dict: dict[str, Any], md_dict: object = None
    ) -> None:
        self.shell.display_pub.publish(format_dict)

    def finish_displayhook(self) -> None:
        self._is_active = False


class _Shell(InteractiveShell):
    """IPython in this process; what cells display is kept."""

    displayhook_class = Type(_Results)
    display_pub_class = Type(CapturingDisplayPublisher)


class PanelPage:
    """Cells in a blank page; the same interface as a `Notebook` in JupyterLab."""

    def __init__(
        self,
        page: Page,
        server: PanelServer,
        cells: tuple[str, ...],
        theme: str = "Light",
    ) -> None:
        """Open the page in a theme, "Light" or "Dark"; nothing has run yet."""
        self.page = page
        self.server = server
        self.cells = cells
        self._shell = _Shell.instance(config=WITHOUT_HISTORY)
        page.goto(server.url)
        page.wait_for_function("() => window.isReady")
        page.evaluate(
            "value => { document.body.dataset.jpThemeLight = value }", theme == "Light"
        )

    def run(self, index: int) -> Locator:
        """Run a cell to its end; its outputs."""
        outputs = self._outputs(self.cells[index])
        self.page.evaluate("values => showOutputs(...values)", [index, outputs])
        return self.outputs(index)

    def start(self, index: int) -> None:
        """Run a cell in a thread, without waiting for it and without outputs."""
        self._thread = threading.Thread(target=self._outputs, args=[self.cells[index]])
        self._thread.start()

    def join(self) -> None:
        """Wait for the cell that was started."""
        while self._thread.is_alive():
            self.page.wait_for_timeout(50)

    def await_answers(self) -> None:
        """Wait until every query of the views is answered, and what came is drawn."""
        self.page.wait_for_function("() => isAnswered()")
        self.page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
        )

    def await_messages(self, count: int) -> None:
        """Wait until so many more messages have come from the kernel."""
        wanted = self.page.evaluate("messages") + count
        self.page.wait_for_function("wanted => messages >= wanted", arg=wanted)

    def end_kernel(self) -> None:
        """Close the connection of every panel, as the end of a kernel does."""
        self.page.evaluate("() => endKernel()")

    def outputs(self, index: int) -> Locator:
        """The outputs of a cell."""
        return self.page.locator(f"[data-cell='{index}'] .output")

    def close(self) -> None:
        """End all chats that the cells have made."""
        for each in [*self._shell.user_ns.values()]:
            if isinstance(each, ChatUI):
                each.close()
        if "nbchat" in self._shell.extension_manager.loaded:
            self._shell.run_line_magic("unload_ext", "nbchat")
        _Shell.clear_instance()

    def _outputs(self, source: str) -> list[dict[str, Any]]:
        """What a cell prints, displays and returns, in this order."""
        self._shell.display_pub.outputs = []
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            self._shell.run_cell(source, store_history=True)
        shown = [{"text/plain": printed.getvalue()}] if printed.getvalue() else []
        shown += [each["data"] for each in self._shell.display_pub.outputs]
        return [
            self._output(each)
            for each in shown
            if FALLBACK_TEXT not in each.get("text/html", "")  # JupyterLab hides it
        ]

    def _output(self, data: dict[str, Any]) -> dict[str, Any]:
        match data:
            case {"application/vnd.jupyter.widget-view+json": {"model_id": panel}}:
                state = self.server.comms[panel].state
                return {"panel": {"id": panel, "state": state}}
            case {"text/html": html}:
                return {"html": html}
        return {"text": data["text/plain"]}


OpenPanelPage = Callable[..., PanelPage]
