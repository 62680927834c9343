"""A value is described within limits, and no code but Python's own runs."""

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cpu_time import CpuTime
from pandas.tests.extension.decimal import DecimalArray, DecimalDtype
from tables import every

from nbchat.chat.attachments.short_repr import short_repr
from nbchat.chat.attachments.value_preview import TEXT_LIMIT, describe_value, truncated
from nbchat.conversation.secret_masking import is_secret_name, without_secrets


class Hostile:
    """Whatever is asked of it ends the test."""

    def __init__(self) -> None:
        self.number = 3
        self._hidden = 4

    def __getattribute__(self, name: str) -> object:
        raise SystemExit(name)

    def _refuse(self, *_: object) -> Any:
        raise SystemExit

    __repr__ = __str__ = __len__ = __iter__ = __hash__ = __eq__ = _refuse


class HostileType(type):
    """A class that asks back when it is asked."""

    def __getattribute__(cls, name: str) -> object:
        raise SystemExit(name)

    def __eq__(cls, other: object) -> bool:
        raise SystemExit

    def __hash__(cls) -> int:
        raise SystemExit


def odd() -> object:
    """An instance of such a class, which nothing else may see."""
    return HostileType("Odd", (), {})()


class Faking:
    @property
    def __dict__(self) -> dict[str, object]:  # type: ignore[override]
        raise SystemExit


class Zone(tzinfo):
    def utcoffset(self, _: object) -> Any:
        raise SystemExit

    def __repr__(self) -> str:
        raise SystemExit


class Loud(str):
    __slots__ = ()

    def __repr__(self) -> str:
        raise SystemExit


@every(
    ("value", "text"),
    [
        (5, "5"),
        (2.5, "2.5"),
        (None, "None"),
        (range(3), "range(0, 3)"),
        ("it's", '"it\'s"'),
        (b"ab", "b'ab'"),
        ([1, (2,), {3}], "[1, (2), {3}]"),
        (deque([1]), "deque([1])"),
        ({"a": [1]}, "{'a': [1]}"),
        (OrderedDict(a=1), "{'a': 1}"),
        (defaultdict(list, a=[]), "{'a': []}"),
        (Counter("aa"), "{'a': 2}"),
        (date(2026, 1, 2), "datetime.date(2026, 1, 2)"),
        (PurePosixPath("a"), "PurePosixPath('a')"),
        (np.float64(2.5), "2.5"),
        (np.str_("a"), "'a'"),
        (object(), "object()"),
    ],
)
def test_a_value_is_shown_like_its_repr(value: object, text: str):
    assert short_repr(value) == text


def test_an_instance_shows_its_own_attributes():
    assert short_repr(Hostile()).endswith("Hostile(number=3)")


def array_of(*values: object) -> "np.ndarray[Any, np.dtype[np.object_]]":
    """Filled one by one: some versions of numpy ask the objects of a list."""
    array = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        array[place] = value
    return array


def hostile_column() -> pd.DataFrame:
    values = array_of(Hostile(), Hostile(), Hostile())
    return pd.DataFrame({"a": pd.Series(values, dtype=object)})


@every(
    "make",
    [
        Hostile,
        odd,
        Faking,
        lambda: Loud("x"),
        lambda: datetime(2026, 1, 1, tzinfo=Zone()),
        lambda: [Hostile()],
        lambda: {"a": Hostile(), "b": Loud("x")},
        hostile_column,
        lambda: pd.Series([1], index=pd.Index([Loud("x")], dtype=object)),
        lambda: array_of(None, odd()),
    ],
)
def test_no_user_code_is_run(make: Callable[[], object]):
    assert describe_value(make())


def test_a_frame_that_cannot_be_read_shows_its_type():
    broken = pd.DataFrame({"a": [1]})
    object.__setattr__(broken, "_mgr", None)
    assert describe_value(broken) == f"{pd.DataFrame.__module__}.DataFrame"


class OwnDtype(DecimalDtype):
    pass


class OwnArray(DecimalArray):
    """A column that ends the test when it is read after it was made."""

    is_made = False

    @property
    def dtype(self) -> OwnDtype:
        return OwnDtype()

    def __getitem__(self, place: Any) -> object:
        if OwnArray.is_made:
            raise SystemExit
        return super().__getitem__(place)


def test_a_column_of_a_custom_type_shows_only_its_name():
    frame = pd.DataFrame({"a": OwnArray([Decimal(1)]), "b": [2]})
    OwnArray.is_made = True
    shown = describe_value(frame).splitlines()
    assert shown[0] == "DataFrame of 1 rows x 2 columns: a, b"
    assert shown[-2:] == ["   a  b", "0  …  2"]


def test_a_frame_shows_its_shape_types_and_first_rows():
    frame = pd.DataFrame(
        {"id": range(1_200), "day": pd.Timestamp("2026-01-02"), "kind": "a\nb"}
    )
    lines = [" ".join(line.split()) for line in describe_value(frame).splitlines()]
    assert lines == [  # in columns, whose width depends on the version of pandas
        "DataFrame of 1,200 rows x 3 columns: id, day, kind",
        "columns:",
        "- id: int64; 0 missing; 1,200 different; 0 to 1199",
        f"- day: {frame.day.dtype}; 0 missing; 1 different; {frame.day[0]} (1,200)",
        f"- kind: {frame.kind.dtype}; 0 missing; 1 different; a b (1,200)",
        "the first 5 of 1,200 rows:",
        "id day kind",
        *(f"{n} {n} {frame.day[n]} a b" for n in range(5)),
        "rows with missing values or extremes:",
        f"1199 1199 {frame.day[0]} a b",
    ]


def test_a_series_and_an_array_show_their_first_values():
    assert describe_value(pd.Series([7, 8], index=["x", "y"], name="n")).splitlines()[
        -2:
    ] == ["x  7", "y  8"]
    corner = describe_value(np.arange(1_000_000).reshape(10, 100, 1_000)).splitlines()
    assert corner[:3] == [
        "array of 10 x 100 x 1,000, int64",
        "values: of 100,000 spread evenly: 0 missing; 100,000 different; 0 to 999997",
        "the first values:",
    ]
    assert len(corner) == 8
    assert corner[3] == "  ".join(map(str, range(10)))
    assert describe_value(np.zeros((0, 3, 3))) == "array of 0 x 3 x 3, float64"
    assert describe_value(np.array(3)).endswith("\n3")


def test_a_time_is_shown_with_its_known_zone():
    assert "timezone.utc" in short_repr(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    [
        "x" * 10_000_000,
        10**100_000,
        list(range(1_000_000)),
        [["x" * 1_000] * 1_000] * 1_000,
        dict.fromkeys(range(10000), "y" * 1000),
        pd.DataFrame({f"column {n}": ["z" * 1_000] * 9 for n in range(1_000)}),
        np.zeros((2_000, 2_000)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_huge_value_is_shown_within_the_limit_at_once(value: object):
    began = CpuTime()
    assert len(describe_value(value)) < TEXT_LIMIT + 100
    assert began.spent() < 1


def test_a_recursive_value_is_shown():
    value: list[object] = []
    value.append(value)
    assert describe_value(value) == "list of 1 items\n[[[[…]]]]"


def test_a_string_is_shown_unchanged():
    assert describe_value("one\ntwo") == "str of length 7\none\ntwo"
    assert describe_value("length") == "str of length 6\nlength"
    assert "… 9,992,000 characters" in describe_value("x" * (10_000_000 - 24))


def test_secrets_inside_a_value_are_hidden():
    frame = pd.DataFrame({"user": ["ann"], "password": ["hunter2"]})
    inside = {"OPENAI_API_KEY": "hunter2", "url": "http://x"}
    for value in (frame, inside, [inside]):
        assert "hunter2" not in without_secrets(describe_value(value))[0]
    assert "http://x" in without_secrets(describe_value(inside))[0]


@every(
    "name", ["API_KEY", "openaiKey", "token", "AWS_SECRET_2", "db_password", "passwd"]
)
def test_a_name_like_api_key_is_a_secret_name(name: str):
    assert is_secret_name(name)


COLUMNS = [
    "key",
    "primary_key",
    "tokens",
    "tokenizer",
    "token_count",
    "monkeys",
    "spin",
]


def test_an_ordinary_name_is_not_a_secret_name():
    assert not any(
        map(is_secret_name, ["df", "prices", "passengers", "secondary", *COLUMNS])
    )


def test_a_long_text_loses_its_middle_with_a_note():
    text = truncated("a" * TEXT_LIMIT + "z" * 1_000)
    assert text.startswith("a")
    assert text.endswith("z")
    assert "… 1,000 characters omitted …" in text


def test_describing_a_value_does_not_import_pandas(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "pandas")
    assert describe_value([1]) == "list of 1 items\n[1]"
    assert "pandas" not in sys.modules
