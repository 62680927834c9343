"""What later calls need of earlier ones: literals, names, columns, tables and paths.

A value is needed when a call after a cut names it, it stood before the cut as a whole
word, and nothing repeats it between the cut and the reply with its first use. Of Python
cells these are literals, columns, paths, and names that an earlier cell defined; of SQL
tables, columns and literals; of shell commands paths and names of code; of other tools
all values of the arguments.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from nbchat.conversation.entries import Entry
from nbchat.conversation.turns import message_at

SHORTEST, LONGEST = 3, 80
"""Characters of a value."""

_PATH = re.compile(r"[\w.~-]*(?:/[\w.-]*\w)+|\b[\w-]+\.[a-z]{2,5}\b(?![.(])")
_CODE_NAME = re.compile(r"\b(?=\w*[a-z]_?[A-Z]|\w+_\w|_\w)\w+\b(?!\s*=[^=])")
"""A name with an underscore or an inner capital, which is not defined here."""

_SQL = re.compile(
    r"--[^\n]*"
    r"|(?P<text>'[^'\n]*'|\"[^\"\n]*\")"
    r"|(?P<alias>\bAS\s+\w+)"
    r"|(?P<word>[`]?\b[A-Za-z_]\w*\b[`]?)(?!\s*\()"
    r"|(?P<number>\b\d[\d.]*\b)",
    re.IGNORECASE,
)
_SQL_WORD = re.compile(
    "all|alter|and|asc|avg|between|by|case|columns?|count|create|cross|databases?|"
    "delete|desc|describe|distinct|drop|else|end|except|exists|explain|from|full|group|"
    "having|inner|insert|intersect|into|join|left|like|limit|max|min|not|null|offset|"
    "order|outer|over|partition|right|select|set|show|sum|tables?|then|union|update|"
    "using|values|when|where|with",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Named:
    """What a call names."""

    values: tuple[str, ...] = ()
    """Literals, paths, tables and columns."""
    names: tuple[str, ...] = ()
    """Variables and functions that the call uses before it defines them."""
    attributes: tuple[str, ...] = ()
    """Attributes, which are columns if an earlier call had them as keys."""
    defines: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    """Literals between brackets: columns."""


def texts(entries: Sequence[Entry]) -> str:
    """All text of entries, calls included."""
    return "\n".join(f"{e.content}\n{e.tool_name}\n{e.tool_args}" for e in entries)


def has_word(text: str, value: str) -> bool:
    """True if a text contains a value by itself, not inside of a longer word.

    A tenth of the time that a pattern with both conditions takes.
    """
    at = text.find(value)
    while at >= 0:
        around = text[max(at - 1, 0) : at], text[at + len(value) : at + len(value) + 1]
        if not any(sign.isalnum() or sign == "_" for sign in around):
            return True
        at = text.find(value, at + 1)
    return False


def leaves(value: Any) -> Iterator[str]:
    """The texts and numbers inside a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def needed_values(entries: Sequence[Entry], cut: int, known: str = "") -> list[str]:
    """The values that calls from `cut` on need, in the order of their first use.

    What `known` spells out, a system prompt or the tools, need not be remembered.
    """
    past, found, seen = Past(entries[:cut]), [], set[str]()
    for index in range(cut, len(entries)):
        if not entries[index].is_call:
            continue
        new = [v for v in past.used_by(entries[index]) if v not in seen]
        seen.update(new)
        between = texts(entries[cut : max(cut, message_at(entries, index).start)])
        found += [v for v in new if not has_word(between, v)]
    return [value for value in found if not has_word(known, value)]


class Past:
    """What was said, of which later calls use values."""

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        self._text = ""
        self._keys: set[str] = set()
        self._defined: set[str] = set()
        self.add(entries)

    def add(self, entries: Sequence[Entry]) -> None:
        """Add what was said next."""
        self._text += f"\n{texts(entries)}"
        for use in (named(entry) for entry in entries if entry.is_call):
            self._keys.update(use.keys)
            self._defined.update(use.defines)

    def used_by(self, call: Entry) -> list[str]:
        """The values of a call that stood here, each once."""
        use = named(call)
        found = [v for v in use.values if _fits(v) and has_word(self._text, v)]
        found += [name for name in use.names if name in self._defined]
        found += [name for name in use.attributes if name in self._keys]
        return [value for value in dict.fromkeys(found) if _fits(value)]


def _fits(value: str) -> bool:
    return SHORTEST <= len(value) <= LONGEST and "\n" not in value


def named(call: Entry) -> Named:
    """What a call names, by the language of its argument."""
    return _named(call.tool_name, call.tool_args)


@cache
def _named(tool: str, arguments: str) -> Named:
    given = Entry("assistant", "", "call", tool, arguments).arguments
    code = given.get("source" if tool == "edit_notebook" else "code")
    if isinstance(code, str):
        return _python(code)
    for name, read in (("query", _sql), ("command", _shell)):
        text = given.get(name)
        if isinstance(text, str) and (name == "command" or "sql" in tool):
            return read(text)
    return Named(values=tuple(leaves(given)))


def _python(code: str) -> Named:
    """What a cell names; lines of magics are left out."""
    lines = (line for line in code.splitlines() if line.lstrip()[:1] not in "%!")
    try:
        tree = ast.parse("\n".join(lines))
    except SyntaxError:
        return Named()
    cell = _Cell()
    cell.visit(tree)
    return Named(
        *map(tuple, (cell.values, cell.names, cell.attributes, cell.defines, cell.keys))
    )


class _Cell(ast.NodeVisitor):
    """Reads a cell in the order in which it runs."""

    def __init__(self) -> None:
        self.values: dict[str, None] = {}
        self.names: dict[str, None] = {}
        self.keys: dict[str, None] = {}
        self.attributes: dict[str, None] = {}
        self.defines: dict[str, None] = {}
        self._local: list[str] = []
        """Imports, arguments and what functions and comprehensions define."""

    def visit_Assign(self, node: ast.Assign) -> None:
        self._visit(node.value, *node.targets)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._use(node.target.id)
        self._visit(node.value, node.target)

    def visit_For(self, node: ast.For) -> None:
        self._visit(node.iter, node.target, *node.body, *node.orelse)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit(*node.decorator_list, *node.args.defaults)
        self.defines[node.name] = None
        inside = [ast.walk(node.args), *map(ast.walk, node.body)]
        named = [each for nodes in inside for each in nodes]
        own = [each.arg for each in named if isinstance(each, ast.arg)]
        self._visit_inside(own + _stored(named), *node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        own = [each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)]
        self._visit_inside(own, node.body)

    def _visit_comprehension(self, node: Any) -> None:
        inside = [each for one in node.generators for each in ast.walk(one.target)]
        self._visit_inside(_stored(inside), *ast.iter_child_nodes(node))

    visit_ListComp = _visit_comprehension  # noqa: N815  ast's own spelling
    visit_SetComp = _visit_comprehension  # noqa: N815
    visit_DictComp = _visit_comprehension  # noqa: N815
    visit_GeneratorExp = _visit_comprehension  # noqa: N815

    def visit_Import(self, node: ast.Import) -> None:
        self._local += [(a.asname or a.name).partition(".")[0] for a in node.names]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self._local += [alias.asname or alias.name for alias in node.names]
        self.values |= dict.fromkeys(alias.name for alias in node.names)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # else it is a comment
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        is_method = isinstance(node.func, ast.Attribute)
        self.visit(node.func.value if is_method else node.func)
        self._visit(*node.args, *node.keywords)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.attributes[node.attr] = None
        self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._visit(node.value, node.slice)
        whole = isinstance(node.slice, ast.Constant | ast.List | ast.Tuple)
        inside = ast.walk(node.slice) if whole else ()
        found = (each.value for each in inside if isinstance(each, ast.Constant))
        self.keys |= dict.fromkeys(each for each in found if isinstance(each, str))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self._visit(*(e for e in node.values if not isinstance(e, ast.Constant)))

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str | int | float) and not isinstance(
            node.value, bool
        ):
            self.values[str(node.value)] = None

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._use(node.id)
        else:
            self.defines[node.id] = None

    def _visit(self, *nodes: ast.AST) -> None:
        for node in nodes:
            self.visit(node)

    def _visit_inside(self, own: list[str], *nodes: ast.AST) -> None:
        """Visit what has names of its own, which stay inside."""
        outside, defined = self._local, dict(self.defines)
        self._local = [*outside, *own]
        self._visit(*nodes)
        self._local, self.defines = outside, defined

    def _use(self, name: str) -> None:
        if name not in self.defines and name not in self._local:
            self.names[name] = None


def _stored(nodes: Iterable[ast.AST]) -> list[str]:
    """Names that are assigned."""
    names = [each for each in nodes if isinstance(each, ast.Name)]
    return [each.id for each in names if isinstance(each.ctx, ast.Store)]


def _sql(query: str) -> Named:
    """What a query names, without its own aliases."""
    found = list(_SQL.finditer(query))
    aliases = {each["alias"].split()[-1].lower() for each in found if each["alias"]}
    words = [each["word"].strip("`") for each in found if each["word"]]
    names = [
        word
        for word in words
        if word.lower() not in aliases and not _SQL_WORD.fullmatch(word)
    ]
    literals = [each["text"][1:-1] for each in found if each["text"]]
    numbers = [each["number"] for each in found if each["number"]]
    return Named((*names, *literals, *numbers))


def _shell(command: str) -> Named:
    """What a command names."""
    return Named((*_PATH.findall(command), *_CODE_NAME.findall(command)))
