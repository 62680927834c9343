"""Imports point one way, imports hidden in functions included."""

import ast
from functools import cache
from pathlib import Path

import pytest

import nbchat

PACKAGE = Path(nbchat.__file__).parent

LAYERS = [
    {"errors", "history"},
    {"ties"},
    {"recall"},
    {"session"},
    {"configuration", "configuration.site_files", "configuration.addresses"},
    {"billing", "events", "models", "tokens", "tools", "configuration.config"},
    {"approvals"},
    {"door"},
    {"providers.base", "providers.pump"},
    {
        "providers",
        "providers.*",
        "compaction",
        "compaction.*",
        "attaching",
        "attaching.*",
        "rendering",
        "rendering.*",
        "storage",
        "storage.*",
        "testing",
        "replay",
    },
    {"upkeep", "unfinished", "configuration.preferences"},
    {"agent", "demo"},
    {"build", "following"},
    {"course"},
    {"worker", "commands", "commands.*", "cell"},
    {"ui", "ui.*"},
    {"notebook", "doctor"},
    {"magics", "server", "cli"},
    {""},
]
"""From the ground up: a module imports from its own layer or from below, never above."""

OUTSIDE = {
    "ipywidgets": {"ui.chat_ui"},
    "anywidget": {"ui.chat_ui"},
    "IPython": {"ui.closed", "attaching.shell", "cell", "notebook", "magics", ""},
    "sqlalchemy": {"storage.database", "storage.store"},
    "openai": {"providers.openai"},
    "anthropic": {"providers.anthropic"},
    "xllamacpp": {"providers.llama_server"},
    "tiktoken": {"tokens"},
    "nbclient": {"cli"},
    "latex2mathml": {"rendering.mathml"},
    "jupyter_server": {"server", "doctor"},
    "tornado": {"server"},
}
"""Who may import a heavy package."""


def module_name(file: Path) -> str:
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {module_name(file): file for file in sorted(PACKAGE.rglob("*.py"))}


def imports(file: Path, *, with_types: bool = False) -> set[str]:
    """Every module a file names in an import, wherever it stands."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    hidden = set() if with_types else {id(n) for n in type_checking_nodes(tree)}
    found = set()
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
    return found


def type_checking_nodes(tree: ast.AST) -> list[ast.AST]:
    return [
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    ]


@cache
def own_imports(name: str) -> set[str]:
    inside = {
        i.removeprefix("nbchat.")
        for i in imports(MODULES[name])
        if i.startswith("nbchat.")
    }
    return {module for module in inside if module in MODULES}


def layer(name: str) -> int:
    for number, names in enumerate(LAYERS):
        if name in names:
            return number
    for number, names in enumerate(LAYERS):
        if f"{name.partition('.')[0]}.*" in names and "." in name:
            return number
    raise AssertionError(f"{name or 'nbchat/__init__'} is in no layer: give it a place")


@pytest.mark.parametrize("name", MODULES)
def test_imports_point_downwards(name: str):
    upwards = {other for other in own_imports(name) if layer(other) > layer(name)}
    assert upwards == set()


def test_no_module_imports_itself_in_a_circle():
    def reaches(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for other in own_imports(waiting.pop()) - seen:
                seen.add(other)
                waiting.append(other)
        return seen

    assert [name for name in MODULES if name in reaches(name)] == []


@pytest.mark.parametrize(("package", "allowed"), OUTSIDE.items())
def test_heavy_packages_have_one_door_each(package: str, allowed: set[str]):
    users = {
        name
        for name, file in MODULES.items()
        if any(i.partition(".")[0] == package for i in imports(file))
    }
    assert users <= allowed


def test_no_module_is_empty_or_over_400_lines():
    sizes = {name: len(file.read_text().splitlines()) for name, file in MODULES.items()}
    assert [name for name, size in sizes.items() if not 0 < size <= 400] == []
