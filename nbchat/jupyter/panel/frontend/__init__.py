"""The panel's half in the browser, put together from the files beside this one."""

from pathlib import Path

from nbchat.rendering.markdown import stylesheet

_FOLDER = Path(__file__).parent

_SCRIPTS = (
    "panel",
    "kernel_connection",
    "transcript",
    "screen_reader",
    "layout",
    "header",
    "dialog",  # before those that extend its class
    "compact_dialog",
    "context_usage",
    "settings",
    "full_history",
    "summary_dialogs",
    "pins",
    "sessions",
    "models",
    "menu",
    "message_actions",
    "input_box",
    "attachments",
    "completion",
    "run_dialog",
    "notebook",
    "approvals",
    "server_route",
    "code_blocks",
    "dom",
)

_STYLES = ("header", "buttons", "actions", "foot", "dialogs", "lists", "context")


def script() -> str:
    """One ES module: a widget's script cannot import its neighbours."""
    return "\n".join(_lean(_read(f"{name}.js")) for name in _SCRIPTS)


def style() -> str:
    """The rules of a conversation, and of the panel around it."""
    return "\n".join((stylesheet(), *(_read(f"{name}.css") for name in _STYLES)))


def _lean(code: str) -> str:
    """The code without what is for readers: each notebook that is saved keeps it."""
    lines = (line.strip() for line in code.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
