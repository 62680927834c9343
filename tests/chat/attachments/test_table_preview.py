"""A table is described so that questions about it can be answered."""

import sys
from collections.abc import Callable
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from cpu_time import CpuTime
from shapely.geometry import Point, Polygon
from tables import every

from nbchat.chat.attachments.value_preview import TEXT_LIMIT, describe_value


def orders(rows: int = 2_000) -> pd.DataFrame:
    """A quarter of the amounts is missing, but none of the first five."""
    random = np.random.default_rng(7)
    amounts = random.gamma(2, 50, rows).round(2)
    amounts[random.permutation(np.arange(5, rows))[: rows // 4]] = np.nan
    return pd.DataFrame(
        {
            "order": [f"A{number}" for number in range(rows)],
            "amount": amounts,
            "region": random.choice(["north", "south", "east"], rows),
            "day": pd.date_range("2026-01-01", periods=rows, freq="h"),
        }
    )


def line_of(value: object, name: str) -> str:
    """The line about one column."""
    start = f"- {name}: "
    return next(
        line.removeprefix(start)
        for line in describe_value(value).splitlines()
        if line.startswith(start)
    )


LIBRARIES: dict[str, Callable[[pd.DataFrame], object]] = {
    "pandas": lambda frame: frame,
    "pandas, Arrow types": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "pandas, objects": lambda frame: frame.astype({"order": object, "region": object}),
    "polars": pl.from_pandas,
    "pyarrow": pa.Table.from_pandas,
    "subclass": type("Orders", (pd.DataFrame,), {}),
}


@every("library", LIBRARIES)
def test_missing_values_that_no_first_row_shows_are_counted(library: str):
    frame = orders()
    value = LIBRARIES[library](frame)
    amount = line_of(value, "amount")
    low, high = frame.amount.min(), frame.amount.max()
    assert "500 missing; " in amount
    assert f"{frame.amount.nunique():,} different; {low} to {high}" in amount
    counts = frame.region.value_counts()
    most = ", ".join(f"{name} ({count:,})" for name, count in counts.items())
    assert line_of(value, "region").endswith(f"0 missing; 3 different; {most}")
    assert line_of(value, "order").endswith("0 missing; 2,000 different")
    days = "2,000 different; 2026-01-01 00:00:00 to 2026-03-25 07:00:00"
    assert line_of(value, "day").endswith(days)


@every("library", LIBRARIES)
def test_rows_with_missing_values_and_extremes_are_shown(library: str):
    frame = orders()
    shown = describe_value(LIBRARIES[library](frame)).partition("or extremes:\n")[2]
    rows = {line.split()[0] for line in shown.splitlines()}
    wanted = (
        frame.amount.isna().argmax(),
        frame.amount.argmin(),
        frame.amount.argmax(),
    )
    assert {str(each) for each in wanted} <= rows


@every(("value", "shown"), [
        (pd.Series(pd.to_datetime(["2026-05-03", None])), ("2026-05-03", "NaT")),
        (pd.Series(pd.array([3, None], dtype="Int64")), ("3", "<NA>")),
        (pd.Series(pd.to_timedelta(["1h", None])), ("0 days 01:00:00", "NaT")),
        (
            pd.Series([1, 2], index=pd.period_range("2026-01", periods=2, freq="M")),
            ("2026-01 ", "2026-02 "),
        ),
        (pd.Series(pd.cut([1, 30], [0, 18, 65])), ("(0, 18]", "(18, 65]")),
        (pd.Series([np.zeros(3), {"a": [1]}]), ("array of 3, float64", "{'a': [1]}")),
        (pd.DataFrame({"a": [[1, 2]], "b": [{"c": 3}]}), ("[1, 2]", "{'c': 3}")),
        (pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("sales", "Q1")])),
         ("1 columns: (sales, Q1)",)),
        (pd.date_range("2026", periods=2), ("2026-01-01", "2026-01-02")),
        (pd.RangeIndex(3), ("RangeIndex",)),
        (pd.MultiIndex.from_tuples([("a", 1)], names=["x", "y"]), ("- x: ", "- y: ")),
        (pl.DataFrame({"n": [1, None]}), ("- n: Int64; 1 missing", "None")),
        (pl.DataFrame({"x": [1.5, float("nan")]}), ("- x: Float64; 1 missing",)),
        (pl.Series("n", [[1], [2, 3]]), ("List(Int64)",)),
        (pl.DataFrame({"s": ["a", None, "a"]}), ("1 missing; 1 different; a (2)",)),
        (pa.table({"s": ["a", None, "a"]}), ("1 missing; 1 different; a (2)",)),
        (pa.table({"d": pa.array([1, None], pa.duration("s"))}), ("1 missing",)),
        (pd.DataFrame({"a": [np.nan] * 3}), ("- a: float64; 3 missing; 0 different",)),
        (pd.DataFrame({"a": []}), ("DataFrame of 0 rows x 1 columns: a",)),
        (pl.DataFrame({"n": [None] * 9}), ("9 missing; 0 different",)),
        (pd.Series([1 + 2j] * 9), ("complex128",)),
        (pd.DataFrame({"d": [pd.Timestamp("2026").date()] * 9}), ("2026-01-01 (9)",)),
        ({"lr": 0.1, "weights": np.zeros(3)}, ("'lr': 0.1", "array of 3, float64")),
        ({"t": pd.Timedelta("1h"), "n": pd.NaT}, ("0 days 01:00:00", "NaT")),
        ([pd.DataFrame({"a": [1]})], ("DataFrame of 1 rows x 1 columns: a",)),
        (
            gpd.GeoDataFrame(
                {"name": ["x", "y"]},
                geometry=[Point(1, 2), Polygon([(0, 0), (1, 0), (1, 1)])],
            ),
            ("GeoDataFrame", "geometry: geometry", "POINT (1 2)", "Polygon within (0"),
        ),
        (xr.DataArray(np.arange(6.0), dims="x"), ("values: x 6; float64", "0.0 to 5.0")),
        (
            xr.Dataset({"t": (("x", "y"), [[1.0, np.nan]] * 4)}, {"x": range(4)}),
            ("- t: x 4 x y 2; float64", "4 missing"),
        ),
    ])  # fmt: skip
def test_values_of_all_libraries_are_readable(value: object, shown: tuple[str, ...]):
    text = describe_value(value)
    assert [each for each in shown if each not in text] == []


def test_a_small_table_is_shown_whole():
    text = describe_value(orders(30))
    assert "all 30 rows:" in text
    assert all(f"A{number} " in text for number in range(30))


def test_a_mixed_column_says_which_types_it_has():
    mixed = pd.DataFrame({"n": [1.5, "n/a", 2.5, None]})
    assert "1 missing; 3 different" in line_of(mixed, "n")
    assert "mixed types: float 2, str 1" in line_of(mixed, "n")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_numbers_that_are_kept_as_texts_are_counted(make: Callable[[Any], object]):
    amounts = make({"n": ["1.5", "n/a", "2", "3"] * 100})
    assert "texts, of which 300 are numbers" in line_of(amounts, "n")


class Shouting(pd.DataFrame):
    """A frame whose own code must not run."""

    @property
    def _constructor(self) -> Any:
        raise SystemExit

    def __getitem__(self, _: Any) -> Any:
        raise SystemExit

    def __len__(self) -> int:
        raise SystemExit

    columns = iloc = shape = dtypes = index = property(__len__)  # type: ignore[assignment]


def test_the_code_of_a_subclass_does_not_run():
    frame = orders().__deepcopy__()
    frame.__class__ = Shouting
    text = describe_value(frame)
    assert text.startswith("Shouting (a DataFrame) of 2,000 rows x 4 columns: order")
    assert "500 missing" in text


class Unreadable:
    """A value that cannot be shown."""

    def __repr__(self) -> str:
        raise ValueError

    __hash__ = __eq__ = __str__ = __repr__  # type: ignore[assignment]


def test_one_unreadable_value_costs_its_cell():
    values = np.empty(3, dtype=object)
    values[0], values[1], values[2] = 1, Unreadable(), "last"
    text = describe_value(pd.DataFrame({"a": values, "b": [10, 20, 30]}))
    assert "0 missing; values of the types" in text
    assert [line.split()[-1] for line in text.splitlines()[-3:]] == ["10", "20", "30"]
    assert "last" in text


def test_texts_in_the_column_of_a_secret_are_hidden_everywhere():
    frame = pd.DataFrame({"password": ["hunter2"] * 500, "n": range(500)})
    assert "hunter2" not in describe_value(frame)
    assert "hunter2" in describe_value(frame, is_raw=True)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [200_000, 200_001])
def test_figures_are_exact_up_to_a_number_of_rows_and_say_so_above(rows: int):
    frame = pd.DataFrame(
        {"n": np.arange(rows), "x": np.where(np.arange(rows) % 4, 1.0, np.nan)}
    )
    text = describe_value(frame)
    assert text.startswith(f"DataFrame of {rows:,} rows x 2 columns")
    is_exact = rows == 200_000
    assert ("spread evenly" not in text) == is_exact
    missing = int(line_of(frame, "x").split(" missing")[0].split()[-1].replace(",", ""))
    assert missing == (50_000 if is_exact else pytest.approx(25_000, rel=0.02))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_the_first_rows_of_a_long_table_are_its_first(make: Callable[[Any], object]):
    text = describe_value(make({"n": np.arange(300_000) * 2}))
    first = text.partition("the first 5 of 300,000 rows:\n")[2].splitlines()[1:6]
    assert [line.split() for line in first] == [[str(n), str(n * 2)] for n in range(5)]


@pytest.mark.slow
def test_ten_million_rows_are_described_at_once():
    wide = np.broadcast_to(np.arange(20.0), (10_000_000, 20))
    frame = pd.DataFrame(wide, columns=[f"c{n}" for n in range(20)], copy=False)
    describe_value(frame.head())
    began = CpuTime()
    text = describe_value(frame)
    assert began.spent() < 0.3
    assert text.startswith("DataFrame of 10,000,000 rows x 20 columns")
    assert "- c19: float64; 0 missing; 1 different; 19.0 (100,000)" in text


def test_a_wide_table_lists_the_names_of_its_further_columns():
    frame = pd.DataFrame(np.zeros((3, 100)), columns=[f"c{n}" for n in range(100)])
    text = describe_value(frame)
    assert "40 more columns: c60, c61" in text
    assert "more columns]" in text
    assert len(text) < TEXT_LIMIT


@pytest.mark.parametrize("name", ["xarray", "polars", "pyarrow", "geopandas"])
def test_no_library_is_imported_to_describe_a_value(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delitem(sys.modules, name)
    assert describe_value([1]) == "list of 1 items\n[1]"
    assert name not in sys.modules
