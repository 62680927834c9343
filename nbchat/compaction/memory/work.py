"""The names that cells, queries and commands define, use and show, copied from calls.

A notebook goes on by names: variables, columns, files, thresholds. They are read from
the arguments of calls, whatever the tools are called: Python by its grammar, SQL and
shells by their tokens. From outputs come the columns of tables and the last error.
Nothing is run. Code in a file defines no variables, only functions and classes.
"""

import ast
import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, takewhile
from typing import Any

from nbchat.compaction.memory.lines import Call, Line
from nbchat.compaction.results import headers
from nbchat.conversation.entries import Fact

LINE_LENGTH = 88
"""Characters of a copied line: code that Black formats is no longer than this."""

VALUE_LENGTH = 60
"""Characters of a value; a longer text is a sentence, and not what is looked up."""

LONGEST_READ = 100_000
"""Characters that are read of a text: of a longer one its beginning and its end."""

LONGEST_ROW = 1_000
"""Characters of an output's line that may be a row of a table."""

MOST_KEPT = 500
"""Things of a kind: at ten tokens each more than a memory has room for."""

MOST_TEXTS = 50
"""Texts that are read of one call, and names that are read of one output."""

LEAST_TEXT, LEAST_NUMBER = 3, 10
"""Characters of a text and size of a whole number that stand for themselves; words of
two letters are signs and units, numbers of one digit count and index."""

LEAST_NAMED = 3
"""The smallest whole number that is kept with its name: 0, 1 and 2 are switches."""

DEFINED = "Defined by cells and queries:"
FAILED = "Written in calls that failed:"
ANSWERED = "Written in answers; it may never have run:"
SHOWN = "Columns and values that outputs show:"
PLACES = "Files, tables and addresses:"
LITERALS = "Values named in calls:"
ERROR = "Last error:"


@dataclass(frozen=True, slots=True)
class _Kept:
    """A thing that is kept, with its first and its last place in the transcript."""

    text: str
    facts: tuple[Fact, ...]
    first: int
    last: int
    names: tuple[str, ...] = ()
    is_last: bool = False
    """True if other statements changed the same before it."""


_Table = dict[str, _Kept]
"""Kept values by their keys, the newest last."""


@dataclass(slots=True)
class _Reading:
    """The contents of the code of one call."""

    known: frozenset[str] = frozenset()
    """Variables: `df.shape` is not a file if `df` is one."""
    definitions: dict[str, _Kept] = field(default_factory=dict)
    called: dict[str, _Kept] = field(default_factory=dict)
    """Variables, and the newest statement that called a method for its effect alone."""
    deleted: list[str] = field(default_factory=list)
    literals: dict[str, str] = field(default_factory=dict)
    """Pieces of the code, and the value that each names."""
    places: dict[str, str] = field(default_factory=dict)
    """Files, tables and addresses, and which of these each is."""
    shown: list[str] = field(default_factory=list)
    """The content of the output, as far as the code says it."""
    position: int = 0
    shows_nothing: bool = True
    """True if the value of the last statement is not shown either."""

    def define(self, target: str, statement: Sequence[str], *, changes: bool) -> None:
        """Note the statement that gives a name its value, or changes it."""
        target, first = _plain(target), _copied(statement[0])[: LINE_LENGTH - 1]
        text = _cut(" ".join(map(_plain, statement)))
        if not (target and first and len(target) <= LINE_LENGTH) or target == "_":
            return
        facts = (Fact(target, "defined", first, self.position),)
        kept = _Kept(text, facts, self.position, self.position, (target,))
        if not changes:
            self.called.pop(_key(target), None)
            self.definitions.pop(_key(target) + CHANGED, None)
        _put_last(self.definitions, _key(target) + CHANGED * changes, kept)

    def call(self, variable: str, statement: Sequence[str]) -> None:
        """Note a statement that is there for its effect on a variable."""
        text = _cut(" ".join(map(_plain, statement)))
        kept = _Kept(text, (), self.position, self.position, (variable,))
        _put_last(self.called, variable, kept)

    def add_literal(self, piece: str, value: str = "") -> None:
        """Note a piece of code that names a value."""
        is_line = 0 < len(piece) <= LINE_LENGTH and _copied(piece) == piece
        if is_line and len(self.literals) < MOST_KEPT:
            self.literals.setdefault(piece, _plain(value) or piece)

    def add_place(self, place: str, kind: str) -> None:
        """Note a file, a table or an address."""
        if place and _copied(place) == place and len(self.places) < MOST_KEPT:
            self.places.setdefault(place, kind)


NO_OUTPUT = "no output"
"""What the notebook's tools return of a cell that shows nothing."""

CHANGED = " (changed)"
"""Ends the key of a statement that only changes what its target holds already."""


class Work:
    """The newest definitions, columns, files and values, and the last error."""

    def __init__(self) -> None:
        self._defined: _Table = {}
        self._called: _Table = {}
        """What may have changed a variable in place since it was defined."""
        self._failed: _Table = {}
        self._answered: _Table = {}
        """Code of answers, by its pieces."""
        self._shown: _Table = {}
        self._places: _Table = {}
        self._literals: _Table = {}
        self._error: tuple[str, _Kept] | None = None
        """The code that was run, and its error."""

    def read_call(self, call: Call) -> None:
        """Read what a call's code says, and what its output shows."""
        texts = list(islice(_texts(call.arguments), MOST_TEXTS))
        known = frozenset(map(_root, self._defined))
        result = _bounded(call.result)
        silent = result.rsplit("\n", 1)[-1].strip("() ") in ("", NO_OUTPUT)
        reading = _Reading(known, position=call.position, shows_nothing=silent)
        _read_arguments(texts, reading)
        error = _error(result, is_error=call.is_error)
        has_failed = bool(error) or call.has_failed
        if has_failed:
            self._keep_done([_done(text, result) for text in texts], reading)
        self._keep_definitions(reading, has_failed=has_failed)
        self._keep_named(reading, call.tool)
        self._keep_error(error, call, _first_line(texts))
        if call.result_position is not None and not has_failed:
            self._keep_shown(reading, result, call.result_position)

    def read_answer(self, text: str, position: int) -> None:
        """Read the code in an answer: a person may have run it."""
        for code in map(_bounded, islice(_code_blocks(text), MOST_TEXTS)):
            reading = _Reading(frozenset(map(_root, self._defined)), position=position)
            _read_arguments([code], reading)
            for key, kept in reading.definitions.items():
                _put(self._answered, key, kept)
            written = "\n".join(each.text for each in reading.definitions.values())
            for piece in (*reading.places, *reading.literals):
                if piece not in written:
                    fact = Fact("", "literal", piece, position)
                    kept = _Kept(piece, (fact,), position, position, (piece,))
                    _put(self._answered, piece, kept)

    def lines(self) -> list[Line]:
        """The lines of each kind, oldest first."""
        error = [self._error[1]] if self._error else []
        return [
            *self._definitions(),
            *_lines(self._failed.values(), FAILED, weight=1),
            *_packed(self._unrun(), ANSWERED, weight=1),
            *_lines(self._shown.values(), SHOWN, weight=2),
            *_packed(self._unwritten(self._places), PLACES, weight=2),
            *_packed(self._unwritten(self._literals), LITERALS, weight=1),
            *_lines(error, ERROR, weight=3),
        ]

    def _keep_done(self, texts: Sequence[str], reading: _Reading) -> None:
        """Keep what a failed call defined before its error: that is in force."""
        done = _Reading(reading.known, position=reading.position)
        _read_arguments([text for text in texts if text], done)
        self._keep_definitions(done, has_failed=False)
        for key, kept in done.definitions.items():
            if reading.definitions.get(key) == kept:
                del reading.definitions[key]

    def _keep_definitions(self, reading: _Reading, *, has_failed: bool) -> None:
        if has_failed:
            for key, kept in reading.definitions.items():
                _put(self._failed, key, kept)
            return
        for key in chain(reading.deleted, reading.definitions):
            self._failed.pop(key, None)
            self._answered.pop(key, None)
        for key, kept in reading.definitions.items():
            self._defined.pop(key + CHANGED, None)
            self._called.pop(key, None)
            if not key.endswith(CHANGED):
                self._drop_parts(key)
            _put_last(self._defined, key, kept)
        for key, kept in reading.called.items():
            _put_last(self._called, key, kept)
        for target in reading.deleted:
            self._drop_parts(target)
            self._defined.pop(target, None)

    def _drop_parts(self, whole: str) -> None:
        """Drop the columns and attributes of what is defined again, or deleted."""
        for key in [each for each in self._defined if _is_part(each, whole)]:
            if key != whole:
                del self._defined[key]

    def _keep_named(self, reading: _Reading, tool: str) -> None:
        at = reading.position
        for place, kind in reading.places.items():
            fact = Fact(place, kind, place, at)
            _put_again(self._places, place, _Kept(place, (fact,), at, at, (place,)))
        for piece, value in reading.literals.items():
            fact = Fact(tool, "literal", piece, at)
            kept = _Kept(piece, (fact,), at, at, (value,))
            _put_again(self._literals, _key(piece), kept)

    def _definitions(self) -> Iterator[Line]:
        """The definitions; one that states a value, beside what changed it later."""
        changing: dict[tuple[str, int], list[_Kept]] = defaultdict(list)
        notes: dict[tuple[str, int], str] = defaultdict(str)
        for key, kept in self._defined.items():
            notes[kept.text, kept.first] += _note(key, kept, self._called.get(key))
            for whole, part in _wholes(key):
                defined = self._defined.get(whole)
                if defined is None or kept.first < defined.first:
                    continue
                if not part or part in _WORD.findall(defined.text):
                    changing[defined.text, defined.first].append(kept)
        for line in _lines(self._defined.values(), DEFINED, weight=3):
            at = line.text, line.position or 0
            beside = (each.text + notes[each.text, each.first] for each in changing[at])
            yield replace(line, text=line.text + notes[at], beside=tuple(beside))

    def _unwritten(self, table: _Table) -> Iterator[_Kept]:
        """The part of a definition in the same call that its line does not show."""
        written: dict[int, str] = defaultdict(str)
        for kept in chain(self._defined.values(), self._failed.values()):
            written[kept.first] += f"{kept.text}\n"
        for kept in table.values():
            if kept.text not in written.get(kept.last, ""):
                yield kept

    def _unrun(self) -> Iterator[_Kept]:
        """The code of answers that no call has run as it is."""
        known = {each.text for each in self._defined.values()}
        named = self._literals.keys() | self._places.keys()
        for key, kept in self._answered.items():
            if kept.text not in known and key not in named:
                known.add(kept.text)
                yield kept

    def _keep_error(self, error: str, call: Call, code: str) -> None:
        run = f"{call.tool} {code}"
        if not error:
            if self._error and self._error[0] == run:
                self._error = None
            return
        at = call.position if call.result_position is None else call.result_position
        text = _cut(error) + (f" (running: {code})" if code else "")
        fact = Fact(call.tool, "error", _copied(error)[: LINE_LENGTH - 1], at)
        self._error = run, _Kept(text, (fact,), at, at)

    def _keep_shown(self, reading: _Reading, result: str, position: int) -> None:
        label = reading.shown[0] if len(reading.shown) == 1 else ""
        label = label if len(label) <= VALUE_LENGTH else f"{label[: VALUE_LENGTH - 1]}…"
        for values in (_columns(result), _values(result)):
            if not values:
                continue
            text = f"{label}: " * bool(label) + " | ".join(values.values())
            facts = tuple(Fact(label, "column", each, position) for each in values)
            names = (_root(label), *values) if label else tuple(values)
            kept = _Kept(text, facts, position, position, names)
            for key in [
                key for key, each in self._shown.items() if _is_same(each, kept)
            ]:
                del self._shown[key]
            _put(self._shown, label or text, kept)


def _lines(table: Iterable[_Kept], group: str, *, weight: int) -> Iterator[Line]:
    """A line each; names that one statement defines share its line."""
    shared: dict[tuple[str, int], list[_Kept]] = defaultdict(list)
    for kept in table:
        shared[kept.text, kept.first].append(kept)
    for (text, position), members in shared.items():
        facts = tuple(fact for each in members for fact in each.facts)
        names = tuple(dict.fromkeys(name for each in members for name in each.names))
        yield Line(text, position, facts, group, names, weight)


def _packed(table: Iterable[_Kept], group: str, *, weight: int) -> Iterator[Line]:
    """The things that one call named last together, in lines of a screen's width.

    What was named once and what was named again stand apart, for the latter is used.
    """
    calls: dict[tuple[int, bool], list[_Kept]] = defaultdict(list)
    for kept in table:
        calls[kept.last, kept.first < kept.last].append(kept)
    for members in calls.values():
        for row in _rows(members):
            yield Line(
                " | ".join(each.text for each in row),
                max(each.first for each in row),
                tuple(fact for each in row for fact in each.facts),
                group,
                tuple(dict.fromkeys(name for each in row for name in each.names)),
                weight,
            )


def _rows(members: Iterable[_Kept]) -> Iterator[list[_Kept]]:
    row: list[_Kept] = []
    length = 0
    for each in members:
        length += len(each.text) + 3
        if row and length > LINE_LENGTH:
            yield row
            row, length = [], len(each.text) + 3
        row.append(each)
    if row:
        yield row


def _put(table: _Table, key: str, kept: _Kept) -> None:
    table.pop(key, None)
    table[key] = kept
    if len(table) > MOST_KEPT:
        del table[next(iter(table))]


def _put_last(table: _Table, key: str, kept: _Kept) -> None:
    """Keep a statement in the place of one that stood there before it."""
    _put(table, key, replace(kept, is_last=kept.is_last or key in table))


def _put_again(table: _Table, key: str, kept: _Kept) -> None:
    """Keep where it was said first, too."""
    known = table.get(key)
    _put(table, key, replace(known, last=kept.last) if known else kept)


def _is_same(kept: _Kept, other: _Kept) -> bool:
    """True if two outputs show the same columns."""
    return [each.value for each in kept.facts] == [each.value for each in other.facts]


def _is_part(key: str, target: str) -> bool:
    """True if a definition is one of a target, its columns or its attributes."""
    rest = key.removeprefix(target)
    return key.startswith(target) and (not rest or rest.startswith(("[", ".", CHANGED)))


def _wholes(key: str) -> Iterator[tuple[str, str]]:
    """What a statement changes, and which name in it; none where it changes all."""
    if key.endswith(CHANGED):
        yield key.removesuffix(CHANGED), ""
    for found in _PART.finditer(key):
        yield key[: found.start()], found[1]


def _note(key: str, defined: _Kept, called: _Kept | None) -> str:
    """What a definition's line says of changes: that it is one of several, or a call.

    A call is noted where the definition states a value: it writes out a list or a
    mapping, or says a name that the call says.
    """
    if key.endswith(CHANGED):
        return "  # the last of several changes" * defined.is_last
    if called is None:
        return ""
    again = {*_NAME.findall(called.text)} & {*_NAME.findall(defined.text)}
    if again <= {*defined.names} and not _WRITTEN_OUT.search(defined.text):
        return ""
    return f"  # then{', last of several:' * called.is_last} {called.text}"


def _key(target: str) -> str:
    return target.replace('"', "'")


def _root(target: str) -> str:
    """The variable at the beginning of an expression."""
    return _ROOT.match(target)[0]  # type: ignore[index]


_NAME = re.compile(r"[^\W\d]\w*")
_WORD = re.compile(r"\w+")
_PART = re.compile(r"[\[.]\W*(\w+)")
_WRITTEN_OUT = re.compile(r"[=(]\s?[\[{]")
"""Where a list, a set or a mapping begins in a statement, and no index."""
_ROOT = re.compile(r"\w*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


def _plain(text: str) -> str:
    """The text on one line, without what only controls a screen."""
    return _CONTROL.sub(" ", text).strip()


def _copied(text: str) -> str:
    """The beginning of a text that can be shown as it is."""
    return _CONTROL.split(text.strip(), maxsplit=1)[0].rstrip()


def _cut(text: str) -> str:
    return text if len(text) <= LINE_LENGTH else f"{text[: LINE_LENGTH - 1]}…"


def _bounded(text: str) -> str:
    if len(text) <= LONGEST_READ:
        return text
    half = LONGEST_READ // 2
    return f"{text[:half]}\n{text[-half:]}"


# What is read of answers


_FENCED = re.compile(
    r"^ {0,9}```[^\n`]*\n(.*?)(?:^ {0,9}```|\Z)", re.MULTILINE | re.DOTALL
)


def _code_blocks(text: str) -> Iterator[str]:
    """The blocks of code in a text of Markdown."""
    return (found[1] for found in _FENCED.finditer(text))


# What is read of arguments


def _texts(arguments: Mapping[str, Any]) -> Iterator[str]:
    """The texts among the arguments, in order, also those inside of lists."""
    waiting: list[Any] = [arguments]
    while waiting:
        match waiting.pop():
            case str() as text:
                if text.strip():
                    yield text
            case list() as items:
                waiting += reversed(items)
            case Mapping() as fields:
                waiting += reversed(list(fields.values()))


def _first_line(texts: Iterable[str]) -> str:
    """The first line of the code that is no comment."""
    rows = chain.from_iterable(_bounded(text).splitlines() for text in texts)
    code = (row for row in map(_plain, rows) if row and not row.startswith(("#", "--")))
    return next(code, "")[:VALUE_LENGTH]


def _read_arguments(texts: Sequence[str], reading: _Reading) -> None:
    """Read code; beside the path of a file it is that file's text."""
    kinds = {
        text: _kind_of_place(text.strip())
        for text in texts
        if len(text) <= LONGEST_ROW and _root(text) not in reading.known
    }
    if reading.known and len(texts) == 1 and "/" not in texts[0]:
        kinds = {}  # `df.shape` rather than a file, where code is run
    is_file = any(kinds.values())
    for text in texts:
        if kind := kinds.get(text):
            reading.add_place(text.strip(), kind)
        else:
            _read_code(_bounded(text), reading, is_file=is_file)


def _read_code(text: str, reading: _Reading, *, is_file: bool) -> None:
    """Read Python if it is that, else SQL, else a shell's or other code by tokens."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    first, _, body = text.lstrip().partition("\n")
    if first.startswith("%%"):
        places = len(reading.places)
        _read_shell(first, reading)
        text, is_file = body, is_file or len(reading.places) > places
    has_document = bool(_without_documents(text)[1])
    if not has_document and _read_if_python(text, reading, is_file=is_file):
        return
    if is_sql(text):
        _read_sql(text, reading)
    else:
        _read_shell(text, reading, is_file=is_file)


# Places


_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s\"'<>|\\^`{}]{1,300}")
_PATH = re.compile(
    r"(?=.{0,200}[^\W\d])(?:~|\.{1,2})?/?[\w@%+~.,:\[\]-][\w@%+~.,:/\[\]-]{0,200}"
)
_LEADING = re.compile(r"(?:~|\.{1,2})?/[\w.]")
_EXTENSION = re.compile(r"[\w)\]-]\.[A-Za-z]\w{0,6}(?:::[\w:\[\]-]{1,100})?$")


def _kind_of_place(text: str, *, in_shell: bool = False) -> str:
    """Which kind of place a text names by its shape; empty if none."""
    if _ADDRESS.fullmatch(text):
        return "address"
    folder, slash, name = text.partition("/")
    is_spaced = bool(slash) and " " in name and _EXTENSION.search(name)
    if not _PATH.fullmatch(f"{folder}/{name.replace(' ', '_')}" if is_spaced else text):
        return ""
    if _LEADING.match(text) or (in_shell and "/" in text.strip("/")):
        return "file"
    is_file = _EXTENSION.search(text) and ("/" in text or "@" not in text)
    return "file" if is_file else ""


# Python


_MARKED = re.compile(r"^-+> {0,5}(\d{1,5}) (.*)$", re.MULTILINE)
"""A traceback's line that shows a line of code with its number."""


def _done(code: str, result: str) -> str:
    """The statements of a failed cell before the one that its traceback marks.

    They have run, so what they define exists. Empty if no line of the code is marked.
    """
    lines = code.split("\n")
    for found in _MARKED.finditer(_COLOUR.sub("", result)):
        number = int(found[1])
        if lines[number - 1 : number] and lines[number - 1].strip() == found[2].strip():
            tree = _parsed("\n".join(map(_without_magic, lines)))
            ends = [each.end_lineno or 0 for each in tree.body] if tree else []
            return "\n".join(lines[: max((e for e in ends if e < number), default=0)])
    return ""


def _parsed(code: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\d" in a text
        try:
            return ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _read_if_python(text: str, reading: _Reading, *, is_file: bool) -> bool:
    """Read Python, the lines for IPython apart; whether it is that and nothing else."""
    tree, lines = _parsed(text), text.split("\n")
    if tree is None:
        tree = _parsed("\n".join(map(_without_magic, lines)))
    if tree is None:
        return False
    is_python = any(map(_is_telling_node, ast.walk(tree)))
    python = _Python(lines, reading, is_file=is_file)
    if is_python:
        python.read(tree)
    python.read_shown(tree.body)
    for line in lines:
        if _MAGIC.fullmatch(line):
            _read_shell(line.strip(" %!?"), reading)
    return is_python


_MAGIC = re.compile(r"([ \t]*)((?:\w[\w, ]{0,100}=\s{0,9})?)(?:[%!?].*)")


def _without_magic(line: str) -> str:
    """A line for IPython as Python that does nothing: `!ls`, `x = %sql ...`, `df?`."""
    if found := _MAGIC.fullmatch(line):
        return found[1] + (f"{found[2]}0" if found[2] else "pass")
    if line.rstrip().endswith("?"):
        return line[: len(line) - len(line.lstrip())] + "pass"
    return line


def _is_telling_node(node: ast.AST) -> bool:
    """True if it shows that a text is Python: `rm -rf x` is an expression, too."""
    is_statement = isinstance(node, ast.stmt) and not isinstance(
        node, ast.Expr | ast.Pass
    )
    return is_statement or isinstance(node, ast.Call | ast.Subscript)


_DISPLAYING = ("print", "display")
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Targeted = ast.Assign | ast.AnnAssign | ast.AugAssign


class _Python:
    """Reads the tree of one cell."""

    def __init__(
        self, lines: Sequence[str], reading: _Reading, *, is_file: bool
    ) -> None:
        self._lines = lines
        self._encoded: dict[int, bytes] = {}
        self._reading = reading
        self._is_file = is_file
        self._shown: ast.stmt | None = None
        """The statement whose value is shown."""

    def read(self, tree: ast.Module) -> None:
        """Read the definitions, then the values that are named."""
        self._shown = None if self._reading.shows_nothing else tree.body[-1]
        for outer in tree.body:
            for statement in _statements([outer]):
                if isinstance(statement, _Function):
                    end = max(statement.lineno, statement.body[0].lineno - 1)
                    self._define([statement.name], statement, end)
                elif not self._is_file:
                    self._read_statement(statement)
            if not self._is_file:
                self._read_alternatives(outer)
        self._read_values(tree)

    def _read_alternatives(self, statement: ast.stmt) -> None:
        """Read what several branches define by the whole statement: one of them ran."""
        seen: dict[str, bool] = {}
        for branch in _branches(statement):
            targets = dict(
                found
                for each in _statements(branch)
                if isinstance(each, _Targeted)
                for found in self._changes(each)
            )
            for target in targets.keys() & seen.keys():
                changes = targets[target] and seen[target]
                end = statement.end_lineno or statement.lineno
                self._reading.definitions.pop(_key(target) + CHANGED, None)
                self._define([target], statement, end, changes=changes)
            seen |= targets

    def _read_statement(self, statement: ast.stmt) -> None:
        end = statement.end_lineno or statement.lineno
        match statement:
            case ast.Assign() | ast.AugAssign() | ast.AnnAssign(value=ast.expr()):
                self._read_assignment(statement, end)
            case ast.With() | ast.AsyncWith():
                named = [each.optional_vars for each in statement.items]
                targets = filter(None, named)
                self._define(self._targets(targets), statement, statement.lineno)
            case ast.Delete():
                self._reading.deleted += map(_key, self._targets(statement.targets))
                self._read_effect(statement, statement.targets)
            case ast.Expr(value=ast.Call(func=ast.Attribute() as method)):
                if statement is not self._shown:
                    self._read_effect(statement, [method])
        for node in _own_expressions(statement):
            if isinstance(node, ast.NamedExpr):
                self._define([node.target.id], node, node.end_lineno or node.lineno)

    def _read_effect(self, statement: ast.stmt, parts: Iterable[ast.expr]) -> None:
        """Read a statement whose value is thrown away: it is there for its effect."""
        for part in parts:
            variable = part
            while isinstance(variable, ast.Attribute | ast.Subscript):
                variable = variable.value
            name = _name(variable)
            if name in self._reading.known or name in self._reading.definitions:
                end = statement.end_lineno or statement.lineno
                lines = self._lines[statement.lineno - 1 : end][:LINE_LENGTH]
                self._reading.call(name, [line[:LONGEST_ROW] for line in lines])

    def _read_assignment(self, statement: _Targeted, end: int) -> None:
        for target, changes in self._changes(statement):
            self._define([target], statement, end, changes=changes)

    def _changes(self, statement: _Targeted) -> Iterator[tuple[str, bool]]:
        """Each target of an assignment, and True if its old value is in the new one."""
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        else:
            targets = [statement.target]
        used = {
            node.id
            for node in ast.walk(statement.value or statement)
            if isinstance(node, ast.Name)
        }
        augments = isinstance(statement, ast.AugAssign)
        for target in self._targets(targets):
            yield target, augments or target in used

    def _targets(self, targets: Iterable[ast.expr]) -> Iterator[str]:
        """Each name, column and attribute among the targets, as it is written."""
        waiting = list(targets)[::-1]
        while waiting:
            match waiting.pop():
                case ast.Tuple(elts=parts) | ast.List(elts=parts):
                    waiting += reversed(parts)
                case ast.Starred(value=part):
                    waiting.append(part)
                case target:
                    yield self._source(target)

    def _define(
        self,
        targets: Iterable[str],
        node: ast.stmt | ast.expr,
        end: int,
        *,
        changes: bool = False,
    ) -> None:
        lines = [*self._lines[node.lineno - 1 : end][:LINE_LENGTH]]
        if len(lines[0]) > LINE_LENGTH:  # it may hold thousands of statements
            piece = self._bytes(node.lineno)[node.col_offset :][:LONGEST_ROW]
            lines[0] = piece.decode("utf-8", "ignore")
        statement = [line[:LONGEST_ROW] for line in lines]
        for target in targets:
            self._reading.define(target, statement, changes=changes)

    def _source(self, node: ast.AST) -> str:
        """The code of a node on one line; `ast` itself would read all for each."""
        start, end = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
        if not start or start != end:
            return ""
        begin, stop = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", 0)
        return self._bytes(start)[begin:stop].decode("utf-8", "replace")

    def _bytes(self, number: int) -> bytes:
        """A line as `ast` counts it: in bytes."""
        line = self._encoded.get(number)
        if line is None:
            text = self._lines[number - 1]
            line = self._encoded[number] = text.encode("utf-8", "replace")
        return line

    def _read_values(self, tree: ast.Module) -> None:
        """Read the constants, with what each is compared or called by."""
        read: set[int] = set()
        found: list[tuple[int, int, str, object]] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr) or _is_note(node):
                read |= {id(each) for each in ast.walk(node)}
            for constant, piece in self._pieces(node):
                if id(constant) not in read:
                    read |= {id(each) for each in ast.walk(node)}
                    at = constant.lineno, constant.col_offset
                    found.append((*at, piece, constant.value))
        for _, _, piece, value in sorted(found, key=lambda each: each[:2]):
            self._add(piece, value)

    def _add(self, piece: str, value: object) -> None:
        text = value if isinstance(value, str) else ""
        if kind := _kind_of_place(text):
            self._reading.add_place(text, kind)
        elif is_sql(text):
            _read_sql(text, self._reading)
        elif piece:
            self._reading.add_literal(piece, text)

    def _pieces(self, node: ast.AST) -> Iterator[tuple[ast.Constant, str]]:
        """The constant of a node, and the code by which it is kept."""
        match node:
            case ast.keyword(arg=str(), value=ast.Constant() as constant):
                if _is_named(constant.value):
                    yield constant, self._source(node)
            case ast.Compare():
                source = self._source(node)
                for side in (node.left, *node.comparators):
                    if isinstance(side, ast.Constant) and _is_named(side.value):
                        yield side, source
            case ast.Call() | ast.List() | ast.Tuple():
                yield from self._numbers(node)
            case ast.Constant(value=str() as text) if _is_telling(text) or is_sql(text):
                yield node, self._source(node)

    def _numbers(
        self, node: ast.Call | ast.List | ast.Tuple
    ) -> Iterator[tuple[ast.Constant, str]]:
        """Numbers with their function or list, as `head(10)`: alone they say little."""
        inside = node.args if isinstance(node, ast.Call) else node.elts
        numbers = [each for each in inside if isinstance(each, ast.Constant)]
        if not any(_is_telling(each.value) for each in numbers if not _is_text(each)):
            return
        source = self._source(node)
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            start = source.rfind(f"{name}(") if name else -1
            source = source[start:] if start >= 0 else ""
        if 0 < len(source) <= LINE_LENGTH:
            yield numbers[0], source

    def read_shown(self, body: Sequence[ast.stmt]) -> None:
        """Read whose values the output shows: the last one's, and what is printed."""
        for statement in () if self._is_file else body:
            if not isinstance(statement, ast.Expr):
                continue
            value = statement.value
            if isinstance(value, ast.Call) and _name(value.func) in _DISPLAYING:
                self._reading.shown += [self._source(each) for each in value.args]
            elif statement is body[-1]:
                self._reading.shown.append(self._source(value))


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements in order, also inside of `if`, `for`, `with` and `try`."""
    waiting: list[ast.AST] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, _Function | ast.expr):
            waiting += reversed(list(ast.iter_child_nodes(node)))


def _branches(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The branches of a statement of which only one runs to its end."""
    match statement:
        case ast.If(body=body, orelse=orelse):
            yield body
            is_elif = len(orelse) == 1 and isinstance(orelse[0], ast.If)
            yield from _branches(orelse[0]) if is_elif else [orelse]
        case ast.Try(body=body, orelse=orelse, handlers=handlers):
            yield [*body, *orelse]
            yield from (each.body for each in handlers)
        case ast.Match(cases=cases):
            yield from (each.body for each in cases)


def _own_expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """The parts of a statement outside of the statements in it."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            yield from ast.walk(child)


def _is_text(node: ast.Constant) -> bool:
    return isinstance(node.value, str)


def _is_note(node: ast.AST) -> bool:
    """True if a text stands alone, as a docstring does."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_telling(value: object) -> bool:
    """True if a later call may name a constant, wherever it stands."""
    if isinstance(value, str):
        return len(value) >= LEAST_TEXT and _is_named(value)
    if not (_is_named(value) and isinstance(value, int | float)):
        return False
    return abs(value) >= LEAST_NUMBER or value % 1 != 0


def _is_named(value: object) -> bool:
    """True if a later call may name a constant that has a name here."""
    if isinstance(value, str):
        return 0 < len(value) <= VALUE_LENGTH and "\n" not in value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) >= LEAST_NAMED or value % 1 != 0


# SQL


_SQL = re.compile(
    r"""\s{0,99}(?:--[^\n]{0,300}\n\s{0,99}){0,9}\(?\s{0,9}(?:
      SELECT\b(?!(?:\s+(?!(?:FROM|AS|DISTINCT|ALL)\b)\w+){4})
      |WITH\s(?:\s*RECURSIVE\s)?[^;]{1,200}?\sAS\s{0,9}\(
      |INSERT\s+(?:OR\s+\w+\s+)?INTO\b|DELETE\s+FROM\b|UPDATE\s+\S{1,200}\s+SET\b
      |(?:CREATE|ALTER|DROP)\s+(?:\w+\s+){0,3}?(?:TABLE|VIEW|INDEX|DATABASE|SCHEMA)\b
      |SHOW\s+(?:\w+\s+)?(?:TABLES|COLUMNS|DATABASES|SCHEMAS|INDEX|TABLE)\b
      |(?:DESC|DESCRIBE|EXPLAIN|PRAGMA)\s+[\w.`"\[\]()=']{1,200}\s{0,9};?\s*\Z)""",
    re.IGNORECASE | re.VERBOSE,
)
"""How a statement begins; four bare words after SELECT are a sentence."""

_SQL_TOKEN = re.compile(
    r"""--[^\n]*|/\*.{0,1000}?\*/
    |(?P<text>'(?:[^'\\\n]|''|\\.){0,200}+'|"[^"\n]{0,200}+")
    |(?P<number>\d+(?:\.\d+)?)
    |(?P<name>(?:[^\W\d]\w{0,99}|`[^`\n]{1,100}+`)
      (?:\.(?:[^\W\d]\w{0,99}|`[^`\n]{1,100}+`)){0,3})
    |(?P<mark>[(),;*])""",
    re.DOTALL | re.VERBOSE,
)

_WORDS_OF_SQL = """
    ADD ALL ALTER AND ANY AS ASC BEGIN BETWEEN BY CASE CAST CHECK COLUMN COLUMNS COMMIT
    CONSTRAINT CREATE CROSS DATABASE DATABASES DEFAULT DELETE DESC DESCRIBE DISTINCT
    DROP ELSE END EXCEPT EXISTS EXPLAIN FALSE FOREIGN FROM FULL GROUP HAVING IF ILIKE IN
    INDEX INNER INSERT INTERSECT INTO IS JOIN KEY LEFT LIKE LIMIT NATURAL NOT NULL
    OFFSET ON OR ORDER OUTER OVER PARTITION PRAGMA PRIMARY RECURSIVE REFERENCES REPLACE
    RIGHT SCHEMA SCHEMAS SELECT SET SHOW TABLE TABLES TEMP TEMPORARY THEN TRUE UNION
    UNIQUE UPDATE USING VALUES VIEW WHEN WHERE WITH
    """
_SQL_WORDS = frozenset(_WORDS_OF_SQL.split())
_BEFORE_TABLES = ("FROM", "JOIN", "INTO", "UPDATE", "TABLE", "VIEW")
_DESCRIBING = ("DESC", "DESCRIBE", "SHOW", "PRAGMA", "EXPLAIN")


def is_sql(text: object) -> bool:
    """True if a text begins as a statement in SQL."""
    return isinstance(text, str) and bool(_SQL.match(text))


def _read_sql(text: str, reading: _Reading) -> None:
    """Read tables, columns, values, and what a statement creates."""
    tokens = [each for each in _SQL_TOKEN.finditer(text) if each.lastgroup]
    words = [each[0].upper() for each in tokens]
    if words and words[0] in _DESCRIBING:
        reading.shown.append(_plain(text.rstrip("; \n")))
    subqueries = {
        word
        for word, after, mark in zip(words, words[1:], words[2:], strict=False)
        if (after, mark) == ("AS", "(")
    }
    tables, aliases = _tables(words)
    passed = _SQL_WORDS | aliases | subqueries
    created = min(tables) if tables and words[0] == "CREATE" else None
    for index, token in enumerate(tokens):
        name = token[0].replace("`", "")
        if index == created:
            reading.define(name, text.strip().split("\n"), changes=False)
        if index in tables and words[index] not in subqueries:
            reading.add_place(name, "table")
        elif token.lastgroup == "name":
            is_function = words[index + 1 : index + 2] == ["("]
            if not is_function and words[index] not in passed:
                reading.add_literal(name.rpartition(".")[2])
        else:
            _read_value_of_sql(token, reading)


def _read_value_of_sql(token: re.Match[str], reading: _Reading) -> None:
    number = token["number"]
    if token["text"] or (number and _is_telling(float(number))):
        reading.add_literal(token[0], token[0].strip("'\""))


def _tables(words: Sequence[str]) -> tuple[set[int], set[str]]:
    """Which words are tables, and the short names that statements give them."""
    tables: set[int] = set()
    aliases: set[str] = set()
    expects = bool(words) and words[0] in _DESCRIBING
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        if word in _BEFORE_TABLES:
            expects = True
        elif word == ",":
            expects = index - 1 in tables or before in aliases
        elif word in _SQL_WORDS:
            expects = expects and word in ("IF", "NOT", "EXISTS")
        elif expects and word[0] not in "('\";*)":
            tables.add(index)
            expects = False
        elif index - 1 in tables or (before == "AS" and index - 2 in tables):
            aliases.add(word)
    return tables, aliases


# Shells and other code


_HEREDOC = re.compile(r"<<-?\s{0,9}\\?(['\"]?)(\w{1,50})\1")
_INLINE = re.compile(
    r"\s-c\s{1,9}(?:\"((?:[^\"\\]|\\.){1,20000})\"|'([^']{1,20000})')", re.DOTALL
)
_TOKEN = re.compile(
    r"""(?P<quoted>"(?:[^"\\\n]|\\.){0,300}+"|'[^'\n]{0,300}+')
    |(?P<word>[^\s"'|;&<>()`]{1,300}(?!\())|[^\s"'|;&<>()`]{1,300}|(?P<mark>[|;&<>]|\$\()""",
    re.VERBOSE,
)
_OPTION = re.compile(r"--?[A-Za-z][\w-]{0,40}")
_SETTING = re.compile(r"(?:--?)?[A-Za-z][\w-]{0,40}=([^\s$]{1,60})")
_LETTERS = re.compile(r"[^\W\d]{2}")
_ASSIGNED = re.compile(
    r"(?:[a-z]{3,5}[ ])?([^\W\d][\w.$]{0,60}(?:\[[^\]\n]{1,60}\])?)[ ]?(?:=|<-|:=)[ ]",
)
"""An assignment in R, Julia or JavaScript; shells have no space around the sign."""


def _read_shell(text: str, reading: _Reading, *, is_file: bool = False) -> None:
    """Read paths, addresses, quoted texts, and the code in a command."""
    command, documents = _without_documents(text)
    if not is_file:
        inline = [found[1] or found[2] for found in _INLINE.finditer(command)]
        code = [each for each in inline if is_sql(each) or _parsed(each)]
        for each in (*documents[:MOST_TEXTS], *code[:MOST_TEXTS]):
            _read_code(each, reading, is_file=True)
        for line in command.split("\n"):
            if found := _ASSIGNED.match(line):
                reading.define(found[1], [line], changes=False)
    tokens = list(_TOKEN.finditer(command))
    is_command = any(map(_is_of_command, tokens))
    for token in tokens:
        _read_token(token, reading, is_command=is_command)


def _without_documents(text: str) -> tuple[str, list[str]]:
    """A command without the documents that it writes, and these."""
    lines = text.split("\n")
    ends: dict[str, list[int]] = defaultdict(list)
    for index, line in reversed([*enumerate(lines)]):
        ends[line.strip()].append(index)
    command: list[str] = []
    documents: list[str] = []
    read = 0
    for index, line in enumerate(lines):
        if index < read:
            continue
        read = index + 1
        command.append(_HEREDOC.sub("<", line))
        for found in _HEREDOC.finditer(line):
            after = [each for each in ends[found[2]] if each >= read]
            if after:
                documents.append("\n".join(lines[read : after[-1]]))
                read = after[-1] + 1
    return "\n".join(command), documents


def _is_of_command(token: re.Match[str]) -> bool:
    """True if a token shows that a text is a command and no sentence."""
    word = token["word"] or ""
    is_option = bool(_OPTION.fullmatch(word))
    return bool(token["mark"]) or is_option or bool(_kind_of_place(word))


def _read_token(token: re.Match[str], reading: _Reading, *, is_command: bool) -> None:
    if quoted := token["quoted"]:
        value = quoted[1:-1]
        if kind := _kind_of_place(value):
            reading.add_place(value, kind)
        elif is_command and len(value) <= VALUE_LENGTH and _LETTERS.search(value):
            reading.add_literal(quoted, value)
        return
    word = (token["word"] or "").rstrip(",:.")
    if setting := _SETTING.fullmatch(word):
        reading.add_literal(word, setting[1])
        word = setting[1]
    kind = _kind_of_place(word, in_shell=is_command)
    if kind and not word.startswith("-") and _root(word) not in reading.known:
        reading.add_place(word, kind)


# What is read of outputs


_Columns = dict[str, str]
"""Names, and each as it is shown, with its type where the output says it."""

_GAP = re.compile(r"\s{2,}")
_INFO = re.compile(
    r"\s{0,9}\d{1,6}\s+(\S(?:.{0,98}\S)?)\s+[\d,]+ non-null\s+(\S{1,40})\s*"
)
_DTYPE = re.compile(
    r"u?int\d+|float\d+|complex\d+|U?Int\d+|Float\d+|bool(?:ean)?|object|category|str"
    r"|string|(?:datetime64|timedelta64|period|interval)\[.{1,40}\]"
)
_FOOTER = re.compile(
    r"(?:Name: (.{1,60}?), )?(?:Freq: \S{1,20}, )?(?:Length: \d+, )?dtype: (\S{1,40})"
)
_LIST = re.compile(r"(?:array\(|Index\()?\[\s*(?=['\"])")
_QUOTED = re.compile(r"'([^'\n]{1,60})'|\"([^\"\n]{1,60})\"")
_NUMBER = re.compile(r"[-+$]?[\d.,:%/ -]+%?")


def _columns(result: str) -> _Columns:
    """Columns of the tables in an output."""
    rows = result.splitlines()[:LONGEST_ROW]
    found = (
        (name, "")
        for names in headers(result)
        if not any(map(_NUMBER.fullmatch, names))
        for name in names
    )
    return _tidied(chain(_info(row[:LONGEST_ROW] for row in rows), found))


def _values(result: str) -> _Columns:
    """Values that a list or a counting shows."""
    rows = [row.rstrip() for row in result.splitlines()[-LONGEST_ROW:]]
    return _tidied(chain(_listed(result), _labels(rows)))


def _tidied(found: Iterable[tuple[str, str]]) -> _Columns:
    columns: _Columns = {}
    for name, kind in found:
        name = _copied(name)  # noqa: PLW2901
        is_name = 0 < len(name) <= VALUE_LENGTH and not _NUMBER.fullmatch(name)
        if is_name and name.strip(".…") and len(columns) < MOST_TEXTS:
            columns.setdefault(name, f"{name} {_plain(kind)}".rstrip())
    return columns


def _info(rows: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Columns of `df.info()`."""
    for row in rows:
        if found := _INFO.fullmatch(row):
            yield found[1], found[2]


def _listed(result: str) -> Iterator[tuple[str, str]]:
    """The texts of a list, an array or an index that is the whole output."""
    if _LIST.match(result.strip()):
        for found in islice(_QUOTED.finditer(result), MOST_TEXTS):
            yield found[1] or found[2], ""


def _labels(rows: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The labels of a printed series, such as of `value_counts()` and `dtypes`."""
    for index, row in enumerate(rows):
        found = _FOOTER.fullmatch(row)
        if not found:
            continue
        above = takewhile(str.strip, reversed(rows[max(0, index - MOST_TEXTS) : index]))
        cells = [_GAP.split(each.strip()) for each in above][::-1]
        pairs = [(each[0], each[1]) for each in cells if len(each[1:]) == 1]
        are_types = bool(pairs) and all(_DTYPE.fullmatch(kind) for _, kind in pairs)
        yield found[1] or "", found[2]
        yield from ((name, kind * are_types) for name, kind in pairs)


_TRACEBACK = "Traceback (most recent call last)"
_COLOUR = re.compile(r"\x1b\[[\d;]{0,20}m")
_RAISED = re.compile(r"(?:[A-Za-z_]\w{0,80}\.){0,9}[A-Z]\w{0,80}(?:: .*)?")


def _error(result: str, *, is_error: bool) -> str:
    """The line that names the error in which a call ended; empty if it did not."""
    result = _COLOUR.sub("", result)
    start = result.rfind(_TRACEBACK)
    rows = [_plain(row) for row in result[max(start, 0) :].splitlines()[-LONGEST_ROW:]]
    rows = [row for row in rows if row and not row.startswith("</")]
    last = [row for row in rows[-3:] if start >= 0 and _RAISED.fullmatch(row)]
    if last:
        return last[-1]
    if not is_error:
        return ""
    raised = [row for row in rows if _RAISED.fullmatch(row)]
    return raised[-1] if raised else next(iter(rows), "")
