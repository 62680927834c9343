"""A real JupyterLab in a real Chromium, driven through `window.jupyterapp`."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
from child_processes import ending_with_us
from kernels import SERVER_WITHOUT_PORTS
from playwright.sync_api import Browser, Locator, Page, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from ports import free_port

from nbchat.providers.model_download import cache_folder

REPOSITORY = Path(__file__).resolve().parents[2]

CHROMIUM = os.environ.get("NBCHAT_CHROMIUM") or shutil.which("chromium")

IN_NOTEBOOK_7 = bool(os.environ.get("NBCHAT_TEST_NOTEBOOK_7"))
"""Notebooks are opened in Notebook 7, each in a page of its own, not in JupyterLab."""

CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

START_SECONDS = 90

FORGET = """
import os, uuid
from nbchat.jupyter.panel.chat_ui import ChatUI
shell = get_ipython()
for each in [*shell.user_ns.values()]:
    if isinstance(each, ChatUI):
        each.close()
if "nbchat" in shell.extension_manager.loaded:
    shell.run_line_magic("unload_ext", "nbchat")
first = shell.__dict__.setdefault("first_environment", dict(os.environ))
folder = os.path.dirname(first["JPY_SESSION_NAME"])
os.environ.clear()
os.environ.update(first)
os.environ["JPY_SESSION_NAME"] = os.path.join(folder, f"{uuid.uuid4().hex}.ipynb")
shell.reset()
"""
"""Makes a kernel as good as new, and that of another notebook, whose chat is another."""

FORGET_ATTEMPTS, FORGET_MILLISECONDS = 3, 20_000

THEME_ATTEMPTS = 4

# No news, no autosave, no completer popups, and every cell in the page.
SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
    "@jupyterlab/completer-extension:manager": {"autoCompletion": False},
}

FOLDERS = {
    "HOME": "home",
    "JUPYTER_CONFIG_DIR": "config",
    "JUPYTER_DATA_DIR": "data",
    "JUPYTER_RUNTIME_DIR": "runtime",
    "JUPYTERLAB_SETTINGS_DIR": "settings",
    "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
    "IPYTHONDIR": "ipython",
}


@dataclass(frozen=True, slots=True)
class Lab:
    """A running server: its address and the folder it serves."""

    url: str
    root: Path

    def address(self, notebook: str) -> str:
        """Where a page of its own shows a notebook."""
        return f"{self.url}/{'notebooks' if IN_NOTEBOOK_7 else 'lab/tree'}/{notebook}"


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """The system's Chromium, closed in the end."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=CHROMIUM_ARGUMENTS
        )
        yield browser
        browser.close()


NOTICE = ".jp-Dialog:not(:has(.jp-Dialog-button ~ .jp-Dialog-button))"
"""A dialog of JupyterLab or Notebook with one button, which asks nothing."""


def going_on(page: Page) -> Page:
    """A page that closes dialogs that come unasked, as a person does, and prints them.

    On a busy machine one may cover the page at any moment: a request that Chromium gave
    up, a kernel that lost a port to another process and is started again, a theme that
    took long to load. Notebook 7 may ask for a kernel while it starts the one that the
    notebook names; another choice would end that one.
    """
    dialogs = page.locator(".jp-Dialog")
    for unasked in (page.locator(NOTICE), dialogs.filter(has_text="Select Kernel")):
        _closing(page, unasked.first)
    return page


def _closing(page: Page, dialog: Locator) -> None:
    def close() -> None:
        print(f"closed a dialog: {dialog.locator('.jp-Dialog-header').inner_text()}")
        dialog.locator(".jp-Dialog-button").first.click()

    page.add_locator_handler(dialog, close, no_wait_after=True)


@contextlib.contextmanager
def lab_server(root: Path) -> Iterator[Lab]:
    """JupyterLab with a home of its own, whose kernels import this repository."""
    home = Path(tempfile.mkdtemp(prefix="nbchat-lab-"))
    log = home / "lab.log"
    lab = Lab(f"http://127.0.0.1:{free_port()}", root)
    with log.open("wb") as output:
        server = subprocess.Popen(
            ending_with_us(_command(lab)),
            stdout=output,
            stderr=subprocess.STDOUT,
            env=_environment(home),
            start_new_session=True,
        )
    try:
        _await_server(server, lab, log)
        yield lab
    finally:
        server.send_signal(signal.SIGTERM)  # ends its kernels, too
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
        shutil.rmtree(home, ignore_errors=True)


def _command(lab: Lab) -> list[str]:
    return [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        *("--ip=127.0.0.1", f"--port={lab.url.rpartition(':')[2]}"),
        *("--ServerApp.port_retries=0", f"--ServerApp.root_dir={lab.root}"),
        *("--IdentityProvider.token=", "--ServerApp.password="),
        *("--LabApp.news_url=", "--LabApp.extension_manager=readonly"),
        "--expose-app-in-browser",
        "--JupyterNotebookApp.expose_app_in_browser=True",
        SERVER_WITHOUT_PORTS,
    ]


def _environment(home: Path) -> dict[str, str]:
    folders = {name: home / folder for name, folder in FOLDERS.items()}
    for folder in folders.values():
        folder.mkdir()
    packaged = REPOSITORY / "jupyter-config" / "server-config" / "nbchat.json"
    labextensions = home / "data" / "labextensions"
    labextensions.mkdir()
    built = REPOSITORY / "nbchat" / "jupyter" / "lab" / "labextension"
    (labextensions / "jupyter-nbchat").symlink_to(built)
    extensions = home / "config" / "jupyter_server_config.d"
    extensions.mkdir()
    shutil.copy(packaged, extensions)
    overrides = home / "config" / "labconfig" / "default_setting_overrides.json"
    overrides.parent.mkdir()
    overrides.write_text(json.dumps(SETTINGS))
    return {
        **os.environ,
        **{name: str(folder) for name, folder in folders.items()},
        "PYTHONPATH": os.pathsep.join(
            [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
        ),
        "XDG_CACHE_HOME": str(cache_folder().parent),  # the embedded model's file
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "JUPYTER_PREFER_ENV_PATH": "0",  # this extension, not the one installed there
    }


def _await_server(server: "subprocess.Popen[bytes]", lab: Lab, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{lab.url}/api/status", timeout=2).read()
            return
        time.sleep(0.05)
    raise RuntimeError(f"jupyter lab did not start:\n{log.read_text()[-3000:]}")


def permit(page: Page, lab: Lab) -> dict[str, str]:
    """The headers without which a server takes no changes from a page."""
    page.request.get(f"{lab.url}/lab")  # sets the cookie, if there is none yet
    cookies = {each["name"]: each["value"] for each in page.context.cookies(lab.url)}
    return {"X-XSRFToken": cookies["_xsrf"]}


def load_empty(page: Page, lab: Lab) -> None:
    """Load JupyterLab in a workspace of its own, where no tab is open.

    Not `/lab?reset`: a second route before the reset is saved reloads the page.
    Leaving asks nothing, and the old page is gone before the new one is asked for.
    """
    load(page, f"{lab.url}/lab/workspaces/w{uuid.uuid4().hex[:12]}")


def load(page: Page, address: str) -> None:
    """Load JupyterLab or Notebook in a fresh page."""
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_function("() => window.jupyterapp?.shell", timeout=60_000)
    page.evaluate("async () => { await window.jupyterapp.restored }")


def load_lab(page: Page, lab: Lab, theme: str) -> None:
    """Load JupyterLab in a theme; one that is changed while shown faults now and then.

    Where a theme's style sheet takes more than 1.5 seconds JupyterLab takes another.
    """
    settings = f"{lab.url}/lab/api/settings/@jupyterlab/apputils-extension:themes"
    name = f"JupyterLab {theme}"
    for _ in range(THEME_ATTEMPTS):
        chosen = json.dumps({"theme": name})
        page.request.put(settings, data={"raw": chosen}, headers=permit(page, lab))
        load_empty(page, lab)
        shown = page.locator(f"body[data-jp-theme-name='{name}']")
        with contextlib.suppress(PlaywrightTimeout):
            shown.wait_for(state="attached", timeout=5_000)
            return
    raise RuntimeError(f"{name} was not shown in {THEME_ATTEMPTS} attempts")


class Notebook:
    """One notebook in a tab of a JupyterLab page."""

    _CURRENT = "window.jupyterapp.shell.currentWidget"

    _TABS = (
        "[...window.jupyterapp.shell.widgets('main')]"
        ".filter(tab => tab.context?.path === path)"
    )

    def __init__(self, page: Page, lab: Lab, name: str, cells: tuple[str, ...]) -> None:
        """Write the notebook; nothing is opened yet."""
        self.page = page
        self.lab = lab
        self.name = name
        # Whole UUIDs, as JupyterLab makes: nbformat's eight digits meet among 5,000 cells.
        notebook = nbformat.v4.new_notebook(
            cells=[
                nbformat.v4.new_code_cell(source, id=str(uuid.uuid4()))
                for source in cells
            ],
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        )
        nbformat.write(notebook, lab.root / name)

    def open(self) -> None:
        """Open it in a tab, in a fresh page if there is none, and await its kernel.

        The command is awaited, too: one that is still under way opens a tab once more
        that was closed meanwhile.
        """
        if IN_NOTEBOOK_7:
            if self.page.url.partition("?")[0] != self.lab.address(self.name):
                load(self.page, self.lab.address(self.name))
        else:
            if not self.page.url.startswith(self.lab.url):
                self.load_page()
            self.page.evaluate(
                """async path => { await window.jupyterapp.commands.execute(
                    'docmanager:open', {path, factory: 'Notebook'}) }""",
                self.name,
            )
        self.page.wait_for_function(
            f"""path => {{
                const tab = {self._CURRENT};
                const kernel = tab?.context?.sessionContext?.session?.kernel;
                return tab?.context?.path === path && kernel?.status === 'idle'
                    && kernel.connectionStatus === 'connected' }}""",
            arg=self.name,
            timeout=60_000,
        )

    def rewrite(self, *cells: str) -> None:
        """Replace all cells by others, for which the kernel is as good as new."""
        attempts = (self._forget() for _ in range(FORGET_ATTEMPTS))
        assert any(attempts), "the kernel did not forget the cells before"
        self.page.evaluate(
            f"""cells => {{
                const {{ content, context }} = {self._CURRENT};
                const {{ sharedModel }} = context.model;
                content.mode = 'command';
                content.model.readOnly = false;
                sharedModel.deleteMetadata('nbchat');
                sharedModel.transact(() => {{
                    sharedModel.deleteCellRange(0, sharedModel.cells.length);
                    sharedModel.insertCells(0, cells.map(
                        source => ({{ cell_type: 'code', source }})));
                }});
                sharedModel.clearUndoHistory() }}""",
            cells,
        )

    def _forget(self) -> bool:
        """Remove what cells before made; whether the kernel has answered.

        JupyterLab drops its requests where a connection ends or a kernel restarts, and
        tells no one: a promise that waits for one may be garbage collected.
        """
        self.open()
        answered: bool = self.page.evaluate(
            f"""([code, milliseconds]) => new Promise(resolve => {{
                const {{ kernel }} = {self._CURRENT}.context.sessionContext.session;
                kernel.disposed.connect(() => resolve(false));
                setTimeout(() => resolve(false), milliseconds);
                const asked = kernel.requestExecute({{ code, silent: true }});
                asked.done.then(() => resolve(true), () => resolve(false)) }})""",
            [FORGET, FORGET_MILLISECONDS],
        )
        return answered

    def load_page(self) -> None:
        """Load JupyterLab without any tab.

        Not /lab/tree/x.ipynb: its router opens x once more later and steals the focus.
        """
        load_empty(self.page, self.lab)

    def run(self, index: int) -> Locator:
        """Run a cell to its end; its outputs."""
        self.start(index)
        self.join()
        return self.outputs(index)

    def start(self, index: int) -> None:
        """Run a cell without waiting for it."""
        self.page.evaluate(
            f"""index => {{
                const notebook = {self._CURRENT}.content;
                notebook.activeCellIndex = index;
                notebook.deselectAll();
                window.nbchatRun = window.jupyterapp.commands.execute(
                    'notebook:run-cell') }}""",
            index,
        )

    def join(self) -> None:
        """Wait for the cell that was started."""
        self.page.evaluate("async () => { await window.nbchatRun }")

    def outputs(self, index: int) -> Locator:
        """The outputs of a cell in the visible tab."""
        cells = self.page.locator(
            ".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell"
        )
        return cells.nth(index).locator(".jp-OutputArea-output")

    def save(self) -> None:
        """Write the notebook as it is shown."""
        self.execute("docmanager:save")

    def save_with_widgets(self) -> None:
        """Write it with the state of its widgets, as a person may set it to be saved."""
        toggle = "@jupyter-widgets/jupyterlab-manager:saveWidgetState"
        self.execute(toggle)
        self.save()
        self.execute(toggle)

    def restart_kernel(self) -> None:
        """Restart the kernel without the dialog."""
        self.page.evaluate(
            f"async () => {{ await {self._CURRENT}.context.sessionContext.session"
            ".kernel.restart() }"
        )

    def execute(self, command: str, **arguments: str) -> None:
        """Run one of JupyterLab's commands."""
        self.page.evaluate(
            """async ([command, values]) => {
                await window.jupyterapp.commands.execute(command, values) }""",
            [command, arguments],
        )

    def close(self) -> None:
        """End the kernel, and close the notebook without a dialog."""
        self.page.evaluate(
            f"""async path => {{
                const [tab] = {self._TABS};
                await tab?.context.sessionContext?.session?.shutdown() }}""",
            self.name,
        )
        self.close_tab()

    def close_tab(self) -> None:
        """Close all its tabs, whichever is the current one, without a dialog.

        Its kernel goes on.
        """
        if IN_NOTEBOOK_7:
            self.page.goto("about:blank")
            return
        self.page.evaluate(
            f"""async path => {{
                const tabs = {self._TABS};
                await Promise.all(tabs.map(tab => {{
                    const closed = new Promise(done => tab.disposed.connect(done));
                    tab.context.model.dirty = false;
                    tab.close();
                    return closed }})) }}""",
            self.name,
        )
