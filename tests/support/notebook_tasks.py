"""Tasks in notebooks, and a script for each that plays a model which does them well.

A script yields calls, `(tool, arguments)`, gets each result as text, and returns the
answer. It knows of the notebook what it has read. `check` is Python that fails in the
notebook's kernel where a task was done wrong. Two tables are of recorded sessions:
shopping by state and season, and renewable energy by year (`data/README.md`).
"""

import base64
import gzip
import io
import json
import random
import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

SESSIONS = Path(__file__).parents[1] / "data" / "notebook_work.jsonl.gz"

Script = Generator[tuple[str, dict[str, object]], str, str]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the notebook before the task; one with pictures has run before."""

    source: str
    kind: str = "code"
    pictures: tuple[str, ...] = ()
    """In base64."""
    runs: bool = False
    """True if the person has run it before they ask."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a person asks in a notebook, and how it is done and checked."""

    name: str
    ask: str
    script: Callable[[], Script]
    check: str
    cells: Sequence[Cell] = ()
    tables: Sequence[str] = ()


def recorded(session: str, position: int) -> str:
    """What a tool returned in a recorded session."""
    with gzip.open(SESSIONS, "rt") as lines:
        rows = map(json.loads, lines)
        found = next(each for each in rows if each["id"] == session)
    result: str = found["messages"][position]["tool_result"]
    return result


def seasons() -> str:
    """Dollars spent by state and season, as CSV."""
    text = recorded("dseval/customer-shopping-trends-dataset", 36)
    lines = [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
    names, rows = lines[0][1:], lines[2:]
    return "\n".join([",".join(["Location", *names]), *map(",".join, rows)]) + "\n"


def renewables() -> str:
    """The share of renewable energy by year, as CSV."""
    text = recorded("dseval/global-data-on-sustainable-energy", 22)
    rows = re.findall(r"^(\d{4}) +([\d.]+)$", text, re.MULTILINE)
    return "\n".join(["year,share", *map(",".join, rows)]) + "\n"


def orders() -> str:
    """Sixty orders: amounts as text, three dates that are none, two rows twice."""
    random.seed(3)
    rows = ["order_id,customer_id,region,amount,ordered_at"]
    for number in range(60):
        amount = f"${random.randint(100, 99_999) / 100:,.2f}"
        date = (
            "soon" if number in (7, 23, 41) else f"2026-0{number % 9 + 1}-1{number % 9}"
        )
        region = ("north", "South ", "east")[number % 3]
        rows.append(f'O{number},{number % 12},{region},"{amount}",{date}')
    return "\n".join([*rows, rows[5], rows[30]]) + "\n"


def customers() -> str:
    """Twelve customers, whose ids are texts; one is there twice."""
    rows = [f"C{n},customer {n},{('gold', 'basic')[n % 2]}" for n in range(12)]
    return "\n".join(["id,name,plan", *rows, rows[4]]) + "\n"


def wide() -> str:
    """Fifty rows of 300 columns; one column is named temperature_c."""
    names = [f"sensor_{n:03}" for n in range(299)] + ["temperature_c"]
    rows = [",".join(str((r * c) % 97) for c in range(300)) for r in range(50)]
    return "\n".join([",".join(names), *rows]) + "\n"


TABLES: dict[str, Callable[[], str]] = {
    "seasons.csv": seasons,
    "renewables.csv": renewables,
    "orders.csv": orders,
    "customers.csv": customers,
    "wide.csv": wide,
}

LOAD = "import pandas as pd\norders = pd.read_csv('orders.csv')"

LOADED = (Cell(LOAD, runs=True),)


def ids(outline: str) -> list[tuple[str, str]]:
    """The id and the first line of each cell in an outline."""
    return re.findall(r"^\d+ (\S+) [^:\n]*: (.*)$", outline, re.MULTILINE)


def id_of(outline: str, text: str) -> str:
    """The id of the first cell whose line has a text."""
    found = [name for name, line in ids(outline) if text in line]
    assert found, f"no cell with {text!r} in {outline}"
    return found[0]


def new_id(result: str) -> str:
    """The id in the result of a change."""
    found = re.search(r"\bid (\S+?)[,.:]?$", result.splitlines()[0])
    assert found, result
    return found[1]


def read(**options: object) -> tuple[str, dict[str, object]]:
    """A call that reads the notebook."""
    return "read_notebook", options


def insert(after: str, source: str, **options: object) -> tuple[str, dict[str, object]]:
    """A call that inserts a cell, and runs it unless it is text."""
    runs = options.get("kind", "code") == "code"
    made = {"change": "insert", "after": after, "source": source, **options}
    return "edit_notebook", {**made, **({"run": True} if runs else {})}


def edit(cell: str, old: str, source: str) -> tuple[str, dict[str, object]]:
    """A call that replaces a part of a cell and runs it."""
    what = {"change": "replace", "cell": cell, "old": old, "source": source}
    return "edit_notebook", {**what, "run": True}


def last_id(outline: str) -> str:
    """The id of the last cell."""
    return ids(outline)[-1][0]


def load_clean_plot() -> Script:
    """Load, clean, plot, fix one error, add a text: the task of the first figures."""
    outline = yield read()
    loaded = yield insert(last_id(outline), f"{LOAD}\norders.head()")
    wrong = (
        "clean = orders.drop_duplicates().copy()\n"
        "clean['amount'] = clean.amount.astype(float)\nclean.describe()"
    )
    cleaned = yield insert(new_id(loaded), wrong)
    assert "could not convert string to float" in cleaned, cleaned
    right = "clean.amount.str.replace('[$,]', '', regex=True).astype(float)"
    name = new_id(cleaned)
    fixed = yield edit(name, "clean.amount.astype(float)", right)
    assert "could not convert" not in fixed, fixed
    plotted = yield insert(name, "clean.plot.scatter('customer_id', 'amount');")
    yield insert(new_id(plotted), "## Orders\nSixty orders.", kind="markdown")
    return "The orders are clean and plotted."


def clean_in_place() -> Script:
    outline = yield read()
    cell = id_of(outline, "by_region")
    yield read(cells=[cell])
    yield edit(
        cell,
        "orders.groupby('region')",
        "orders.groupby(orders.region.str.strip().str.lower())",
    )
    return "South is one region now."


def dates() -> Script:
    outline = yield read()
    cell = id_of(outline, "orders['day']")
    shown = yield read(cells=[cell])
    assert "soon" in shown, shown
    yield edit(cell, "orders.ordered_at)", "orders.ordered_at, errors='coerce')")
    return "Three dates can't be read; they are missing values now."


def merge_types() -> Script:
    outline = yield read()
    cell = id_of(outline, "merged =")
    shown = yield read(cells=[cell])
    assert "merge on" in shown, shown
    right = "customers.assign(number=customers.id.str[1:].astype(int))"
    yield edit(
        cell,
        "customers, left_on='customer_id', right_on='id'",
        f"{right}, left_on='customer_id', right_on='number'",
    )
    return "The ids of customers begin with C; they are joined by number."


def merge_twice() -> Script:
    outline = yield read()
    cell = id_of(outline, "orders['key']")
    yield read(cells=[cell])
    yield edit(cell, "customers,", "customers.drop_duplicates('id'),")
    return "One customer was there twice."


def plot_seasons() -> Script:
    outline = yield read()
    last = last_id(outline)
    shown = yield ("inspect", {"name": "seasons"})
    assert "Winter" in shown, shown
    code = "sums = seasons.set_index('Location').sum()\nsums.plot.bar();"
    yield insert(last, code)
    return "Plotted."


def top_winter() -> Script:
    yield ("inspect", {"name": "seasons"})
    outline = yield read()
    found = yield insert(
        last_id(outline), "top = seasons.set_index('Location').Winter.idxmax()\ntop"
    )
    return f"In winter most is spent in {found.splitlines()[-1]}."


def outlier() -> Script:
    outline = yield read()
    cell = id_of(outline, "import pandas")
    shown = yield read(cells=[cell])
    assert "81.9" in shown, shown
    yield insert(
        cell, "usable = energy[energy.year < 2020]\nusable.plot('year', 'share');"
    )
    return "2020 is an outlier: few countries have a value."


def key_error() -> Script:
    outline = yield read()
    cell = id_of(outline, "total =")
    shown = yield read(cells=[cell])
    assert "KeyError" in shown, shown
    yield ("inspect", {"name": "orders"})
    yield edit(cell, "orders['Amount']", "orders['amount']")
    return "The column is named amount."


def missing_file() -> Script:
    outline = yield read()
    cell = id_of(outline, "people =")
    shown = yield read(cells=[cell])
    assert "FileNotFoundError" in shown, shown
    yield edit(cell, "'customer.csv'", "'customers.csv'")
    return "The file is named customers.csv."


def run_in_order() -> Script:
    outline = yield read()
    names = [name for name, line in ids(outline) if line.startswith("step_")]
    yield ("run_cells", {"cells": names})
    return "All four steps ran."


def refactor() -> Script:
    outline = yield read()
    names = [
        name
        for name, line in ids(outline)
        if line.startswith("north_") or "# copy" in line
    ]
    yield read(cells=names)
    made = "def total(region):\n    return int((orders.region == region).sum())"
    yield insert(id_of(outline, "import pandas"), made)
    for name, region in zip(names[:2], ("north", "east"), strict=True):
        line = f"(orders.region == '{region}').sum()"
        yield edit(name, line, f"total('{region}')")
    yield ("edit_notebook", {"change": "delete", "cell": names[2]})
    return "One function does it now."


def imports_first() -> Script:
    outline = yield read()
    moved, top = id_of(outline, "import math"), ids(outline)[0][0]
    yield read(cells=[moved])
    yield ("edit_notebook", {"change": "move", "cell": moved, "after": top})
    return "The imports are at the top."


def to_text() -> Script:
    outline = yield read()
    cell = id_of(outline, "## Findings")
    yield read(cells=[cell])
    call = {"change": "kind", "cell": cell, "kind": "markdown"}
    yield ("edit_notebook", call)
    return "It is text now."


def wide_frame() -> Script:
    shown = yield ("inspect", {"name": "wide"})
    outline = yield read()
    code = "warm = [c for c in wide.columns if 'temp' in c]\nmean = wide[warm[0]].mean()\nwarm, mean"
    assert "300" in shown, shown
    yield insert(last_id(outline), code)
    return "The column is temperature_c."


def long_notebook() -> Script:
    found = yield read(search="rate_212")
    cell = ids(found)[0][0]
    yield read(cells=[cell])
    yield edit(cell, "rate_212 = 212", "rate_212 = 0.19")
    return "Changed."


def many_plots() -> Script:
    outline = yield read()
    cell = id_of(outline, "shots_3")
    shown = yield read(cells=[cell])
    assert "picture" in shown, shown
    yield edit(cell, "shots_3 = 3", "shots_3 = 30")
    return "Changed."


def training_log() -> Script:
    outline = yield read()
    shown = yield ("run_cells", {"cells": [id_of(outline, "for epoch")]})
    assert "epoch 2999" in shown, shown
    return "The last loss is 0.0003."


def long_run() -> Script:
    outline = yield read()
    cell = id_of(outline, "import time")
    shown = yield ("run_cells", {"cells": [cell], "wait_seconds": 1})
    assert "still running" in shown, shown
    shown = yield read(cells=[cell], wait_seconds=30)
    assert "finished" in shown, shown
    return "It has finished."


def two_errors() -> Script:
    outline = yield read()
    cell = id_of(outline, "def share")
    shown = yield ("run_cells", {"cells": [cell]})
    assert "NameError" in shown, shown
    shown = yield edit(cell, "totl", "total")
    assert "ZeroDivisionError" in shown, shown
    yield edit(cell, "share(1, 0)", "share(1, 4)")
    return "Both errors are fixed."


def many_lines() -> Script:
    outline = yield read()
    cell = id_of(outline, "config = {")
    yield read(cells=[cell])
    yield edit(cell, "'option_77': 77", "'option_77': True")
    return "Option 77 is on."


def picture(kilobytes: int) -> str:
    """A PNG of noise of about so many kilobytes, in base64."""
    side = int((kilobytes * 1000 / 3) ** 0.5)
    noise = random.Random(1).randbytes(side * side * 3)
    file = io.BytesIO()
    Image.frombytes("RGB", (side, side), noise).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def tasks() -> list[Task]:
    """All tasks; each leaves the first cell, which shows the chat, as it is."""
    read_customers = "import pandas as pd\ncustomers = pd.read_csv('customers.csv')"
    read_seasons = "import pandas as pd\nseasons = pd.read_csv('seasons.csv')"
    read_energy = (
        "import pandas as pd\nenergy = pd.read_csv('renewables.csv')\nenergy.tail()"
    )
    count = "{0}_count = int((orders.region == '{0}').sum())"
    shot = picture(1_500)
    slow = "import time\nfor n in range(3):\n    time.sleep(1)\nprint('finished')"
    log = (
        "for epoch in range(3000):\n    print('epoch', epoch, 'loss', 1 / (epoch + 1))"
    )
    share = "def share(part, total):\n    return part / totl\nhalf = share(1, 0)"
    config = ",\n".join(f"    'option_{n}': {n}" for n in range(200))
    return [
        Task(
            "load, clean, plot, fix",
            "Load orders.csv, clean it, plot it.",
            load_clean_plot,
            "assert len(clean) == 60 and clean.amount.dtype == float",
            (),
            ("orders.csv",),
        ),
        Task(
            "clean in place",
            "South is there twice; why?",
            clean_in_place,
            "assert sorted(by_region.index) == ['east', 'north', 'south']",
            (
                *LOADED,
                Cell(
                    "by_region = orders.groupby('region').size()\nby_region", runs=True
                ),
            ),
            ("orders.csv",),
        ),
        Task(
            "unreadable dates",
            "Fix the dates.",
            dates,
            "assert orders.day.isna().sum() == 3",
            (
                *LOADED,
                Cell("orders['day'] = pd.to_datetime(orders.ordered_at)", runs=True),
            ),
            ("orders.csv",),
        ),
        Task(
            "merge, other types",
            "The merge fails.",
            merge_types,
            "assert merged.name.notna().all()",
            (
                *LOADED,
                Cell(read_customers, runs=True),
                Cell(
                    "merged = orders.merge(customers, left_on='customer_id', right_on='id')",
                    runs=True,
                ),
            ),
            ("orders.csv", "customers.csv"),
        ),
        Task(
            "merge, rows twice",
            "Why are there more rows than orders?",
            merge_twice,
            "assert len(joined) == len(orders)",
            (
                *LOADED,
                Cell(read_customers, runs=True),
                Cell(
                    "orders['key'] = 'C' + orders.customer_id.astype(str)\njoined = orders.merge(customers, left_on='key', right_on='id')",
                    runs=True,
                ),
            ),
            ("orders.csv", "customers.csv"),
        ),
        Task(
            "plot",
            "Plot the sums of the seasons.",
            plot_seasons,
            "assert list(sums.index) == ['Fall', 'Spring', 'Summer', 'Winter']",
            (Cell(f"import matplotlib.pyplot as plt\n{read_seasons}", runs=True),),
            ("seasons.csv",),
        ),
        Task(
            "answer from a table",
            "Where is most spent in winter?",
            top_winter,
            "assert top == seasons.set_index('Location').Winter.idxmax()",
            (Cell(read_seasons, runs=True),),
            ("seasons.csv",),
        ),
        Task(
            "outlier",
            "Is a year wrong? Plot the others.",
            outlier,
            "assert usable.year.max() == 2019",
            (Cell(read_energy, runs=True),),
            ("renewables.csv",),
        ),
        Task(
            "KeyError",
            "Fix this.",
            key_error,
            "assert isinstance(total, str)",
            (*LOADED, Cell("total = orders['Amount'].max()", runs=True)),
            ("orders.csv",),
        ),
        Task(
            "missing file",
            "Fix this.",
            missing_file,
            "assert len(people) == 13",
            (
                Cell("import pandas as pd", runs=True),
                Cell("people = pd.read_csv('customer.csv')", runs=True),
            ),
            ("customers.csv",),
        ),
        Task(
            "run in order",
            "Run all steps.",
            run_in_order,
            "assert step_3 == 6",
            tuple(
                Cell(f"step_{n} = {f'step_{n - 1} + {n}' if n else 0}")
                for n in range(4)
            ),
        ),
        Task(
            "two errors",
            "Make it work.",
            two_errors,
            "assert half == 0.25",
            (Cell(share),),
        ),
        Task(
            "refactor",
            "This is three times the same. Make it a function.",
            refactor,
            "assert north_count == total('north') and east_count == total('east')",
            (
                *LOADED,
                Cell(count.format("north")),
                Cell(f"# copy\n{count.format('east')}"),
                Cell(f"# copy\n{count.format('east')}"),
            ),
            ("orders.csv",),
        ),
        Task(
            "move",
            "Imports belong at the top.",
            imports_first,
            "",
            (Cell("x = 1"), Cell("y = 2"), Cell("import math")),
        ),
        Task(
            "code to text",
            "This cell is text.",
            to_text,
            "",
            (Cell("## Findings\nNone yet."),),
        ),
        Task(
            "wide frame",
            "What is the mean temperature?",
            wide_frame,
            "assert warm == ['temperature_c']",
            (Cell("import pandas as pd\nwide = pd.read_csv('wide.csv')", runs=True),),
            ("wide.csv",),
        ),
        Task(
            "300 cells",
            "Set rate_212 to 0.19.",
            long_notebook,
            "assert rate_212 == 0.19",
            tuple(Cell(f"rate_{n} = {n}") for n in range(300)),
        ),
        Task(
            "15 MB of plots",
            "Set shots_3 to 30.",
            many_plots,
            "assert shots_3 == 30",
            tuple(Cell(f"shots_{n} = {n}", pictures=(shot,)) for n in range(8)),
        ),
        Task(
            "training log",
            "Train, and tell me the last loss.",
            training_log,
            "",
            (Cell(log),),
        ),
        Task("runs for seconds", "Run this and wait.", long_run, "", (Cell(slow),)),
        Task(
            "200 lines",
            "Turn option 77 on.",
            many_lines,
            "assert config['option_77'] is True",
            (Cell(f"config = {{\n{config},\n}}", runs=True),),
        ),
    ]
