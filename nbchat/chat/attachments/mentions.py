"""Find mentions in a message: `@df`, `@df.amount`, `@cell:3`, `@file:a.txt`, `@error`.

`@!` in place of `@` attaches a thing with what looks like a secret. Only the text is
read here; a `Resolver` looks up what a name refers to. E-mail addresses, decorators and
code in backticks are not mentions.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from nbchat.conversation.entries import Entry

Kind = Literal["variable", "cell", "file", "image", "error", "upload"]

# A word before the @ makes it an address; some characters after the name, code.
_MENTION = re.compile(
    r"""(?<![\w@.+/\\-])@(?P<raw>!)?(?:
      (?P<kind>file|image):(?P<target>"[^"\n]*"|[^\s"]*)
    | (?P<cell>cell)(?::(?P<number>\w+))?(?!\w|[(@/]|[.:-]\w)
    | (?P<error>error)(?!\w|[(@/]|[.:-]\w)
    | (?P<name>(?>[^\W\d]\w*
        (?:\.[^\W\d]\w*|\[(?:[^\[\]\n]|\[[^\[\]\n]*\]){1,200}\])*))(?![(\[@/]|[.:-]\w)
    )""",
    re.VERBOSE,
)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_DEFINITION = re.compile(r"(?:def|class|async)\b")
_ENDINGS = ".,;:!?)]}'"


@dataclass(frozen=True, slots=True)
class Mention:
    """A reference to something in the notebook."""

    kind: Kind
    name: str
    """A variable, a path, or a cell's number; empty for the last cell or error."""
    text: str
    """As it was typed."""
    is_raw: bool = False
    """Whether it is attached with its secrets, as in `@!config`."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that was executed: its source, and its output as text."""

    number: int
    source: str
    output: str


class Resolver(Protocol):
    """Looks up names in the notebook in which a message is written."""

    @property
    def folder(self) -> Path:
        """The folder to which paths are relative."""

    def variables(self) -> Mapping[str, object]:
        """The user's variables as they are now."""

    def cell(self, number: int | None) -> Cell | None:
        """A cell by its number, or the last one; None when there is none."""

    def error(self) -> str:
        """The last traceback; empty if no cell has failed yet."""


def mentions(text: str) -> list[Mention]:
    """The mentions in a text, each once, in their order."""
    if text.startswith("/"):  # a command
        return []
    prose = _without_decorators(_CODE.sub(_blanked, text))
    found = (_mention(match) for match in _MENTION.finditer(prose))
    return list({(each.kind, each.name, each.is_raw): each for each in found}.values())


def not_mentioned(message: Entry, attached: Iterable[Entry]) -> list[Entry]:
    """Attachments of a message that its text does not mention."""
    found = mentions(message.content)
    return [each for each in attached if not any(_is_of(each, one) for one in found)]


def _is_of(attached: Entry, mention: Mention) -> bool:
    """Whether an entry was attached by a mention, judging by their names."""
    name = str(attached.arguments.get("name", ""))
    match mention.kind:
        case "cell" if not mention.name:
            return name.startswith("cell ")
        case "cell":
            return name == f"cell {mention.name}"
        case "error":
            return name == "error"
        case _:
            return name == mention.name


def _blanked(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _without_decorators(text: str) -> str:
    """The text without decorators: lines that begin with @ above a definition."""
    kept: list[str] = []
    is_decorated = False
    for line in reversed(text.split("\n")):
        code = line.lstrip()
        is_decorator = code.startswith("@") and is_decorated
        is_decorated = is_decorator or _DEFINITION.match(code) is not None
        kept.append("" if is_decorator else line)
    return "\n".join(reversed(kept))


def _mention(match: re.Match[str]) -> Mention:
    text, is_raw = match[0], match["raw"] is not None
    match match.groupdict():
        case {"kind": ("file" | "image") as kind, "target": target}:
            if target.startswith('"'):
                return Mention(kind, target.strip('"'), text, is_raw)
            path = target.rstrip(_ENDINGS)
            typed = text[: len(text) - len(target) + len(path)]
            return Mention(kind, path, typed, is_raw)
        case {"cell": "cell", "number": number}:
            return Mention("cell", number or "", text, is_raw)
        case {"error": "error"}:
            return Mention("error", "", text, is_raw)
        case _:
            return Mention("variable", match["name"], text, is_raw)
