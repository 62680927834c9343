"""Summarize the values of a column: missing, different, the range, the most frequent.

Values are named by their positions, so that each is shown as its own library writes it.
Numbers, times and codes are counted by numpy; other values by Python, and only if all
their types are known, for `==` and `hash` of others may be code of the user.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any, NamedTuple
from uuid import UUID

from nbchat.chat.attachments.short_repr import is_pandas_value
from nbchat.conversation.live_variables import is_one_of, type_name

EXACT_ROWS, ROWS_SAMPLED = 200_000, 100_000
"""Rows up to which all are counted, and how many are looked at of more."""

GOLDEN_RATIO = 0.618033988749895
"""Its multiples are spread evenly, and in step with nothing that repeats in data."""

FIRST_ROWS = 5
"""First rows of a table, which are looked at whatever is left out."""

FREQUENT_SHOWN = 3
"""Most frequent values of a column of texts; of few different numbers, all of them."""

FEW = 5
"""Different numbers up to which each is shown with its count."""

LOOKED_AT = 200
"""Texts that are looked at before all are, to see whether they are numbers."""

_NUMBERS = (int, float, Decimal, bool)
_COUNTED = (*_NUMBERS, str, date, timedelta, UUID)
_ORDERED = ({date}, {timedelta})
_PRESENT = (int, Decimal, bool, str, date, timedelta, UUID)
"""Types none of whose values stands for a missing one."""


class Summary(NamedTuple):
    """The figures of a column's values, by their positions."""

    missing: int | None = None
    """None: not counted."""
    first_missing: int | None = None
    unique: int | None = None
    """None: not counted, for a type of the values is not known."""
    ends: tuple[int, int] | None = None
    """Positions of the least and the greatest value."""
    frequent: Sequence[tuple[int, int]] = ()
    """Positions of the most frequent values, and how often each occurs."""
    note: str = ""
    """The types of the values, where there are several."""


def spread(rows: int) -> Sequence[int]:
    """Numbers of the rows that are looked at: all, or the first and some of the others.

    The others are spread evenly.
    """
    if rows <= EXACT_ROWS:
        return range(rows)
    step = rows // ROWS_SAMPLED
    even = [
        n * rows // ROWS_SAMPLED + int(n * GOLDEN_RATIO % 1 * step)
        for n in range(ROWS_SAMPLED)
    ]
    return [*range(FIRST_ROWS), *even[FIRST_ROWS:]]


def summary_text(found: Summary, show: Callable[[int], str]) -> str:
    """A summary in words; `show` writes the value at a position."""
    parts = [] if found.missing is None else [f"{found.missing:,} missing"]
    if found.unique is not None:
        parts.append(f"{found.unique:,} different")
    if found.frequent:
        most = (f"{show(place)} ({count:,})" for place, count in found.frequent)
        parts.append(", ".join(most))
    elif found.ends:
        parts.append(f"{show(found.ends[0])} to {show(found.ends[1])}")
    return "; ".join(filter(None, (*parts, found.note)))


def of_keys(keys: Any, missing: Any, *, is_ordered: bool) -> Summary:
    """A summary of a numpy array, of which some elements stand for missing values.

    Without an order its elements are codes: whole numbers that begin at 0.
    """
    import numpy as np  # noqa: PLC0415  # optional; the array is from it

    places = np.flatnonzero(~missing)
    count = int(len(keys) - len(places))
    first = int(np.argmax(missing)) if count else None
    if not len(places):
        return Summary(count, first, 0)
    present = keys[places] if count else keys
    ordered = np.sort(present)  # np.unique hashes floats, which takes ten times as long
    different = 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
    found = Summary(count, first, different)
    if is_ordered:
        low, high = np.argmin(present), np.argmax(present)
        found = found._replace(ends=(int(places[low]), int(places[high])))
    if different == len(present) or (is_ordered and different > FEW):
        return found
    most = most_frequent(_counts(present, places), different, len(present), found)
    return found._replace(frequent=most)


def of_array(values: Any) -> Summary:
    """A summary of a numpy array of one dimension."""
    import numpy as np  # noqa: PLC0415  # the array is from it

    kind = values.dtype.kind
    if kind in "mM":
        missing = np.isnat(values)
        return of_keys(values.view(np.int64), missing, is_ordered=True)
    if kind in "iufb":
        missing = np.isnan(values) if kind == "f" else np.zeros(len(values), bool)
        return of_keys(values, missing, is_ordered=True)
    return of_objects(values.tolist())


def _counts(present: Any, places: Any) -> list[tuple[int, int]]:
    """The most frequent elements, each with a position of it and its count."""
    import numpy as np  # noqa: PLC0415  # as above

    values, counts = np.unique(present, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:FEW]
    return [
        (int(places[np.argmax(present == values[n])]), int(counts[n])) for n in order
    ]


def of_objects(values: Sequence[object]) -> Summary:
    """A summary of Python's objects."""
    kinds = {id(type(value)): type(value) for value in values}
    may_miss = [kind for kind in kinds.values() if not is_one_of(kind, _PRESENT)]
    gone = {n for n, each in enumerate(values) if is_missing(each)} if may_miss else ()
    present = (
        [each for n, each in enumerate(values) if n not in gone] if gone else values
    )
    found = Summary(len(gone), min(gone, default=None))
    types = Counter(map(id, map(type, present)))
    named = ", ".join(
        f"{type_name(kinds[key]).removeprefix('builtins.')} {count:,}"
        for key, count in types.most_common(FEW)
    )
    if not all(is_one_of(kinds[key], _COUNTED) for key in types):
        return found._replace(note=f"values of the types {named}")
    note = f"mixed types: {named}" if len(types) > 1 else ""
    return _counted(values, present, found._replace(note=note))


def _counted(values: Sequence[Any], present: Sequence[Any], found: Summary) -> Summary:
    """The summary of values of known types."""
    counts = Counter(present)
    found = found._replace(unique=len(counts))
    kinds = {type(each) for each in counts}
    if kinds == {str}:
        found = found._replace(note=numeric_note(list(counts), list(counts.values())))
    if kinds and (kinds <= {*_NUMBERS} or kinds in _ORDERED):
        found = found._replace(ends=_ends(values, present))
    most = most_frequent(counts.most_common(FEW), len(counts), len(present), found)
    return found._replace(frequent=[(values.index(each), n) for each, n in most])


def most_frequent(
    most: Sequence[tuple[Any, int]], different: int, count: int, found: Summary
) -> Sequence[tuple[Any, int]]:
    """The values to show: none where all differ, or where a range says more."""
    if different == count or (found.ends and different > FEW):
        return ()
    return most[: FEW if different <= FEW else FREQUENT_SHOWN]


def _ends(values: Sequence[Any], present: Sequence[Any]) -> tuple[int, int]:
    return values.index(min(present)), values.index(max(present))


def numeric_note(texts: Sequence[Any], counts: Sequence[int]) -> str:
    """How many texts are numbers, where at least half of the first ones are."""
    first = texts[:LOOKED_AT]
    if sum(map(_is_number, first)) * 2 < max(len(first), 1):
        return ""
    pairs = zip(texts, counts, strict=True)
    numbers = sum(count for text, count in pairs if _is_number(text))
    return f"texts, of which {numbers:,} are numbers"


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text.replace(",", ".")))
    except ValueError:
        return False


def is_missing(value: object) -> bool:
    """True if a value stands for none: None, NaN, NaT and NA."""
    if value is None or type(value) is float:
        return value is None or value != value  # noqa: PLR0124  # NaN
    is_none = type_name(type(value)).rpartition(".")[2] in ("NaTType", "NAType")
    return is_none and is_pandas_value(value)
