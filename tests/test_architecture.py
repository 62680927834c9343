"""Imports point one way, folder by folder, imports hidden in functions included."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import nbchat

PACKAGE = Path(nbchat.__file__).parent

LAYERS = [
    {"errors"},
    {"conversation"},
    {"providers"},
    {"compaction"},
    {"config"},
    {"rendering", "testing"},
    {"agent"},
    {"storage"},
    {"chat", "cli"},
    {"jupyter"},
    {""},
]
"""Folders from the ground up: a module imports from its own folder or a lower layer."""

OUTSIDE = {
    "ipywidgets": {
        "jupyter.panel.chat_ui",
        "jupyter.cell_output",
        "jupyter.run_display",
    },
    "anywidget": {"jupyter.panel.chat_ui"},
    "IPython": {"jupyter", ""},
    "sqlalchemy": {"storage"},
    "openai": {"providers.openai_chat", "providers.openai_responses"},
    "anthropic": {"providers.anthropic"},
    "xllamacpp": {"providers.local"},
    "tiktoken": {"providers.tokens"},
    "nbclient": {"cli.demo"},
    "acp": {"cli.acp"},
    "jupyter_ai_acp_client": {"cli.persona"},
    "jupyter_ai_persona_manager": {"cli.persona"},
    "mcp": {"agent.mcp", "jupyter.notebook_mcp"},
    "papermill": {"cli.run"},
    "opentelemetry": {"agent.telemetry"},
    "latex2mathml": {"rendering.math"},
    "jupyter_server": {"jupyter.server", "cli.doctor"},
    "tornado": {"jupyter.server"},
}
"""Modules or folders that may import a heavy package."""


def module_name(file: Path) -> str:
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {module_name(file): file for file in sorted(PACKAGE.rglob("*.py"))}


@cache
def syntax(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


@cache
def imports(name: str) -> set[str]:
    """Every module that a module names in an import, except for type checkers."""
    found = set()
    waiting: list[ast.AST] = [syntax(name)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
        elif not isinstance(node, ast.expr) and not _is_for_type_checkers(node):
            waiting += ast.iter_child_nodes(node)
    return found


def _is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


@cache
def own_imports(name: str) -> set[str]:
    inside = {
        i.removeprefix("nbchat").removeprefix(".")
        for i in imports(name)
        if i.partition(".")[0] == "nbchat"
    }
    return {module for module in inside if module in MODULES}


def folder(name: str) -> str:
    return name.partition(".")[0]


def layer(name: str) -> int:
    for number, folders in enumerate(LAYERS):
        if folder(name) in folders:
            return number
    raise AssertionError(f"{name} is in no layer: add its folder to LAYERS")


def test_imports_point_downwards():
    wrong = [
        f"{name} -> {other}"
        for name in MODULES
        for other in sorted(own_imports(name))
        if layer(other) > layer(name)
        or (layer(other) == layer(name) and folder(other) != folder(name))
    ]
    assert wrong == []


def test_no_module_imports_itself_in_a_circle():
    def reachable(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for other in own_imports(waiting.pop()) - seen:
                seen.add(other)
                waiting.append(other)
        return seen

    assert [name for name in MODULES if name in reachable(name)] == []


def test_the_longest_chain_of_imports_has_at_most_16_modules():
    """A newcomer follows it from a magic to an entry; each arrow must be natural."""

    @cache
    def depth(name: str) -> int:
        return 1 + max(map(depth, own_imports(name) - {""}), default=0)

    assert max(map(depth, MODULES)) <= 16


def test_a_module_of_under_60_lines_has_several_importers():
    """Else it is a paragraph of its importer."""
    importers = Counter(other for name in MODULES for other in own_imports(name))
    crumbs = {
        name
        for name, file in MODULES.items()
        if len(file.read_text().splitlines()) < 60
        and importers[name] == 1
        and file.name != "__init__.py"
    }
    assert crumbs == {
        "cli.run",  # imports papermill, which is optional
    }


def test_no_function_has_more_than_50_lines():
    found = {
        f"{name}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for name in MODULES
        for node in ast.walk(syntax(name))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: lines for name, lines in found.items() if lines > 50} == {}


def test_only_the_named_modules_import_a_heavy_package():
    wrong = [
        f"{name} -> {package}"
        for package, allowed in OUTSIDE.items()
        for name in MODULES
        if any(i.partition(".")[0] == package for i in imports(name))
        and not {name, folder(name)} & allowed
    ]
    assert wrong == []


def test_no_module_is_empty():
    assert [name for name, file in MODULES.items() if not file.read_text()] == []


def test_the_package_has_at_most_13_entries():
    shown = [
        path.name
        for path in PACKAGE.iterdir()
        if not path.name.startswith("__") and path.suffix != ".pyc"
    ]
    assert len(shown) <= 13


def test_contributing_lists_the_folders_in_the_order_of_the_layers():
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)(?:\.py|/)` \|", text, re.MULTILINE)
    folders = [name.replace("__init__", "") for name in rows]
    numbers = [layer(name) for name in folders]
    assert numbers == sorted(numbers)
    assert set(folders) == set.union(*LAYERS)


def test_every_path_that_contributing_names_exists():
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = re.findall(r"`((?:nbchat|tests)/[\w/.]+)`", text)
    for folder, names in re.findall(r"^\| `(\w+)/` \|.*\|(.*)\|$", text, re.MULTILINE):
        paths += [
            f"nbchat/{folder}/{name}"
            if name.endswith("/")
            else f"nbchat/{folder}/{name}.py"
            for name in re.findall(r"`([a-z_/]+)`", names)
        ]
    assert len(paths) > 50
    assert [path for path in paths if not (PACKAGE.parent / path).exists()] == []
