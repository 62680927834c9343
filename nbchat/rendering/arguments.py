"""A tool call's arguments as a person reads them: labelled blocks of code and text.

A person approves a call by what is shown, so nothing is cut or hidden there: each
character that draws nothing, or changes the direction of others, is marked by its code.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from html import escape
from typing import Any

from nbchat.conversation.entries import Entry
from nbchat.conversation.tools import Preview
from nbchat.rendering.markdown import code_html
from nbchat.rendering.plain_text import displayable

LANGUAGES = {
    "python": {"code", "python", "script", "source"},
    "sql": {"sql"},
    "bash": {"bash", "cmd", "command", "shell"},
}
"""The language in which a string is coloured, by the name of its argument."""

_SQL = re.compile(
    r"\s*(?:select|with|insert\s+into|update|delete\s+from|create|drop|alter)\s",
    re.IGNORECASE,
)

SHORT_CHARACTERS = 80
"""A string up to this long, on one line, is shown beside its name."""

_INVISIBLE_CATEGORIES = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"}

# Default_Ignorable_Code_Point of Unicode 17 beyond these categories, and the empty
# Braille pattern
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0000-\U000e0fff]"
)

_UNPRINTABLE = re.compile(r"[^\n\t\x20-\x7e]")


def arguments_html(call: Entry, preview: Preview | None = None) -> str:
    """Render a call's arguments in full, each string with its line breaks.

    A `preview` is shown instead, which says all that they would do.
    """
    if preview is not None:
        return _block(preview.title, preview.text, preview.language)
    arguments = call.arguments
    if not arguments:
        return _block("", call.tool_args, "") if call.tool_args else ""
    return "".join(_argument_html(name, value) for name, value in arguments.items())


def with_invisibles_escaped(text: str) -> str:
    r"""Replace invisible and direction-changing characters with `\u202e` and the like.

    Line breaks and tabs stay; JSON keeps its meaning.
    """
    return _UNPRINTABLE.sub(lambda found: _escape(found[0]), text)


def _argument_html(name: str, value: Any) -> str:
    """An argument; the long strings within a list or an object follow it as blocks."""
    if isinstance(value, str) and not _is_long(value):
        return _short(name, value)
    if isinstance(value, str):
        return _block(name, value, _language(name, value))
    text = json.dumps(value, indent=2, ensure_ascii=False)
    shown = _block(name, text, "json") if _is_long(text) else _short(name, text)
    inner = (_block(path, text, "") for path, text in _long_texts(name, value))
    return shown + "".join(inner)


def _long_texts(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """The strings of several lines inside a value, each with its path."""
    if isinstance(value, str) and "\n" in value:
        yield path, value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _long_texts(f"{path}.{name}", each)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _long_texts(f"{path}[{index}]", each)


def _is_long(text: str) -> bool:
    return "\n" in text or len(text) > SHORT_CHARACTERS


def _language(name: str, text: str) -> str:
    for language, names in LANGUAGES.items():
        if name.lower() in names:
            return language
    return "sql" if _SQL.match(text) else ""


def _short(name: str, text: str) -> str:
    return (
        f'<div class="nbc-argument"><span class="nbc-label">{_marked(name)}</span>'
        f"<code>{_marked(text)}</code></div>"
    )


def _block(name: str, text: str, language: str) -> str:
    """A labelled block of code or text, as it is."""
    lines = text.count("\n") + (not text.endswith("\n"))
    parts = [_marked(name), language, f"{lines:,} lines" if lines > 1 else ""]
    label = " \u00b7 ".join(filter(None, parts))
    return (
        f'<div class="nbc-label">{label}</div>'
        f'<div class="nbc-argument-block">{_code(text, language)}</div>'
    )


def _code(text: str, language: str) -> str:
    """Coloured, unless it has marks: a lexer drops some invisible characters."""
    if _has_invisible(text):
        return f'<pre class="nbc-code"><code>{_marked(text)}</code></pre>'
    return code_html(text, language)


def _marked(text: str) -> str:
    escaped = escape(displayable(text))
    return _UNPRINTABLE.sub(lambda found: _visible(found[0]), escaped)


def _has_invisible(text: str) -> bool:
    return any(_is_invisible(found[0]) for found in _UNPRINTABLE.finditer(text))


def _visible(character: str) -> str:
    if not _is_invisible(character):
        return character
    return f'<span class="nbc-invisible" data-mark="U+{ord(character):04X}"></span>'


def _escape(character: str) -> str:
    if not _is_invisible(character):
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _is_invisible(character: str) -> bool:
    is_listed = unicodedata.category(character) in _INVISIBLE_CATEGORIES
    return is_listed or _IGNORABLE.match(character) is not None
