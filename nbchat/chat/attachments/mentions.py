"""What a message points at: `@df`, `@cell:3`, `@file:a.txt`, `@image:fig`, `@error`.

Only the text is read here; what a name stands for a `Resolver` knows. An address, a
decorator and what stands in backticks point at nothing.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from nbchat.conversation.entries import Entry

Kind = Literal["variable", "cell", "file", "image", "error"]

# A word before the @ makes an address of it; what follows a name may make it code.
_MENTION = re.compile(
    r"""(?<![\w@.+/\\-])@(?:
      (?P<kind>file|image):(?P<target>"[^"\n]*"|[^\s"]*)
    | (?P<cell>cell)(?::(?P<number>\w+))?(?!\w|[(@/]|[.:-]\w)
    | (?P<error>error)(?!\w|[(@/]|[.:-]\w)
    | (?P<name>[^\W\d]\w*)(?!\w|[(\[@/]|[.:-]\w)
    )""",
    re.VERBOSE,
)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_DEFINITION = re.compile(r"(?:def|class|async)\b")
_ENDINGS = ".,;:!?)]}'"


@dataclass(frozen=True, slots=True)
class Mention:
    """Something in the notebook that a message points at."""

    kind: Kind
    name: str
    """A variable, a path, or a cell's number; empty for the last cell or error."""
    text: str
    """As it was typed."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that was executed: its source, and what it showed as text."""

    number: int
    source: str
    output: str


class Resolver(Protocol):
    """What names stand for in the notebook in which a message is written."""

    @property
    def folder(self) -> Path:
        """Where relative paths begin."""

    def variables(self) -> Mapping[str, object]:
        """The person's variables as they are now."""

    def cell(self, number: int | None) -> Cell | None:
        """A cell by its number, or the last one; None when there is none."""

    def error(self) -> str:
        """The last traceback; empty when nothing has failed yet."""


def mentions(text: str) -> list[Mention]:
    """What a message points at, each thing once, in the order of the words."""
    if text.startswith("/"):  # a command
        return []
    said = _without_decorators(_CODE.sub(_blanked, text))
    found = (_mention(match) for match in _MENTION.finditer(said))
    return list({(each.kind, each.name): each for each in found}.values())


def not_mentioned(said: Entry, brought: Iterable[Entry]) -> list[Entry]:
    """What came with a message and is not what its words point at."""
    found = mentions(said.content)
    return [each for each in brought if not any(_is_of(each, one) for one in found)]


def _is_of(brought: Entry, mention: Mention) -> bool:
    """Whether an entry is what a mention stood for, as far as their names tell."""
    name = str(brought.arguments.get("name", ""))
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
    """The text without lines that begin with an @ and stand on a definition."""
    kept: list[str] = []
    is_decorated = False
    for line in reversed(text.split("\n")):
        code = line.lstrip()
        is_decorator = code.startswith("@") and is_decorated
        is_decorated = is_decorator or _DEFINITION.match(code) is not None
        kept.append("" if is_decorator else line)
    return "\n".join(reversed(kept))


def _mention(match: re.Match[str]) -> Mention:
    text = match[0]
    match match.groupdict():
        case {"kind": ("file" | "image") as kind, "target": target}:
            if target.startswith('"'):
                return Mention(kind, target.strip('"'), text)
            path = target.rstrip(_ENDINGS)
            return Mention(kind, path, text[: len(text) - len(target) + len(path)])
        case {"cell": "cell", "number": number}:
            return Mention("cell", number or "", text)
        case {"error": "error"}:
            return Mention("error", "", text)
        case _:
            return Mention("variable", match["name"], text)
