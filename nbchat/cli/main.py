"""The `nbchat` command: demo, lab, sessions, export, import, settings, doctor."""

import argparse
import io
import os
import re
import runpy
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nbchat.cli.doctor import Report, diagnose
from nbchat.config.layers import settings
from nbchat.config.private_files import write_private
from nbchat.config.settings import markdown_table
from nbchat.conversation.session import Session
from nbchat.conversation.turns import count_messages
from nbchat.errors import ConfigError, NbchatError, SessionNotFound
from nbchat.providers.connect import EMBEDDED_MODEL, default_model
from nbchat.providers.model_download import is_fetched, model_file
from nbchat.rendering.plain_text import terminal_text
from nbchat.storage.autosave import save_session
from nbchat.storage.export import FORMATS, VERSION, exported, imported
from nbchat.storage.factory import opened_store
from nbchat.storage.import_checks import checked, claims, without_claims
from nbchat.storage.postgresql import rls_statements
from nbchat.storage.schema import VERSIONS
from nbchat.storage.store import SessionStore

DESCRIPTION = "A chat panel for Jupyter notebooks that compacts long conversations."
EPILOG = "In a notebook: %load_ext nbchat, then %chat for the chat panel."

NOTEBOOKS = ("ticket_triage", "quickstart", "policies")
DESK = ("ticket_desk.py", "data")
"""The tools and tickets of a demo notebook, beside it."""
DEMO_FOLDER = "nbchat-demo"
MIN_TICKETS, MAX_TICKETS = 4, 50
"""Fewer tickets would end before the first compaction, which the notebook shows."""
LARGEST_IMPORT = 256_000_000
"""Bytes of a file that is imported."""

SESSION_ID = re.compile(r"[\w-]{1,64}", re.ASCII)
"""Valid ids of imported sessions; a session with any other id gets a new one."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; an error is one line on stderr and exit code 1."""
    for stream in (sys.stdout, sys.stderr):  # a console may lack a character
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    parser = _parser()
    options, others = parser.parse_known_args(arguments)
    options.others = others  # of JupyterLab
    if others and options.command is not _lab:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    if options.command is None:
        parser.print_help(sys.stderr)
        return 2
    command: Callable[[argparse.Namespace], None] = options.command
    try:
        command(options)
    except NbchatError as error:
        print(f"nbchat: {terminal_text(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("nbchat: Stopped.", file=sys.stderr)
        return 130
    return 0


class _Parser(argparse.ArgumentParser):
    """Names the nearest command for a mistyped one."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            near = get_close_matches(str(value), map(str, action.choices), 1)
            known = ", ".join(map(str, action.choices))
            advice = f"Did you mean {near[0]}?" if near else f"Choose one of {known}."
            raise argparse.ArgumentError(action, f"there's no {value!r}. {advice}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="nbchat", description=DESCRIPTION, epilog=EPILOG)
    parser.set_defaults(command=None)
    ours = f"nbchat {version('jupyter-nbchat')}"
    shown = f"{ours} (database {VERSIONS[-1]}, exported files {VERSION})"
    parser.add_argument("--version", action="version", version=shown)
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    _add_demo_commands(commands)
    _add_run_command(commands)
    _add_session_commands(commands)
    _add_database_commands(commands)
    listing = _command(commands, "settings", "list all settings, as Markdown")
    listing.set_defaults(command=_settings)
    doctor = _command(
        commands, "doctor", "check settings, keys, database, model and versions"
    )
    doctor.add_argument("--all", action="store_true", help="show the whole report")
    doctor.add_argument(
        "--report",
        nargs="?",
        const=Path("nbchat-report.txt"),
        type=Path,
        metavar="FILE",
        help="save the report without secrets, to attach to an issue (default: "
        "nbchat-report.txt)",
    )
    doctor.set_defaults(command=_doctor)
    editor = _command(
        commands, "acp", "serve an editor or jupyter-ai (Agent Client Protocol, stdio)"
    )
    editor.set_defaults(command=_acp)
    others = _command(
        commands, "mcp", "serve the open notebooks to other agents (MCP, stdio)"
    )
    others.set_defaults(command=_mcp)
    return parser


def _command(
    commands: "argparse._SubParsersAction[Any]", name: str, about: str, epilog: str = ""
) -> argparse.ArgumentParser:
    """Add a command whose own help says what it does, too."""
    description = f"{about[0].upper()}{about[1:]}."
    return commands.add_parser(name, help=about, description=description, epilog=epilog)  # type: ignore[no-any-return]


def _add_demo_commands(commands: "argparse._SubParsersAction[Any]") -> None:
    demo = _command(
        commands,
        "demo",
        "run an agent on support tickets in a notebook, without a browser",
    )
    demo.set_defaults(command=_demo)
    lab = _command(
        commands,
        "lab",
        "open the demo notebooks in JupyterLab",
        epilog="Other options, such as --no-browser and --port, are JupyterLab's.",
    )
    lab.set_defaults(command=_lab)
    for command in (demo, lab):
        command.add_argument(
            "--folder",
            type=Path,
            default=Path(DEMO_FOLDER),
            help="folder for the notebooks and their sessions (default: %(default)s)",
        )
    demo.add_argument(
        "--tickets",
        type=int,
        default=8,
        help=f"how many tickets, {MIN_TICKETS} to {MAX_TICKETS} (default: %(default)s)",
    )


def _add_run_command(commands: "argparse._SubParsersAction[Any]") -> None:
    run = _command(commands, "run", "execute a notebook with other parameter values")
    run.add_argument("notebook", help=f"a file, or one of: {', '.join(NOTEBOOKS)}")
    run.add_argument(
        *("-p", "--parameter"),
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "VALUE"),
        help="a value for the cell tagged `parameters`: JSON or plain text",
    )
    run.add_argument(
        "--output", type=Path, help="output file (default: NAME-executed.ipynb)"
    )
    run.set_defaults(command=_run)


def _add_session_commands(commands: "argparse._SubParsersAction[Any]") -> None:
    sessions = _command(commands, "sessions", "list the stored sessions")
    sessions.add_argument(
        "--limit",
        type=int,
        default=100,
        help="how many sessions (default: %(default)s)",
    )
    sessions.add_argument(
        "--before",
        metavar="ID",
        default="",
        help="list only sessions older than this one",
    )
    sessions.set_defaults(command=_sessions)
    export = _command(commands, "export", "write a session to a file")
    export.add_argument("session", metavar="ID", help="id from `nbchat sessions`")
    export.add_argument("--to", choices=FORMATS, required=True, help="file format")
    export.add_argument(
        "--output", type=Path, help="output file (default: standard output)"
    )
    export.set_defaults(command=_export)
    importing = _command(
        commands, "import", "store a session from an exported json or ipynb file"
    )
    importing.add_argument(
        "file", type=Path, help="a json or ipynb file from nbchat export"
    )
    importing.add_argument(
        "--accept",
        action="store_true",
        help="also import its pins, summaries and shortened outputs, without asking",
    )
    importing.set_defaults(command=_import)


def _add_database_commands(commands: "argparse._SubParsersAction[Any]") -> None:
    database = _command(commands, "db", "prepare a database for many users")
    steps = database.add_subparsers(metavar="STEP", title="steps", required=True)
    init = _command(steps, "init", "create the tables")
    init.add_argument(
        "--rls",
        choices=("owner", "role"),
        help="row level security in PostgreSQL: owner trusts the owner that nbchat "
        "sends; role takes the user's database role, whose name must be the owner's",
    )
    init.add_argument(
        "--print", action="store_true", help="print the statements, change nothing"
    )
    init.set_defaults(command=_db_init)


def _db_init(options: argparse.Namespace) -> None:
    """Create the tables, and the row level security that was asked for."""
    if options.print:
        found = rls_statements(by_role=options.rls == "role") if options.rls else []
        print("\n".join(f"{each};" for each in found))
        return
    store = _store()
    store.initialize(rls=options.rls)
    rls = f" Row level security: {options.rls}." if options.rls else ""
    print(f"{store.location} is ready.{rls}")


def _demo(options: argparse.Namespace) -> None:
    """Execute the demo notebook with a progress bar, then print a summary."""
    if not MIN_TICKETS <= options.tickets <= MAX_TICKETS:
        raise ConfigError(
            f"--tickets {options.tickets} is out of range. "
            f"Choose {MIN_TICKETS} to {MAX_TICKETS}"
        )
    model = _prepared_model()
    folder = _create(options.folder)
    print(f"{options.tickets} tickets, model {model}")
    # Not at the top: nbconvert and nbformat take a second to import.
    from nbchat.cli.demo import run_demo  # noqa: PLC0415

    executed = folder / f"{NOTEBOOKS[0]}-executed.ipynb"
    notebook = _packaged(f"{NOTEBOOKS[0]}.ipynb")
    _import_from(notebook.parent)
    print(run_demo(notebook, executed, options.tickets))


def _run(options: argparse.Namespace) -> None:
    """Execute a notebook by papermill and save it, also if a cell fails."""
    require("papermill")
    packaged = options.notebook in NOTEBOOKS and not Path(options.notebook).exists()
    file = Path(options.notebook)
    if packaged:
        file = _packaged(f"{options.notebook}.ipynb")
        _import_from(file.parent)
    output = options.output or Path(f"{file.stem}-executed.ipynb")
    from nbchat.cli.run import run_notebook  # noqa: PLC0415  # papermill takes a second

    run_notebook(file, output, dict(options.parameter))
    print(f"notebook          {output.resolve()}")


def _lab(options: argparse.Namespace) -> None:
    """Open copies of the demo notebooks in JupyterLab; existing copies are kept."""
    _prepared_model()
    notebooks = _copied(NOTEBOOKS, options.folder)
    command = [*lab_command(notebooks[0]), *options.others]
    code = subprocess.run(command, check=False).returncode  # noqa: S603  # our own python
    if code:
        raise NbchatError(f"JupyterLab exited with code {code}. See its output above.")


def lab_command(notebook: Path) -> list[str]:
    """The command that starts JupyterLab; the address it prints opens the notebook."""
    command = [sys.executable, "-m", "jupyterlab", str(notebook)]
    # JupyterLab opens the notebook itself, but prints the address of its launcher.
    command.append(f"--LabApp.default_url=/lab/tree/{quote(notebook.name)}")
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    return [*command, "--allow-root"] if is_root else command


def _sessions(options: argparse.Namespace) -> None:
    """Print one line per session, the newest first."""
    store, limit = _store(), options.limit
    found = store.sessions(limit=limit, before=options.before)
    for info in found:
        line = f"{info.id}  {info.used_at[:16]}  {info.messages:5}  {info.title}"
        print(terminal_text(line))
    if not found:
        earlier = f" before {options.before}" if options.before else ""
        print(f"There are no sessions{earlier}.", file=sys.stderr)
    if found and len(found) == limit and store.sessions(limit=1, before=found[-1].id):
        more = f"For earlier sessions: nbchat sessions --before {found[-1].id}"
        print(more, file=sys.stderr)


def _export(options: argparse.Namespace) -> None:
    """Write a session to a file or to standard output."""
    try:
        session = _store().load(options.session)
    except SessionNotFound as error:
        advice = "nbchat sessions lists yours."
        raise NbchatError(
            f"There's no session {options.session!r}. {advice}"
        ) from error
    text = exported(session, options.to)
    if options.output is None:
        if sys.stdout.isatty():
            text = terminal_text(text)
        sys.stdout.buffer.write(text.encode())
        return
    try:
        write_private(options.output, text)
    except OSError as error:
        raise NbchatError(f"Can't write {options.output}: {error.strerror}.") from error


def _import(options: argparse.Namespace) -> None:
    """Store a session, with a new id if its own is taken."""
    try:
        with options.file.open("rb") as file:  # a device has no size and no end
            content = file.read(LARGEST_IMPORT + 1)
        if len(content) > LARGEST_IMPORT:
            raise NbchatError(
                f"{options.file} is larger than {LARGEST_IMPORT:,} bytes."
            )
        session = imported(content.decode())
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it's not UTF-8"
        raise NbchatError(f"Can't read {options.file}: {reason}.") from error
    if not session.transcript:
        raise NbchatError(f"{options.file} contains a session without messages.")
    session = _confirmed(session, is_accepted=options.accept)
    store = _store()
    wanted = session.session_id
    if not SESSION_ID.fullmatch(wanted) or store.known([wanted]):
        session.session_id = uuid.uuid4().hex[:12]
    save_session(store, session)
    print(f"{session.session_id}  {count_messages(session.transcript)} messages")


def _confirmed(session: Session, *, is_accepted: bool) -> Session:
    """The session with what acts on the model, if that is confirmed; else without."""
    found = claims(session)
    if not found:
        return without_claims(session)
    _tell("The file also contains content that a model would act on:")
    for line in found:
        _tell(f"  {line}")
    if not is_accepted and sys.stdin.isatty():
        is_accepted = input("Import this too? [y/N] ").strip().lower() in ("y", "yes")
    if not is_accepted:
        _tell("Only the messages are imported; --accept also imports the rest.")
        return without_claims(session)
    kept = checked(session)
    if left := len(session.compactions) - len(kept.compactions):
        _tell(f"{left} of its records don't match its messages and are skipped.")
    return kept


def _tell(line: str) -> None:
    print(terminal_text(line), file=sys.stderr)


def _settings(_options: argparse.Namespace) -> None:
    """Print all settings."""
    print(markdown_table())


def _doctor(options: argparse.Namespace) -> None:
    """Print the report, or write it to a file; any problem is an error."""
    report = diagnose()
    if options.report is not None:
        _write_report(report, options.report)
        return
    print(terminal_text(report.text if options.all else report.summary))
    if report.problems:
        more = len(report.problems) - 1
        rest = f" And {more} more, see above." if more else ""
        raise NbchatError(f"Found a problem. {report.problems[0]}{rest}")


def _write_report(report: Report, file: Path) -> None:
    try:
        file.write_text(f"{report.for_others}\n", encoding="utf-8")
    except OSError as error:
        raise NbchatError(f"Can't write {file}: {error.strerror}.") from error
    print(
        f"Saved {file}. It has no keys, passwords or prompts. Read it once before you "
        "attach it to an issue."
    )


def _acp(_options: argparse.Namespace) -> None:
    """Serve a client on stdin and stdout until it closes them."""
    if find_spec("acp") is None:
        raise ConfigError(
            "nbchat acp needs the package agent-client-protocol. "
            'Run: pip install "jupyter-nbchat[acp]"'
        )
    from nbchat.cli.acp import serve  # noqa: PLC0415  # a second, an optional package

    serve()


def _mcp(_options: argparse.Namespace) -> None:
    """Serve the open notebooks on stdin and stdout until the client closes them."""
    runpy.run_module("nbchat.jupyter.notebook_mcp", run_name="__main__")


def _store() -> SessionStore:
    return opened_store(settings())


def _prepared_model() -> str:
    """The model of the notebooks; the embedded model is downloaded if missing."""
    model = settings().model or default_model()
    name = model.partition(":")[2]
    require("pandas", "matplotlib", *["xllamacpp"] * model.startswith("local:"))
    if model == EMBEDDED_MODEL and not is_fetched(name):
        print("Downloading the embedded model (93 MB, once)", flush=True)
        model_file(name, is_quiet=False)
    return model


def require(*packages: str) -> None:
    """Raise ConfigError if a package that the notebooks import is missing."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"The notebooks need {', '.join(missing)}. "
            'Run: pip install "jupyter-nbchat[local]"'
        )


def _create(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NbchatError(
            f"Can't write to {folder}: {error.strerror}. Choose another with --folder."
        ) from error
    return folder


def _copied(names: Sequence[str], folder: Path) -> list[Path]:
    """Copy the demo notebooks and their desk into a folder; existing files are kept."""
    copies = [_create(folder) / f"{name}.ipynb" for name in names]
    for copy in (*copies, *(folder / name for name in DESK)):
        source = _packaged(copy.name)
        if source.is_dir():
            shutil.copytree(source, copy, dirs_exist_ok=True)
        elif not copy.exists():
            shutil.copyfile(source, copy)
    return copies


def _packaged(name: str) -> Path:
    """The path of a demo's file in the wheel, or in the source tree."""
    package = Path(str(files("nbchat")))
    in_wheel = package / "cli" / "data" / name
    return in_wheel if in_wheel.exists() else package.parent / "notebooks" / name


def _import_from(folder: Path) -> None:
    """Let kernels import the modules in a folder."""
    found = filter(None, (str(folder), os.environ.get("PYTHONPATH")))
    os.environ["PYTHONPATH"] = os.pathsep.join(found)
