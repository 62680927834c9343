"""A failure: the message of an error and its frames.

They are read from the exception while the kernel has it, else from the text of a
traceback, as a saved notebook keeps it.
"""

import linecache
import re
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from traceback import walk_tb
from types import FrameType

from nbchat.chat.attachments.short_repr import attributes_of

MOST_LINES = 5_000
"""Lines of one source that are looked at: a cell has hundreds at most."""

CAUSES_SHOWN = 5

_COLOURS = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")
_CELL = re.compile(
    r"\s*(?:(?:Cell|Input) In ?\[(\d+)\], line |File <ipython-input-(\d+)-\w+>:)"
    r"(\d+)(?:, in (.+))?$"
)
_FILE = re.compile(r"File (.+?):(\d+)(?:, in (.+))?$")
_CELL_FILE = re.compile(r"[/\\]ipykernel_\d+[/\\]|^<ipython-input")
_PLAIN = re.compile(r'\s*File "(.+?)", line (\d+)(?:, in (.+))?$')
_NUMBERED = re.compile(r"(?:-+> ?)?\s*(\d+)(?: (.*))?$")
_CHAINED = re.compile(
    r"^(?:The above exception was the direct cause of|"
    r"During handling of the above exception, another).*$",
    re.MULTILINE,
)
_GROUP = re.compile(r"^ *\+ Exception Group Traceback", re.MULTILINE)
_BETWEEN = re.compile(r"^ *\+[-+]*-{4} (?:\d+|\.\.\.) -{4,}$", re.MULTILINE)
_BORDER = re.compile(r"^ *(?:\| ?|\+-*)", re.MULTILINE)
_LIBRARIES = ("site-packages", "dist-packages")

CellName = Callable[[str], str]
"""The name of the cell whose code was compiled under a file name; empty for others."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One level of a traceback."""

    place: str
    """The name of a cell, such as "cell [3]", or the path of a file."""
    line: int
    function: str = ""
    is_own: bool = False
    """True if the code is the person's: a cell, or a file outside of all packages."""
    source: tuple[tuple[int, str], ...] = ()
    """Numbered lines: all of a cell or file, or those that the traceback shows."""
    values: Mapping[str, object] = field(default_factory=dict, repr=False)
    """The variables of the frame, where the exception still has them."""

    @property
    def is_in_cell(self) -> bool:
        """True if this is the code of a cell."""
        return self.is_own and self.place.startswith("cell")


@dataclass(frozen=True, slots=True)
class Failure:
    """An error, and where it was raised."""

    message: str
    """Its type and its text."""
    frames: tuple[Frame, ...] = ()
    """From the outermost of the person's own code to the one that raised it."""
    causes: tuple["Failure", ...] = ()
    """The errors during whose handling it was raised, the nearest first."""
    parts: tuple["Failure", ...] = ()
    """The errors of a group."""
    text: str = ""
    """The text in which a parser found it."""
    position: int = 0
    """The character of the text."""


def failure_of(error: BaseException, cell_name: CellName) -> Failure:
    """The failure that an exception stands for."""
    causes = tuple(_failure(each, cell_name) for each in _causes(error))
    parts = tuple(_failure(each, cell_name) for each in _parts(error))
    return replace(_failure(error, cell_name), causes=causes, parts=parts)


def _failure(error: BaseException, cell_name: CellName) -> Failure:
    """The failure without those that led to it."""
    walked = walk_tb(error.__traceback__)
    frames = [_live_frame(frame, line, cell_name) for frame, line in walked]
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        frames.append(_frame(error.filename, error.lineno, "", cell_name))
    notes = getattr(error, "__notes__", ())
    message = "\n".join([error_message(error), *map(str, notes)])
    return replace(_parsed(error), message=message, frames=_from_own(frames))


def _parsed(error: BaseException) -> Failure:
    """The text and the position at which a parser failed, as json's and re's say."""
    known = attributes_of(error)
    text, at = known.get("doc", known.get("pattern")), known.get("pos")
    if type(text) is str and type(at) is int and 0 <= at <= len(text):
        return Failure("", text=text, position=at)
    return Failure("")


def failure_in(text: str, *, source: str = "", number: int = 0) -> Failure:
    """The failure described by the text of a traceback.

    `source` is the cell that it stands below, whose last run has this `number`.
    """
    first, *others = _told_parts(without_colours(text))
    *earlier, last = _CHAINED.split(first)
    causes, parts = (
        tuple(
            Failure(_told_message(each), _from_own(_told_frames(each)))
            for each in told[:CAUSES_SHOWN]
        )
        for told in (earlier[::-1], others)
    )
    frames = list(_told_frames(last))
    cell = next((each for each in frames if each.is_in_cell), None)
    number = number or (_cell_number(cell) if cell is not None else 0)
    frames = [  # a function of another cell has other lines
        _with_source(each, source)
        if _cell_number(each) == number and (number > 0 or not each.function)
        else each
        for each in frames
    ]
    if source and not any(each.source for each in frames):
        frames.append(_with_source(Frame("cell", 0, is_own=True), source))
    return Failure(_told_message(last), _from_own(frames), causes, parts)


def is_of(text: str, error: BaseException) -> bool:
    """True if a traceback's text is that of this exception, by its last lines."""
    plain, message = without_colours(text).rstrip(), error_message(error).rstrip()
    is_group = isinstance(error, BaseExceptionGroup)  # its parts come last
    return message in plain if is_group else plain.endswith(message)


def without_colours(text: str) -> str:
    """A text without the codes by which a terminal colours it."""
    return _COLOURS.sub("", text)


def error_message(error: BaseException) -> str:
    """The type of an error and its text, as the last line of a traceback has it."""
    try:
        text = str(error.msg if isinstance(error, SyntaxError) else error)
    except Exception:  # noqa: BLE001  # its class is the person's own
        text = "(its text cannot be read)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_own_file(path: str) -> bool:
    """True if a file is the person's: neither of a package nor of Python itself."""
    if path.startswith("<") or not path.endswith(".py"):
        return False
    library = sysconfig.get_path("stdlib")
    whole = Path(path).expanduser()
    return (
        whole.is_absolute()
        and not any(part in _LIBRARIES for part in whole.parts)
        and not whole.is_relative_to(library)
    )


def _live_frame(frame: FrameType, line: int, cell_name: CellName) -> Frame:
    name = frame.f_code.co_qualname.removeprefix("<module>")
    found = _frame(frame.f_code.co_filename, line, name, cell_name)
    if not found.is_own:
        return found
    return replace(found, values={**frame.f_globals, **frame.f_locals})


def _frame(path: str, line: int, function: str, cell_name: CellName) -> Frame:
    name = cell_name(path)
    if not name and not is_own_file(path):
        return Frame(path, line, function)
    lines = [each.rstrip("\n") for each in linecache.getlines(path)[:MOST_LINES]]
    return Frame(name or path, line, function, True, tuple(enumerate(lines, 1)))


def _with_source(frame: Frame, source: str) -> Frame:
    """A frame of a cell with all of its lines."""
    if not frame.is_in_cell:
        return frame
    lines = tuple(enumerate(source.splitlines()[:MOST_LINES], 1))
    return Frame(frame.place, frame.line, frame.function, True, lines)


def _from_own(frames: Iterable[Frame]) -> tuple[Frame, ...]:
    """Without those of the shell, which called the person's code."""
    kept = list(frames)
    first = next((n for n, each in enumerate(kept) if each.is_own), 0)
    return tuple(kept[first:])


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The errors from which one was raised."""
    seen = {id(error)}
    while len(seen) <= CAUSES_SHOWN:
        hidden = None if error.__suppress_context__ else error.__context__
        cause = error.__cause__ or hidden
        if cause is None or id(cause) in seen:
            return
        yield cause
        seen.add(id(cause))
        error = cause


def _parts(error: BaseException) -> list[BaseException]:
    """The first errors of a group, and of groups in it."""
    found = [error]
    while any(isinstance(each, BaseExceptionGroup) for each in found):
        inside = (
            each.exceptions if isinstance(each, BaseExceptionGroup) else (each,)
            for each in found
        )
        found = [each for some in inside for each in some][:CAUSES_SHOWN]
    return [each for each in found if each is not error]


def _told_parts(text: str) -> list[str]:
    """The traceback of a group, and those of its errors; of others the text alone."""
    if not _GROUP.search(text):
        return [text]
    return [_BORDER.sub("", each) for each in _BETWEEN.split(text)]


def _told_frames(text: str) -> Iterator[Frame]:
    """The frames of a traceback's text, each with the lines that are shown of it."""
    head: Frame | None = None
    lines: list[tuple[int, str]] = []
    for line in text.splitlines():
        if (found := _head(line)) is not None:
            yield from _told(head, lines)
            head, lines = found, []
        elif head is not None and (shown := _NUMBERED.match(line)):
            lines.append((int(shown[1]), shown[2] or ""))
        elif head is not None and line.startswith("    ") and not lines:
            lines.append((head.line, line.strip()))  # as Python itself prints it
    yield from _told(head, lines)


def _head(line: str) -> Frame | None:
    if found := _CELL.match(line):
        function = (found[4] or "").partition("(")[0]
        name = f"cell [{found[1] or found[2]}]"
        return Frame(name, int(found[3]), function, is_own=True)
    if found := _FILE.match(line) or _PLAIN.match(line):
        function = (found[3] or "").removeprefix("<module>").partition("(")[0]
        is_cell = _CELL_FILE.search(found[1]) is not None
        place = "cell" if is_cell else found[1]
        return Frame(place, int(found[2]), function, is_cell or is_own_file(place))
    return None


def _told(head: Frame | None, lines: list[tuple[int, str]]) -> Iterator[Frame]:
    if head is not None:
        shown = tuple(lines) if head.is_own else ()
        yield Frame(head.place, head.line, head.function, head.is_own, shown)


def _cell_number(frame: Frame) -> int:
    found = re.fullmatch(r"cell \[(\d+)\]", frame.place)
    return int(found[1]) if found else -1


def _told_message(text: str) -> str:
    """The text after the code of the last frame: the type of the error and its text."""
    lines = text.strip("\n").splitlines()
    first = max((n + 1 for n, each in enumerate(lines) if _head(each)), default=0)
    while first < len(lines) - 1 and _is_code(lines[first]):
        first += 1
    return "\n".join(lines[first:]).rstrip()


def _is_code(line: str) -> bool:
    return not line.strip() or line.startswith(" ") or bool(_NUMBERED.match(line))
