"""The command line: `nbchat demo` runs the product, `nbchat lab` opens JupyterLab."""

import argparse
import asyncio
import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from tqdm import tqdm

from nbchat.cli.doctor import examine
from nbchat.config.settings import markdown_table, settings
from nbchat.conversation.session import Session
from nbchat.errors import ConfigError, NbchatError
from nbchat.providers.connect import EMBEDDED_MODEL, default_model
from nbchat.providers.model_download import is_fetched, model_file
from nbchat.rendering.markdown import displayable
from nbchat.storage.export import FORMATS, exported, imported
from nbchat.storage.recorder import save_session
from nbchat.storage.store import SessionStore

NOTEBOOKS = ("ticket_triage", "quickstart", "policies")
FOLDER = "nbchat-demo"
LOOK_SECONDS = 0.5
CELL_TIMEOUT_SECONDS = 1_800
MOST_TICKETS = 30
SESSION_ID = re.compile(r"[\w-]{1,64}", re.ASCII)
"""What an imported session may be called; others get a name of ours."""


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
    commands = parser.add_subparsers(
        required=True,
        metavar="demo | lab | sessions | export | import | settings | doctor",
    )
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
    export = commands.add_parser("export", help="write a session as a file")
    export.add_argument("session", metavar="ID", help="as nbchat sessions lists it")
    export.add_argument("--to", choices=FORMATS, required=True)
    export.add_argument("--output", type=Path, help="a file; else it is printed")
    export.set_defaults(command=_export)
    importing = commands.add_parser(
        "import", help="keep a session from a json or ipynb that export wrote"
    )
    importing.add_argument("file", type=Path)
    importing.set_defaults(command=_import)
    listing = commands.add_parser("settings", help="list all settings, as Markdown")
    listing.set_defaults(command=_settings)
    doctor = commands.add_parser(
        "doctor", help="every setting and its origin, keys, store, versions"
    )
    doctor.set_defaults(command=_doctor)
    return parser


def _demo(options: argparse.Namespace) -> None:
    """Fetch the model if needed, execute the notebook, say what happened."""
    if not 1 <= options.tickets <= MOST_TICKETS:
        raise ConfigError(
            f"--tickets {options.tickets} is out of range; choose 1 to {MOST_TICKETS}"
        )
    model = _prepared_model()
    folder = _made(options.folder)
    store = SessionStore(f"sqlite:///{folder.resolve() / 'sessions.db'}")
    environment = {
        **os.environ,
        "NBCHAT_STORE_URL": store.url,
        "NBCHAT_DEMO_TICKETS": str(options.tickets),
    }
    print(f"{options.tickets} tickets, model {model}")
    began = time.monotonic()
    run = Run(store, options.tickets, frozenset(info.id for info in store.sessions()))
    executed = folder / f"{NOTEBOOKS[0]}-executed.ipynb"
    _execute(_packaged(NOTEBOOKS[0]), executed, environment, run)
    print(_report(run.session(), executed, time.monotonic() - began))


def _lab(options: argparse.Namespace) -> None:
    """Open JupyterLab on copies of the demo notebooks; copies that exist stay."""
    _prepared_model()
    notebooks = _copied(NOTEBOOKS, options.folder)
    command = [sys.executable, "-m", "jupyterlab", str(notebooks[0])]
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    command += ["--allow-root"] if is_root else []
    code = subprocess.run(command, check=False).returncode  # noqa: S603  # our own python
    if code:
        raise NbchatError(f"JupyterLab ended with code {code}; its lines above say why")


def _sessions(_options: argparse.Namespace) -> None:
    """One line a session, the newest first."""
    for info in _store().sessions():
        told = f"{info.id}  {info.used_at[:16]}  {info.entries:5}  {info.title}"
        print(displayable(told))


def _export(options: argparse.Namespace) -> None:
    """A session in a file, or on the screen."""
    text = exported(_store().load(options.session), options.to)
    if options.output is None:
        sys.stdout.buffer.write(text.encode())
        return
    try:
        options.output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise NbchatError(f"cannot write {options.output}: {error.strerror}") from error


def _import(options: argparse.Namespace) -> None:
    """A session into the store, under a new id where its own is taken."""
    try:
        session = imported(options.file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise NbchatError(f"cannot read {options.file}: {reason}") from error
    if not session.transcript:
        raise NbchatError(f"{options.file} holds a session in which nothing was said")
    store = _store()
    taken = {info.id for info in store.sessions()}
    if not SESSION_ID.fullmatch(session.session_id) or session.session_id in taken:
        session.session_id = uuid.uuid4().hex[:12]
    save_session(store, session)
    print(f"{session.session_id}  {len(session.transcript)} entries")


def _settings(_options: argparse.Namespace) -> None:
    """Print the README's list of settings."""
    print(markdown_table())


def _doctor(_options: argparse.Namespace) -> None:
    """The whole report, and a fault when something would not work."""
    findings = examine()
    print(findings.text)
    if findings.problems:
        more = len(findings.problems) - 1
        rest = f" (and {more} more, see above)" if more else ""
        raise NbchatError(f"something would not work: {findings.problems[0]}{rest}")


def _store() -> SessionStore:
    return SessionStore(settings().store_url)


def _prepared_model() -> str:
    """The model the notebook will use, its file fetched when it is the embedded one."""
    model = settings().model or default_model()
    name = model.partition(":")[2]
    require("pandas", "matplotlib", *["xllamacpp"] * model.startswith("local:"))
    if model == EMBEDDED_MODEL and not is_fetched(name):
        print("fetching the embedded model, about 93 MB, once", flush=True)
        model_file(name, is_quiet=False)
    return model


def require(*packages: str) -> None:
    """Refuse to begin without what the notebooks import."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"the notebooks need {', '.join(missing)}; "
            'install nbchat with its extra, in its folder: pip install ".[local]"'
        )


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NbchatError(
            f"cannot write to {folder}: {error.strerror}; choose another with --folder"
        ) from error
    return folder


def _copied(names: Sequence[str], folder: Path) -> list[Path]:
    """The demo notebooks in a folder of the user's; what is there already stays."""
    copies = [_made(folder) / f"{name}.ipynb" for name in names]
    for name, copy in zip(names, copies, strict=True):
        if not copy.exists():
            shutil.copyfile(_packaged(name), copy)
    return copies


def _packaged(name: str) -> Path:
    """A notebook in the wheel, or in the source tree of an editable install."""
    package = Path(str(files("nbchat")))
    in_wheel = package / "cli" / "data" / f"{name}.ipynb"
    return (
        in_wheel if in_wheel.exists() else package.parent / "notebooks" / in_wheel.name
    )


@dataclass(frozen=True, slots=True)
class Run:
    """The demo's session as it is saved: the notebook runs in another process."""

    store: SessionStore
    tickets: int
    earlier: frozenset[str]

    def session(self) -> Session:
        """The session of this run; empty until its first entry is saved."""
        ids = [info.id for info in self.store.sessions() if info.id not in self.earlier]
        return self.store.load(ids[0]) if ids else Session()

    async def show_progress(self) -> None:
        """A bar over the tickets, until cancelled."""
        with tqdm(total=self.tickets, unit="ticket", file=sys.stdout) as bar:
            try:
                while True:
                    await asyncio.sleep(LOOK_SECONDS)
                    self._update(bar)
            finally:
                self._update(bar)

    def _update(self, bar: "tqdm[Any]") -> None:
        session = self.session()
        bar.n = _closed(session)
        done = len(session.active_compactions)
        bar.set_postfix_str(f"{done} compactions" if done != 1 else "1 compaction")


def _execute(
    notebook: Path, executed: Path, environment: dict[str, str], progress: Run
) -> None:
    """Run every cell and save the notebook, also when a cell failed."""
    book = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(
        book,
        timeout=CELL_TIMEOUT_SECONDS,
        kernel_name="python3",
        store_widget_state=False,
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
        resources={"metadata": {"path": str(executed.parent)}},
    )

    async def run() -> None:
        bar = asyncio.create_task(progress.show_progress())
        try:
            await client.async_execute(env=environment)
        finally:
            bar.cancel()
            await asyncio.gather(bar, return_exceptions=True)

    try:
        asyncio.run(run())
    except CellExecutionError as error:
        raise NbchatError(
            f"a cell failed: {error.ename}: {error.evalue}; see {executed}"
        ) from None
    finally:
        _save(book, executed)


def _save(book: nbformat.NotebookNode, file: Path) -> None:
    """Write a notebook; text that was printed in pieces becomes one output."""
    merge = CoalesceStreamsPreprocessor()  # type: ignore[no-untyped-call]
    merge.preprocess(book, {})  # type: ignore[no-untyped-call]
    nbformat.write(book, file)  # type: ignore[no-untyped-call]


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
    used = (
        f"{usage.input_tokens:,} tokens in ({usage.cache_read_tokens:,} of them from "
        f"the cache), {usage.output_tokens:,} out, summaries included"
    )
    used = ", ".join(filter(None, (used, usage.dollars_text)))
    kept = (
        f"{len(session.transcript)} entries in the transcript, "
        f"{len(session.history)} in the model's view"
    )
    lines += [
        f"tokens used       {used}",
        f"nothing lost      {kept}",
        f"notebook          {notebook.resolve()}",
    ]
    return "\n".join(lines)
