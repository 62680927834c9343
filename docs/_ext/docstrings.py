"""Docstrings of nbchat for autodoc: plain text with code in backticks.

They are no reStructuredText. An example is a paragraph that Python can parse. Types in
signatures link to the public name of a class where it has one.
"""

import ast
import re
from typing import Any, get_args

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from nbchat.conversation.events import Event

_CODE = re.compile(r"`([^`]+)`")
_ALL_EVENTS = re.compile(
    r" \| ".join(rf"~?(?:[\w.]+\.)?{each.__name__}" for each in get_args(Event))
)
_MARKUP = re.compile(r"([*|_\\])")


def as_rest(text: str) -> list[str]:
    """A docstring as lines of reStructuredText."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        if is_code(paragraph):
            code = re.sub("^", "    ", _dedented(paragraph), flags=re.MULTILINE)
            lines += ["::", "", *code.split("\n"), ""]
        else:
            lines += [*_prose(_dedented(paragraph)).split("\n"), ""]
    return lines


def is_code(paragraph: str) -> bool:
    """Whether a paragraph is an example: Python, or shown as it is."""
    try:
        tree = ast.parse(_dedented(paragraph))
    except SyntaxError:
        return paragraph.startswith("    ")
    return not all(
        isinstance(each, ast.Expr) and isinstance(each.value, ast.Name | ast.Constant)
        for each in tree.body
    )


def _dedented(paragraph: str) -> str:
    lines = paragraph.split("\n")
    indent = min(
        (len(each) - len(each.lstrip()) for each in lines if each.strip()), default=0
    )
    return "\n".join(each[indent:] for each in lines)


def _prose(text: str) -> str:
    parts = _CODE.split(text)
    return "".join(
        f"``{part}``" if index % 2 else _MARKUP.sub(r"\\\1", part)
        for index, part in enumerate(parts)
    )


def rewrite(  # Sphinx calls it so
    _app: Sphinx, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]
) -> None:
    """Rewrite a docstring in place."""
    lines[:] = as_rest("\n".join(lines))


def name_events(  # Sphinx calls it so
    _app: Sphinx,
    _what: str,
    _name: str,
    _thing: Any,
    _options: Any,
    signature: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    """Write the union of all events as `Event`."""
    return _events_named(signature), _events_named(returned)


def _events_named(text: str | None) -> str | None:
    return text and _ALL_EVENTS.sub("~nbchat.Event", text)


def resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, contnode: nodes.Element
) -> nodes.Node | None:
    """Link a type to its public name; types without one are text.

    A name that a page itself links to must exist.
    """
    if node.get("refdomain") != "py":
        return None
    target = str(node.get("reftarget", ""))
    if not target.startswith("nbchat."):
        return contnode
    name = target.rpartition(".")[2]
    domain = env.domains["py"]
    for public in (f"nbchat.{name}", f"nbchat.errors.{name}", f"nbchat.testing.{name}"):
        if public in domain.objects and public != target:  # type: ignore[attr-defined]
            return domain.resolve_xref(
                env, node["refdoc"], app.builder, "obj", public, node, contnode
            )
    return None if target.count(".") == 1 else contnode


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect them."""
    app.connect("autodoc-process-docstring", rewrite)
    app.connect("autodoc-process-signature", name_events)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True}
