"""Look up a part of a variable, such as `df.amount`, `df["a b"]` or `rows[:5]`.

No code of the user runs: only literal keys, on containers and tables whose types are
known by identity, and attributes in an instance's own `__dict__`.
"""

import ast
import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from nbchat.chat.attachments.value_preview import attributes_of, comes_from
from nbchat.errors import AttachmentError

_CONTAINERS = (list, tuple, dict, str, bytes, range)
_TABLES = ("DataFrame", "Series", "ndarray")
_TABLE_PACKAGES = ("pandas", "polars", "numpy")


def part_of(name: str, values: Mapping[str, object]) -> object:
    """The value of a reference; raises AttachmentError if there is no such part."""
    try:
        return _value(ast.parse(name, mode="eval").body, values)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise AttachmentError(
            f"@{name} cannot be read; use a name, attributes and literal keys, as in "
            '@data["rows"][0]'
        ) from None


def nearest(name: str, names: Iterable[object]) -> str:
    """A hint at the most similar name; empty if none is."""
    found = difflib.get_close_matches(name, map(str, names), n=1)
    return f"; did you mean {found[0]}?" if found else ""


def _value(node: ast.expr, values: Mapping[str, object]) -> object:
    match node:
        case ast.Name(name):
            return values[name]
        case ast.Attribute(inner, name):
            return _attribute(_value(inner, values), name)
        case ast.Subscript(inner, key):
            return _item(_value(inner, values), _key(key))
    raise ValueError


def _attribute(value: Any, name: str) -> object:
    if _is_table(value) and type(value).__name__ == "DataFrame":
        return _item(value, name)
    own = attributes_of(value)
    if name in own:
        return own[name]
    raise AttachmentError(f"there is no {name} in it{nearest(name, own)}")


def _item(value: Any, key: object) -> object:
    if type(value) not in _CONTAINERS and not _is_table(value):
        raise AttachmentError(f"the part {key!r} of this value cannot be attached")
    try:
        return value[key]
    except Exception:  # noqa: BLE001  # pandas raises errors of many kinds
        known = getattr(value, "columns", value if type(value) is dict else ())
        hint = nearest(str(key), list(known)[:1000])
        raise AttachmentError(f"there is no {key!r} in it{hint}") from None


def _key(node: ast.expr) -> object:
    if isinstance(node, ast.Slice):
        parts = (node.lower, node.upper, node.step)
        return slice(
            *(None if each is None else ast.literal_eval(each) for each in parts)
        )
    if isinstance(node, ast.Tuple):
        return tuple(map(_key, node.elts))
    return ast.literal_eval(node)


def _is_table(value: object) -> bool:
    kind = type(value)
    return kind.__name__ in _TABLES and comes_from(kind, *_TABLE_PACKAGES)
