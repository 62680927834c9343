"""Describe an error with all that is needed to fix it, in at most 1,500 tokens.

The cell and the person's own functions are shown as code, a library's frames as one
line each. Then follow the values that the failing lines name, names like a missing one,
the folder of a missing file, and the versions of the packages that were involved. No
code of the person runs: values are read as for any attachment.
"""

import ast
import builtins
import difflib
import os
import pkgutil
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, groupby, islice
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from nbchat.chat.attachments.attachments import part_of
from nbchat.chat.attachments.failures import Failure, Frame
from nbchat.chat.attachments.mentions import is_file_in
from nbchat.chat.attachments.short_repr import (
    attributes_of,
    cell,
    comes_from,
    is_frame,
)
from nbchat.chat.attachments.table_preview import table_lines
from nbchat.chat.attachments.text_decoding import decoded
from nbchat.chat.attachments.value_preview import describe_value
from nbchat.conversation.live_variables import (
    TEXT_SHOWN,
    is_fit,
    remembered_variables,
    type_name,
)
from nbchat.conversation.secret_masking import HIDDEN, is_secret_name
from nbchat.errors import AttachmentError
from nbchat.providers.tokens import TokenCounter

REPORT_TOKENS = 1_500

SCALES = (1.0, 0.7, 0.5, 0.3, 0.15, 0.05)
"""Shares of the limits below, tried until the report is short enough."""

MESSAGE_SHOWN, CODE_SHOWN, CALLS_SHOWN = 1_500, 3_000, 16
"""Characters of the message and of all code, and a library's frames in a row."""

VALUES_SHOWN, VALUE_SHOWN, FIRST_VALUES = 14, 300, 6
"""Values that the failing lines name, characters of each, and values of a column."""

FILES_SHOWN, FILES_LOOKED_AT, FILE_LINES, FILE_BYTES = 25, 2_000, 4, 65_536

NEAR_SHOWN, NEAR = 5, 0.7
"""Names that are like a missing one, and how like they are: difflib's ratio."""

_QUOTED = re.compile(r"""'([^'\n]{1,200})'|"([^"\n]{1,200})"|`([^`\n]{1,200})`""")
_NO_FILE = re.compile(r"no such file|does not exist|not found", re.IGNORECASE)
_LINE = re.compile(r"\blines? (\d+)")
_LIBRARY = re.compile(r"(?:site|dist)-packages[/\\]|[/\\]lib[/\\]python[^/\\]*[/\\]")
_PACKAGE = re.compile(r"(?:site|dist)-packages[/\\](\w+)")

Values = Mapping[str, object]

Named = tuple[str, object, object]
"""How a line names a value, the value, and the table whose column it is, or None."""


def error_report(failure: Failure, values: Values, folder: Path) -> str:
    """The text that is sent of an error; `values` and `folder` are the kernel's now."""
    counter = TokenCounter()
    for scale in SCALES:
        report = _Report(failure, values, folder, scale).text()
        if counter.count(report) <= REPORT_TOKENS:
            return report
    return report[:REPORT_TOKENS]  # a character is at most about a token


class _Report:
    """The parts of one report, each as long as the scale allows."""

    def __init__(
        self, failure: Failure, values: Values, folder: Path, scale: float
    ) -> None:
        self._failure = failure
        self._folder = folder
        self._scale = scale
        others = [each for each in failure.causes if each.message != failure.message]
        self._others = {"raised from": others, "in the group": failure.parts}
        frames = [each.frames for some in self._others.values() for each in some]
        own = chain(failure.frames, *frames)
        self._own = [each for each in own if each.is_own]
        self._shown: set[tuple[bool, str, str]] = set()
        """Places whose code is in the report."""
        innermost = {(each.place, each.line): each for each in self._own}
        self._named = [
            named
            for frame in reversed(innermost.values())
            for named in _named(frame, frame.values or values)
        ]
        self._all = {**values}
        for frame in self._own:
            self._all |= frame.values

    def text(self) -> str:
        """The whole report."""
        parts = (
            [_middle_out(self._failure.message, self._limit(MESSAGE_SHOWN))],
            self._around(),
            self._code(self._failure.frames),
            *self._led_here(),
            _headed("Values that these lines name:", self._values()),
            _headed("Similar names:", self._near()),
            self._files(),
            self._contents(),
            _headed("Versions:", [self._versions()]),
        )
        return "\n\n".join("\n".join(each) for each in parts if each)

    def _limit(self, most: int) -> int:
        return max(int(most * self._scale), 1)

    def _around(self) -> list[str]:
        """The text around the place at which a parser has failed."""
        texts = (self._failure, *self._failure.causes)
        failed = next((each for each in texts if each.text), None)
        if failed is None:
            return []
        half, at = self._limit(VALUE_SHOWN) // 2, failed.position
        before, after = failed.text[max(at - half, 0) : at], failed.text[at : at + half]
        where = f"character {at:,} of {len(failed.text):,}"
        return [
            f"The text that was parsed, [here] is {where}:",
            f"{before}[here]{after}",
        ]

    def _led_here(self) -> Iterator[list[str]]:
        """Errors from which this one was raised, or of its group, with own code."""
        for how, some in self._others.items():
            for each in some:
                told = _middle_out(f"{how}: {each.message}", self._limit(VALUE_SHOWN))
                yield [told, *self._code([f for f in each.frames if f.is_own])]

    def _code(self, frames: Sequence[Frame]) -> list[str]:
        """The frames in their order: own code as code, the others as their places."""
        lines: list[str] = []
        for _, run in groupby(frames, _shown_with):
            some = list(run)
            lines += self._own_code(some) if some[0].is_own else map(_place, some)
        return self._without_repeats(lines)

    def _own_code(self, frames: Sequence[Frame]) -> Iterator[str]:
        """The code of one place, with each line marked at which a call was."""
        functions = dict.fromkeys(each.function for each in frames if each.function)
        inside = f", in {', '.join(functions)}" if functions else ""
        yield f"{frames[0].place}{inside}:"
        marked = {each.line for each in frames}
        source: Sequence[tuple[int, str]] = frames[0].source
        if functions and not frames[0].is_in_cell:
            source = _function_around(source, marked)
        if (place := _shown_with(frames[0])) in self._shown:
            source = [each for each in source if each[0] in marked]
        self._shown.add(place)
        yield from _numbered(source, marked, self._limit(CODE_SHOWN))

    def _without_repeats(self, lines: Sequence[str]) -> list[str]:
        """Without the middle of many frames, as a recursion leaves."""
        kept: list[str] = []
        most = self._limit(CALLS_SHOWN)
        for is_call, run in groupby(lines, lambda line: line.startswith("  at ")):
            some = list(run)
            if is_call and len(some) > most:
                left_out = len(some) - 2 * (most // 2)
                middle = f"  … {left_out:,} more calls …"
                some = [*some[: most // 2], middle, *some[len(some) - most // 2 :]]
            kept += some
        return kept

    def _values(self) -> list[str]:
        """A line for each value, each of its name once."""
        lines: dict[str, None] = {}
        for name, value, of in self._named:
            if (line := _described(name, value, of)) and len(lines) < VALUES_SHOWN:
                lines[_middle_out(line, self._limit(VALUE_SHOWN))] = None
        return list(lines)

    def _near(self) -> list[str]:
        """Names that are like those which the message quotes and that do not exist."""
        message = self._failure.message
        kind = message.partition(":")[0]
        found = []
        quoted_names = _quoted(message)
        if kind == "AttributeError":  # the first one is the type
            quoted_names = quoted_names[-1:]
        for quoted in quoted_names:
            for owner, known in self._known(kind):
                if quoted in known:
                    continue
                if near := difflib.get_close_matches(quoted, known, NEAR_SHOWN, NEAR):
                    found.append(f"{quoted!r}, {owner}: {', '.join(near)}")
        return found[:NEAR_SHOWN]

    def _known(self, kind: str) -> Iterator[tuple[str, list[str]]]:
        """The names that exist, by what has them."""
        if kind == "NameError":
            yield "variables", [*self._all, *dir(builtins)]
        if kind == "ModuleNotFoundError":
            names = (each.name for each in pkgutil.iter_modules())
            yield "installed", [*names, *sys.stdlib_module_names]
        if kind == "ImportError":
            for quoted in _quoted(self._failure.message):
                if (module := sys.modules.get(quoted)) is not None:
                    yield f"in {quoted}", _texts(vars(module))
        for name, value in {name: value for name, value, _ in self._named}.items():
            if known := _names_in(value, is_attribute=kind == "AttributeError"):
                yield f"in {name}", known

    def _files(self) -> list[str]:
        """The folder in which a file is missing, the most similar names first."""
        missing = self._missing_file()
        if not missing:
            return []
        path = self._folder / missing
        parent = next(each for each in path.parents if each.is_dir())
        names = sorted(_listed(parent))
        near = difflib.get_close_matches(path.name, names, NEAR_SHOWN, 0.5)
        first = [*near, *(each for each in names if each not in near)]
        shown = first[: self._limit(FILES_SHOWN)]
        more = [f"and {len(names) - len(shown):,} more"] * (len(names) > len(shown))
        lines = [f"Working folder: {self._folder}", f"Files in {parent}:"]
        lines.append(", ".join([*shown, *more]) or "(none)")
        if near:
            lines.append(f"Similar names: {', '.join(near)}")
        if elsewhere := _elsewhere(self._folder, path.name):
            lines.append(f"The same name: {', '.join(elsewhere)}")
        return lines

    def _missing_file(self) -> str:
        """The path in the message, else one in the line; empty if none is missing."""
        message = self._failure.message
        if not message.startswith("FileNotFoundError") and not _NO_FILE.search(message):
            return ""
        named = [*reversed(_quoted(message)), *self._paths()]
        is_path = (each for each in named if "." in each or "/" in each)
        return next(
            (each for each in is_path if not is_file_in(self._folder, each)), ""
        )

    def _contents(self) -> list[str]:
        """How a file begins that a failing library was given, and a line it names."""
        frames = self._failure.frames
        if not frames or frames[-1].is_own:
            return []
        found = [each for each in self._paths() if is_file_in(self._folder, each)]
        told = [int(each) for each in _LINE.findall(self._failure.message)]
        return [
            _middle_out(each, 2 * self._limit(VALUE_SHOWN))
            for path in dict.fromkeys(found)
            for each in _beginning(self._folder / path, told)
        ]

    def _paths(self) -> list[str]:
        """Texts in the failing lines, and texts and paths that they name."""
        named = [v for _, v, _ in self._named if isinstance(v, str | Path)]
        constants = [text for frame in self._own for text in _constants(_node(frame))]
        return [str(each) for each in (*constants, *named)]

    def _versions(self) -> str:
        """Python, and the packages of the frames and of the values."""
        places = (each.place for each in self._failure.frames)
        told = "\n".join([*places, self._failure.message])
        modules = [found[1] for found in _PACKAGE.finditer(told)]
        for _, value, _ in self._named:
            kind = type(value)
            name = value.__name__ if isinstance(value, ModuleType) else type_name(kind)
            modules.append(str(name).partition(".")[0])
        found = {each: _version(each) for each in modules}
        named = (f"{name} {number}" for name, number in found.items() if number)
        where = [sys.executable] * self._failure.message.startswith("ModuleNotFound")
        return ", ".join([f"Python {platform.python_version()}", *where, *named])


def _headed(head: str, lines: Sequence[str]) -> list[str]:
    return [head, *lines] if lines else []


def _shown_with(frame: Frame) -> tuple[bool, str, str]:
    """The key that adjacent frames share to be shown as one code."""
    return frame.is_own, frame.place, "" if frame.is_in_cell else frame.function


def _place(frame: Frame) -> str:
    """A library's frame in one line, its path from the package on."""
    path = _LIBRARY.split(frame.place)
    inside = f" in {frame.function}" if frame.function else ""
    return f"  at {path[-1]}:{frame.line}{inside}"


def _numbered(
    source: Sequence[tuple[int, str]], marked: set[int], most: int
) -> Iterator[str]:
    """Numbered lines around those that are marked, as many characters as fit."""
    middle = [n for n, (line, _) in enumerate(source) if line in marked] or [0]
    order = sorted(range(len(source)), key=lambda n: min(abs(n - m) for m in middle))
    spent, kept = 0, set[int]()
    for n in order:
        spent += len(source[n][1]) + 8
        if kept and spent > most:
            break
        kept.add(n)
    for n in sorted(kept):
        if n - 1 not in kept and n:
            yield "  …"
        line, text = source[n]
        yield f"{'>' if line in marked else ' '} {line:>3}  {_middle_out(text, most)}"
    if kept and max(kept) < len(source) - 1:
        yield "  …"


def _function_around(
    source: Sequence[tuple[int, str]], marked: set[int]
) -> Sequence[tuple[int, str]]:
    """The function of a file that has the marked lines; all of it if none has."""
    try:
        tree = ast.parse("\n".join(text for _, text in source))
    except (SyntaxError, ValueError, RecursionError):
        return source
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            lines = _lines_of(node)
            if all(each in lines for each in marked):
                return [each for each in source if each[0] in lines]
    return source


def _named(frame: Frame, values: Values) -> list[Named]:
    """Values that a frame's statement names: variables, columns, parts of values."""
    node = _node(frame)
    if node is None:
        return []
    names = dict.fromkeys(e.id for e in ast.walk(node) if isinstance(e, ast.Name))
    found = [(name, values[name], None) for name in names if name in values]
    columns = [*_columns(found, _constants(node))]
    parts = (e for e in ast.walk(node) if isinstance(e, ast.Attribute | ast.Subscript))
    texts = dict.fromkeys(map(ast.unparse, parts))
    read = [(text, _part(text, values), None) for text in texts]
    known = {each[0] for each in columns}
    others = [each for each in read if each[1] is not None and each[0] not in known]
    return [*found, *columns, *others]


def _columns(found: Sequence[Named], constants: Iterable[str]) -> Iterator[Named]:
    """The columns that texts in a line name, or variables in it, of its tables."""
    texts = [*constants, *(value for _, value, _ in found if type(value) is str)]
    for name, value, _ in found:
        for column in _columns_in(value, texts):
            yield f"{name}[{column!r}]", value[column], value  # type: ignore[index]


def _part(text: str, values: Values) -> object | None:
    """The value of a reference such as `self.rates[0]`, where it can be read."""
    try:
        return part_of(text, values)
    except (AttachmentError, KeyError):
        return None


def _columns_in(value: object, texts: Iterable[str]) -> Iterator[str]:
    """The columns of a table that a line names."""
    if is_frame(value):
        known = list(islice(value.columns, 1_000))  # type: ignore[attr-defined]
        named = dict.fromkeys(each for each in texts if each in known)
        yield from (each for each in named if known.count(each) == 1)


def _node(frame: Frame) -> ast.AST | None:
    """The innermost statement at a frame's line, without its body."""
    source = frame.source
    texts = ["\n".join(text for _, text in source)]
    texts += [text.strip() for line, text in source if line == frame.line]
    for at, text in enumerate(texts):
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        first = source[0][0] if at == 0 and source else frame.line
        return _statement(tree, frame.line - first + 1)
    return None


def _statement(tree: ast.AST, line: int) -> ast.AST | None:
    found: ast.stmt | None = None
    for node in ast.walk(tree):  # from the outside to the inside
        if isinstance(node, ast.stmt) and line in _lines_of(node):
            found = node
    if found is None or not hasattr(found, "body"):
        return found
    head = [
        each
        for name, each in ast.iter_fields(found)
        if name not in ("body", "orelse", "finalbody", "handlers", "cases")
    ]
    flat = [e for each in head for e in (each if isinstance(each, list) else [each])]
    kept: list[Any] = [each for each in flat if isinstance(each, ast.expr)]
    kept += [e.context_expr for e in flat if isinstance(e, ast.withitem)]
    return ast.Tuple(kept, ast.Load())


def _lines_of(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _constants(node: ast.AST | None) -> list[str]:
    """The texts that are written in a statement."""
    found = ast.walk(node) if node is not None else ()
    values = (each.value for each in found if isinstance(each, ast.Constant))
    return [value for value in values if type(value) is str]


def _described(name: str, value: object, of: object) -> str:
    """One line: type and shape, and of a column or an array what is in it."""
    base = re.split(r"[.\[]", name, maxsplit=1)[0]
    if isinstance(value, FunctionType):
        return f"- {name}: function {_signature(value)}"
    if not is_fit(base, value):
        return ""
    if of is not None and is_secret_name(name.partition("[")[2].strip("]'")):
        return f"- {name}: {type_name(type(value))}, {HIDDEN}"
    if not is_frame(value) and not is_secret_name(base):
        if (table := table_lines(value)) is not None:
            return f"- {name}: {_column(value, table)}"
        if comes_from(type(value), "numpy"):
            return f"- {name}: {_array(describe_value(value).splitlines())}"
    line = remembered_variables({name: value}, names=[name])[0]
    plain = {k: v for k, v in attributes_of(value).items() if _is_plain(v)}
    told = remembered_variables({name: plain}, names=[name])[0] if plain else ""
    return line + told.partition(" items")[2]


def _is_plain(value: object) -> bool:
    """True for an object's attribute that is shown with it."""
    if type(value) is str:
        return 0 < len(value) <= TEXT_SHOWN and value.isprintable()
    return type(value) in (int, float, bool)


def _array(lines: Sequence[str]) -> str:
    """The shape of an array, and the range or the first ones of its values."""
    shown = [each for each in lines[:3] if not each.endswith(":")]
    return "; ".join(shown[:2])


def _column(value: object, table: Sequence[str]) -> str:
    """The figures of a series, with its first values, in one line."""
    summary = next((each for each in table if each.startswith("- ")), "")
    known = summary.partition(": ")[2].partition("; ")[2]
    if not comes_from(type(value), "pandas", "polars"):
        return f"{table[0]}; {known}"
    first = islice(value, FIRST_VALUES)  # type: ignore[call-overload]
    return f"{table[0]}; {known}; first {', '.join(map(cell, first))}"


def _signature(function: FunctionType) -> str:
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return f"({', '.join(names)})"


def _names_in(value: object, *, is_attribute: bool) -> list[str]:
    """The names by which parts of a value are reached."""
    if type(value) is ModuleType:
        return _texts(vars(value)) if is_attribute else []
    names: list[str] = []
    if type(value) is dict:
        names += _texts(islice(value, 1_000))
    elif is_frame(value):
        names += _texts(islice(value.columns, 1_000))  # type: ignore[attr-defined]
    elif table_lines(value) is not None and hasattr(value, "index"):
        names += _texts(islice(value.index, 1_000))
    if is_attribute:
        kinds = type.__dict__["__mro__"].__get__(type(value))
        names += [each for kind in kinds for each in _texts(vars(kind))]
    return names


def _texts(names: Iterable[object]) -> list[str]:
    return [each for each in names if type(each) is str]


def _quoted(message: str) -> list[str]:
    """The texts in quotes, and those in them: a KeyError quotes its whole message."""
    found = ["".join(each) for each in _QUOTED.findall(message)]
    found += [inner for each in found for inner in _quoted(each)]
    return list(dict.fromkeys(each for each in found if len(each) > 1))


def _listed(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for each in islice(entries, FILES_LOOKED_AT):
                if not each.name.startswith("."):
                    yield f"{each.name}/" if each.is_dir() else each.name
    except OSError:
        return


def _elsewhere(folder: Path, name: str) -> list[str]:
    """Files of this name in the folders below."""
    found = []
    for n, (above, folders, names) in enumerate(os.walk(folder)):
        folders[:] = [each for each in folders if not each.startswith(".")]
        found += [str(Path(above, name).relative_to(folder))] * (name in names)
        if n > FILES_LOOKED_AT // 10 or len(found) >= NEAR_SHOWN:
            break
    return found


def _beginning(path: Path, lines_named: Iterable[int]) -> Iterator[str]:
    """The first lines of a file, its encoding, and lines that the message names."""
    try:
        with path.open("rb") as file:
            text, note = decoded(file.read(FILE_BYTES))
    except (OSError, ValueError):
        return
    lines = text.splitlines()
    noted = f" ({note})" if note else ""
    yield f"{path.name}, {path.stat().st_size:,} bytes{noted}, begins:"
    yield "\n".join(lines[:FILE_LINES])
    for number in lines_named:
        if FILE_LINES < number <= len(lines):
            yield f"line {number}: {lines[number - 1]}"


def _version(module: str) -> str:
    """The version of a package; empty for parts of Python."""
    if module in sys.stdlib_module_names or module == "__main__":
        return ""
    known = (
        vars(sys.modules[module]).get("__version__") if module in sys.modules else ""
    )
    if type(known) is str and known:
        return known
    try:
        return version(module)
    except (PackageNotFoundError, ValueError):
        return ""


def _middle_out(text: str, most: int) -> str:
    """A text of at most about so many characters, without its middle."""
    missing = len(text) - most
    if missing <= 0:
        return text
    begins, ends = most * 2 // 3, most // 3
    return f"{text[:begins]} … {text[len(text) - ends :]}"
