"""The command line: `nbchat demo` runs the product, `nbchat lab` opens JupyterLab."""

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from tqdm import tqdm

from nbchat.errors import ConfigError, NbchatError
from nbchat.history import Session
from nbchat.providers import EMBEDDED_MODEL, default_model
from nbchat.providers.weights import model_file
from nbchat.store import SessionStore

NOTEBOOKS = ("ticket_triage", "quickstart")
FOLDER = "nbchat-demo"
LOOK_SECONDS = 0.5
CELL_TIMEOUT_SECONDS = 1_800
MOST_TICKETS = 30


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; a fault is one line on stderr and exit code 1."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], None] = options.command
    try:
        command(options)
    except NbchatError as error:
        print(f"nbchat: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("nbchat: stopped", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nbchat", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="demo | lab | sessions")
    demo = commands.add_parser(
        "demo", help="triage real tickets in a notebook, headless"
    )
    demo.set_defaults(command=_demo)
    lab = commands.add_parser("lab", help="open the same notebook in JupyterLab")
    lab.set_defaults(command=_lab)
    for command in (demo, lab):
        command.add_argument(
            "--folder", type=Path, default=Path(FOLDER), help="where notebooks are put"
        )
    demo.add_argument(
        "--tickets", type=int, default=8, help=f"how many (1 to {MOST_TICKETS})"
    )
    sessions = commands.add_parser("sessions", help="list the sessions kept here")
    sessions.set_defaults(command=_sessions)
    return parser


def _demo(options: argparse.Namespace) -> None:
    """Fetch the model if needed, execute the notebook, say what happened."""
    if not 1 <= options.tickets <= MOST_TICKETS:
        raise ConfigError(
            f"--tickets {options.tickets} is out of range; choose 1 to {MOST_TICKETS}"
        )
    model = _prepared_model()
    notebook = _copied(NOTEBOOKS, options.folder)[0]
    database = options.folder.resolve() / "sessions.db"
    database.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "NBCHAT_STORE_URL": f"sqlite:///{database}",
        "NBCHAT_DEMO_TICKETS": str(options.tickets),
    }
    print(f"{options.tickets} tickets, model {model}")
    began = time.monotonic()
    store = SessionStore(environment["NBCHAT_STORE_URL"])
    _execute(notebook, environment, Progress(store, options.tickets))
    print(_report(_session(store), notebook, time.monotonic() - began))


def _lab(options: argparse.Namespace) -> None:
    """Open JupyterLab on a copy of the demo notebooks."""
    _prepared_model()
    notebook = _copied(NOTEBOOKS, options.folder)[0]
    command = [sys.executable, "-m", "jupyterlab", str(notebook)]
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    command += ["--allow-root"] if is_root else []
    code = subprocess.run(command, check=False).returncode  # noqa: S603  # our own python
    if code:
        raise NbchatError(f"JupyterLab ended with code {code}; its lines above say why")


def _sessions(_options: argparse.Namespace) -> None:
    """One line a session, the newest first."""
    for info in SessionStore(os.environ.get("NBCHAT_STORE_URL", "")).sessions():
        print(f"{info.id}  {info.used_at[:16]}  {info.entries:5}  {info.title}")


def _prepared_model() -> str:
    """The model the notebook will use, its file fetched when it is the embedded one."""
    model = os.environ.get("NBCHAT_MODEL") or default_model()
    if model == EMBEDDED_MODEL:
        model_file(EMBEDDED_MODEL.partition(":")[2], is_quiet=False)
    return model


def _copied(names: Sequence[str], folder: Path) -> list[Path]:
    """The demo notebooks in a folder of the user's; earlier copies are replaced."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [
            Path(shutil.copyfile(_packaged(name), folder / f"{name}.ipynb"))
            for name in names
        ]
    except OSError as error:
        raise NbchatError(
            f"cannot write to {folder}: {error.strerror}; choose another with --folder"
        ) from error


def _packaged(name: str) -> Path:
    """A notebook in the wheel, or in the source tree of an editable install."""
    package = Path(str(files("nbchat")))
    in_wheel = package / "data" / f"{name}.ipynb"
    return (
        in_wheel if in_wheel.exists() else package.parent / "notebooks" / in_wheel.name
    )


@dataclass(frozen=True, slots=True)
class Progress:
    """A bar over the tickets, read from the session as it is saved."""

    store: SessionStore
    tickets: int

    async def watch(self) -> None:
        """Follow the session until cancelled."""
        with tqdm(total=self.tickets, unit="ticket", file=sys.stdout) as bar:
            try:
                while True:
                    await asyncio.sleep(LOOK_SECONDS)
                    self._update(bar)
            finally:
                self._update(bar)

    def _update(self, bar: "tqdm[Any]") -> None:
        session = _session(self.store)
        bar.n = _closed(session)
        done = len(session.active_compactions)
        bar.set_postfix_str(f"{done} compactions" if done != 1 else "1 compaction")


def _execute(notebook: Path, environment: dict[str, str], progress: Progress) -> None:
    """Run every cell and save the notebook in place, also when a cell failed."""
    book = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(
        book,
        timeout=CELL_TIMEOUT_SECONDS,
        kernel_name="python3",
        store_widget_state=False,
        coalesce_streams=True,
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
        resources={"metadata": {"path": str(notebook.parent)}},
    )

    async def run() -> None:
        watching = asyncio.create_task(progress.watch())
        try:
            await client.async_execute(env=environment)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    try:
        asyncio.run(run())
    except CellExecutionError as error:
        raise NbchatError(
            f"a cell of {notebook} failed: {error.ename}: {error.evalue}; "
            "open it with: nbchat lab"
        ) from None
    finally:
        nbformat.write(book, notebook)  # type: ignore[no-untyped-call]


def _session(store: SessionStore) -> Session:
    found = store.sessions()
    return store.load(found[0].id) if found else Session()


def _closed(session: Session) -> int:
    done = (entry for entry in session.transcript if entry.role == "tool")
    return sum(e.tool_name == "close_ticket" and not e.is_error for e in done)


def _report(session: Session, notebook: Path, seconds: float) -> str:
    """What happened, in a few lines."""
    lines = [f"tickets handled   {_closed(session)} in {seconds:.0f} s"]
    for number, done in enumerate(session.active_compactions, 1):
        lines.append(
            f"compaction {number}      {done.stop - done.start} entries, "
            f"{done.tokens_before:,} -> {done.tokens_after:,} tokens"
        )
    usage = session.usage
    billed = (
        f"{usage.input_tokens:,} tokens in ({usage.cache_read_tokens:,} of them from "
        f"the cache), {usage.output_tokens:,} out, summaries included"
    )
    kept = (
        f"{len(session.transcript)} entries in the transcript, "
        f"{len(session.history)} in the model's view"
    )
    lines += [
        f"billed            {billed}",
        f"nothing lost      {kept}",
        f"notebook          {notebook.resolve()}",
    ]
    return "\n".join(lines)
