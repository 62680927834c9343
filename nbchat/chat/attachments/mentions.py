"""Find mentions in a message: `@df`, `@df.amount`, `@cell:3`, `@file:a.txt`, `@error`.

`@cell:3` is the third cell of the notebook, `@cell:[3]` the one that was run as [3].

`@!` in place of `@` attaches a thing with what looks like a secret. Only the text is
read here; a `Resolver` looks up what a name refers to. E-mail addresses, decorators and
code in backticks are not mentions.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal, Protocol

from nbchat.conversation.entries import Entry, Span

Kind = Literal["variable", "cell", "file", "image", "error", "upload"]

_UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u11ff\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff"
    r"\uff66-\uffdc\U00020000-\U0003ffff"
)
"""Letters of scripts that are written without spaces: Chinese, Japanese, Korean (whose
particles follow a name at once), Thai, Lao, Khmer and Burmese."""

# A word before the @ makes it an address; some characters after the name, code.
_MENTION = re.compile(
    rf"""(?<![@.+/\\-])(?:(?<!\w)|(?<=[{_UNSPACED}]))[@\uff20](?P<raw>!)?(?:
      (?P<kind>file|image)[:\uff1a](?P<target>"[^"\n]*"|[^\s"]*)
    | (?P<cell>cell)(?:[:\uff1a](?P<number>[A-Za-z0-9_]+|\[\d+\]))?
        (?![A-Za-z0-9_(@/]|[.:-][A-Za-z0-9_])
    | (?P<error>error)(?![A-Za-z0-9_(@/]|[.:-][A-Za-z0-9_])
    | (?P<name>(?>[^\W\d]\w*
        (?:\.[^\W\d]\w*|\[(?:[^\[\]\n]|\[[^\[\]\n]*\]){{1,200}}\])*))
        (?![(\[/]|(?<![{_UNSPACED}])@|[.:-][A-Za-z0-9_])
    )""",
    re.VERBOSE,
)
_BASE = re.compile(r"[^\W\d]\w*")
_TAIL = re.compile(rf"(?<=[\w])(?<![{_UNSPACED}])[{_UNSPACED}]\w*$")
"""The text after a name that is written in other letters."""

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_DEFINITION = re.compile(r"(?:def|class|async)\b")
_ENDINGS = ".,;:!?)]}'"
_WIDE_ENDINGS = (
    "\u3001\u3002\u300d\u300f\u3011\u300b"
    "\u201d\u2019\uff01\uff09\uff0c\uff1a\uff1b\uff1f"
)
"""Punctuation after which no space is written."""

PATHS_TRIED = 80
"""Beginnings of a text that are looked for as paths."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A reference to something in the notebook."""

    kind: Kind
    name: str
    """A variable, a path, or a cell's position; empty for the last cell or error.

    In brackets it is the number of the cell's run.
    """
    text: str
    """As it was typed."""
    is_raw: bool = False
    """True if it is attached with its secrets, as in `@!config`."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: its source, and its output as text."""

    number: int
    """The number of its run, or its position."""
    source: str
    output: str
    is_position: bool = False


class Resolver(Protocol):
    """Looks up names in the notebook in which a message is written."""

    @property
    def folder(self) -> Path:
        """The folder to which paths are relative."""

    def variables(self) -> Mapping[str, object]:
        """The user's variables as they are now."""

    def cell(self, number: int | None) -> Cell | None:
        """A cell by the number of its run, or the last one; None for none."""

    def cell_at(self, position: int) -> Cell | None:
        """A cell by its position; None where the notebook's page does not tell it."""

    def error(self, shown: str = "", source: str = "") -> str:
        """The last error as it is sent; empty if no cell has failed yet.

        With `shown` it is the error of this traceback, of a cell with this `source`.
        """


def mentions(
    text: str, resolver: Resolver | None = None, *, pasted: Iterable[Span] = ()
) -> list[Mention]:
    """The mentions in a text, each once, in their order.

    Mentions in `pasted` parts do not count: others may have written them. With a
    resolver a name ends where that of a variable or a file does, so that no space must
    follow it.
    """
    if text.startswith("/"):  # a command
        return []
    for start, stop in pasted:
        text = text[:start] + " " * (stop - start) + text[stop:]
    prose = _without_decorators(_CODE.sub(_blanked, text))
    found = [_mention(match) for match in _MENTION.finditer(prose)]
    if resolver is not None:
        found = [_to_known(each, resolver) for each in found]
    return list({(each.kind, each.name, each.is_raw): each for each in found}.values())


def not_mentioned(message: Entry, attached: Iterable[Entry]) -> list[Entry]:
    """Attachments of a message that its text does not mention."""
    found = mentions(message.content, pasted=message.pasted)
    return [each for each in attached if not any(_is_of(each, one) for one in found)]


def _to_known(mention: Mention, resolver: Resolver) -> Mention:
    """The mention with the longest name that a variable or a file has."""
    name, known = mention.name, mention.name
    if mention.kind == "variable":
        known = _known_name(name, resolver.variables())
    elif mention.kind in ("file", "image") and not mention.text.endswith('"'):
        known = _known_path(name, resolver.folder)
    left_out = len(name) - len(known)
    text = mention.text[: len(mention.text) - left_out]
    return replace(mention, name=known, text=text) if left_out else mention


def _known_name(name: str, variables: Mapping[str, object]) -> str:
    base = _BASE.match(name)
    whole = base[0] if base else name
    if whole in variables:
        return name if whole == name else _TAIL.sub("", name)
    for end in range(len(whole) - 1, 0, -1):
        if whole[:end] in variables and is_unspaced(whole[end]):
            return whole[:end]
    return name


def _known_path(target: str, folder: Path) -> str:
    """The longest beginning that is a file; else what precedes the punctuation."""
    ends = (n for n, each in enumerate(target) if not each.isascii() or each in ",;:")
    for end in (len(target), *sorted(islice(ends, PATHS_TRIED), reverse=True)):
        if end and is_file_in(folder, target[:end].rstrip(_ENDINGS)):
            return target[:end].rstrip(_ENDINGS)
    return re.split(f"[{_WIDE_ENDINGS}]", target, maxsplit=1)[0]


def is_file_in(folder: Path, name: str) -> bool:
    """True if a folder has a file of this name, or at this path."""
    try:
        return (folder / name).is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def is_unspaced(character: str) -> bool:
    """True if this is a letter of a script that is written without spaces."""
    return re.match(f"[{_UNSPACED}]", character) is not None


def _is_of(attached: Entry, mention: Mention) -> bool:
    """True if an entry was attached by a mention, judging by their names."""
    name = str(attached.arguments.get("name", ""))
    match mention.kind:
        case "cell" if not mention.name:
            return name.startswith("cell ")
        case "cell":
            return name == f"cell {mention.name}"
        case "error":
            return name == "error"
        case _:
            rest = mention.name.removeprefix(name)
            is_begun = bool(name and rest) and not rest[0].isascii()
            return name == mention.name or (is_begun and rest != mention.name)


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
            path = target.rstrip(_ENDINGS + _WIDE_ENDINGS)
            typed = text[: len(text) - len(target) + len(path)]
            return Mention(kind, path, typed, is_raw)
        case {"cell": "cell", "number": number}:
            return Mention("cell", number or "", text, is_raw)
        case {"error": "error"}:
            return Mention("error", "", text, is_raw)
        case _:
            return Mention("variable", match["name"], text, is_raw)
