"""Describe the kernel's variables: names, types, shapes.

The variables that a conversation mentions are described at every compaction, for a
summary may forget what `df` is. Objects of unknown types are not touched: their `repr`,
`len` and attributes may be slow, huge or hostile. Of texts only the length is shown,
for they may be secrets, and no number whose name says that it is one.
"""

import re
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

from nbchat.conversation.entries import Entry
from nbchat.conversation.secret_masking import HIDDEN, is_secret_name, without_secrets

COLUMNS_SHOWN = 20

NAME_LENGTH, LINE_LENGTH = 40, 300
"""Characters of a column's or type's name, and of one variable's line."""

Describe = Callable[[object], str]

_WORD = re.compile(r"\w+")
_UNFIT = (ModuleType, FunctionType, BuiltinFunctionType, MethodType, type)
_SCALARS = (bool, float, complex, type(None))
_TEXTS = (str, bytes, bytearray)
_SIZED = (
    *(list, tuple, dict, set, frozenset, range),
    *(deque, defaultdict, OrderedDict, Counter),
)


def mentioned(entries: Sequence[Entry], namespace: Mapping[str, object]) -> list[str]:
    """Names of variables that messages or calls mention, newest first.

    A name of one letter counts only inside backticks or a call: "a" is an English word.
    Modules, functions, classes and names with a leading underscore are left aside.
    """
    fit = {name for name in namespace if is_fit(name, namespace[name])}
    found: dict[str, None] = {}
    for entry in reversed(entries):
        for text, is_code in _texts(entry):
            words = dict.fromkeys(_WORD.findall(text))
            found |= {w: None for w in words if w in fit and (is_code or len(w) > 1)}
    return list(found)


def describe_variables(
    namespace: Mapping[str, object], *, names: Iterable[str]
) -> list[str]:
    """A line for each existing variable: its name, type, and shape or value."""
    return [_line(name, namespace[name]) for name in names if name in namespace]


def reader(
    namespace: Callable[[], Mapping[str, object]],
) -> Callable[[Sequence[Entry]], list[str]]:
    """A function that describes the variables that entries mention."""

    def describe_mentioned(entries: Sequence[Entry]) -> list[str]:
        variables = dict(namespace())
        return describe_variables(variables, names=mentioned(entries, variables))

    return describe_mentioned


def is_fit(name: str, value: object) -> bool:
    """Whether a variable is data: no module, function or class, and not private."""
    if type(name) is not str or name.startswith("_") or name in ("In", "Out"):
        return False
    # The type, not isinstance: that would ask the object's own __class__.
    return not issubclass(type(value), _UNFIT)


def _texts(entry: Entry) -> Iterable[tuple[str, bool]]:
    """The texts of an entry, and whether they are code."""
    if entry.is_call:
        return [(entry.tool_args, True)]
    if entry.role not in ("user", "assistant"):
        return []
    return [(entry.content, False), (" ".join(entry.content.split("`")[1::2]), True)]


def _line(name: str, value: object) -> str:
    """A variable's line, without what may be a secret."""
    kind = type(value)
    if is_secret_name(name) and (kind is int or is_one_of(kind, _SCALARS)):
        return f"- {name}: {kind.__name__}, {HIDDEN}"[:LINE_LENGTH]
    return f"- {name}: {without_secrets(_guarded(value))[0]}"[:LINE_LENGTH]


def _guarded(value: object) -> str:
    """A description; the type alone if the value fails to describe itself."""
    try:
        return _described(value)
    except Exception:  # noqa: BLE001  # a data frame may contain anything
        return type_name(type(value))


def _described(value: object) -> str:
    kind = type(value)
    if kind is int:
        return _integer(value)
    if is_one_of(kind, _SCALARS):
        return f"{kind.__name__} {value!r}"
    if is_one_of(kind, _TEXTS):
        return f"{kind.__name__} of length {len(value):,}"  # type: ignore[arg-type]
    if is_one_of(kind, _SIZED):
        return f"{kind.__name__} of {len(value):,} items"  # type: ignore[arg-type]
    for module, name, describe in _KNOWN:
        if kind is getattr(sys.modules.get(module), name, None):
            return describe(value)
    return type_name(kind)


def is_one_of(kind: type, kinds: Iterable[type]) -> bool:
    """By identity: `in` would ask the metaclass for its `==`."""
    return any(kind is each for each in kinds)


def _integer(value: object) -> str:
    bits = int.bit_length(value)  # type: ignore[arg-type]
    return f"int {value!r}" if bits <= LINE_LENGTH else f"int of {bits:,} bits"


def _frame(value: object) -> str:
    rows, columns = value.shape  # type: ignore[attr-defined]
    names = [_label(name) for name in value.columns[:COLUMNS_SHOWN]]  # type: ignore[attr-defined]
    more = [f"and {columns - COLUMNS_SHOWN:,} more"] * (columns > COLUMNS_SHOWN)
    listed = ", ".join([*names, *more])
    return f"DataFrame of {rows:,} rows x {columns:,} columns: {listed}"


def _series(value: object) -> str:
    name, dtype = value.name, value.dtype  # type: ignore[attr-defined]
    return f"Series {_label(name)} of {len(value):,}, {_label(str(dtype))}"  # type: ignore[arg-type]


def _array(value: object) -> str:
    shape = " x ".join(f"{size:,}" for size in value.shape)  # type: ignore[attr-defined]
    return f"array of {shape or 'one value'}, {_label(str(value.dtype))}"  # type: ignore[attr-defined]


def _number(value: object) -> str:
    return f"{type(value).__name__} {value.item()!r}"  # type: ignore[attr-defined]


def _label(name: object) -> str:
    """A column's name if it is plain, else its type, on one line."""
    if type(name) in (str, int, float, bool, type(None)):
        return " ".join(str(name).split())[:NAME_LENGTH]
    return type_name(type(name))


def type_name(kind: type) -> str:
    """The type's name as Python keeps it, whatever its metaclass would say."""
    name = type.__dict__["__qualname__"].__get__(kind)
    module = type.__dict__["__module__"].__get__(kind)
    is_plain = type(module) is str and module != "__main__"
    full = f"{module}.{name}" if is_plain else str(name)
    return " ".join(full.split())[: NAME_LENGTH * 2]


_KNOWN: tuple[tuple[str, str, Describe], ...] = (
    ("pandas", "DataFrame", _frame),
    ("pandas", "Series", _series),
    ("numpy", "ndarray", _array),
    ("numpy", "float64", _number),
    ("numpy", "int64", _number),
)
"""Types whose shape is read, looked up only if they are imported; the type itself is
compared, for any class can be named DataFrame."""
