"""Every text of nbchat that people read, in one list: `python tests/support/texts.py`.

Python is read by its syntax tree, JavaScript by its string literals. Prompts and other
texts for models are left out by file. `{}` stands for what is filled in.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2] / "nbchat"

FOR_MODELS = (
    *("compaction/memory/", "compaction/summarizer/", "testing/"),
    *("compaction/pruning/", "jupyter/panel/protocol_schema.py"),
)
"""Files whose texts a model reads, or only a developer."""

KINDS = ("*.py", "src/*.js", "*.css")

NO_TEXT = re.compile(
    r"[<>]{2}|\(\?|\\[sdwbS]|var\(--|^[\w./:@-]*$|^\s*[<.#][\w-]+[^.]*[{>]$"
)
WORDS = re.compile(r"[A-Za-z][a-z']+[ ,:;]+\S*[A-Za-z{]|[A-Z][a-z]+[.…]?$")
"""Two words, or one that begins with a capital."""

SCRIPT_STRING = re.compile(
    r'//[^\n]*|/\*.*?\*/|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`', re.DOTALL
)


class Text(NamedTuple):
    """A text, and where it is."""

    path: str
    line: int
    use: str
    text: str


def texts(root: Path = ROOT) -> Iterator[Text]:
    """All texts, file by file."""
    for path in sorted(p for kind in KINDS for p in root.rglob(kind)):
        name = path.relative_to(root).as_posix()
        if "node_modules" in name or name.startswith(FOR_MODELS):
            continue
        source = path.read_text(encoding="utf-8")
        found = _in_python(source) if path.suffix == ".py" else _in_script(source)
        for line, use, text in found:
            if WORDS.search(text) and not NO_TEXT.search(text):
                yield Text(name, line, use, " ".join(text.split()))


def _in_python(source: str) -> Iterator[tuple[int, str, str]]:
    tree = ast.parse(source)
    skipped = {id(each) for each in _documentation(tree)}
    yield from _strings(tree, "", skipped)


def _documentation(tree: ast.AST) -> Iterator[ast.AST]:
    """Docstrings, names in `Literal[...]` and other annotations."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
        for field in ("annotation", "returns"):
            if (found := getattr(node, field, None)) is not None:
                yield from ast.walk(found)


def _strings(
    node: ast.AST, use: str, skipped: set[int]
) -> Iterator[tuple[int, str, str]]:
    if id(node) in skipped:
        return
    if isinstance(node, ast.JoinedStr):
        shown = "".join(
            part.value if isinstance(part, ast.Constant) else "{}"
            for part in node.values
        )
        yield node.lineno, use, str(shown)
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                yield from _strings(part.value, use, skipped)
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, use, node.value
        return
    if isinstance(node, ast.Call):
        use = ast.unparse(node.func).rpartition(".")[2][:30]
    for child in ast.iter_child_nodes(node):
        yield from _strings(child, use, skipped)


def _in_script(source: str) -> Iterator[tuple[int, str, str]]:
    for match in SCRIPT_STRING.finditer(source):
        if text := match[1] or match[2]:
            shown = re.sub(r"\$\{[^}]*\}", "{}", text)
            yield source.count("\n", 0, match.start()) + 1, "js", shown


if __name__ == "__main__":
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    for each in texts():
        if only in each.path:
            print(f"{each.path}:{each.line} [{each.use}] {each.text}")
