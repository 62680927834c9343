"""The panel in the browser: `bundle.js`, made from `src/`, and its stylesheet."""

import os
from pathlib import Path

from nbchat.rendering.markdown import stylesheet

_FOLDER = Path(__file__).parent

_BUNDLE = _FOLDER / "bundle.js"
"""One ES module, because a widget's script cannot import its neighbours."""

_STYLES = (
    *("header", "buttons", "icons", "actions"),
    *("foot", "dialogs", "lists", "context"),
)


def script() -> str | Path:
    """The panel's script; with ANYWIDGET_HMR its file, which open panels follow.

    anywidget keeps each widget of a file for ever, to tell it of a change.
    """
    return _BUNDLE if "ANYWIDGET_HMR" in os.environ else _BUNDLE.read_text("utf-8")


def style() -> str:
    """The rules of a conversation, and of the panel around it."""
    files = (_FOLDER / f"{name}.css" for name in _STYLES)
    return "\n".join((stylesheet(), *(file.read_text("utf-8") for file in files)))
