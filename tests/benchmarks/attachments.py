"""What attachments cost: CPU of a large dataframe, tokens of files of ten forms.

PYTHONPATH=tests/support python tests/benchmarks/attachments.py [--rows 10000000]
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from file_forms import FORMS

from nbchat.chat.attachments.file_preview import file_text
from nbchat.chat.attachments.value_preview import describe_value
from nbchat.providers.tokens import TokenCounter

COUNTER = TokenCounter()


def wide(rows: int) -> pd.DataFrame:
    """Twenty columns: numbers, times, categories and texts."""
    random = np.random.default_rng(0)
    days = pd.date_range("2020", periods=rows, freq="s")
    kinds = pd.Categorical.from_codes(random.integers(0, 4, rows, "int8"), list("abcd"))
    names = pa.array([f"A{number}" for number in range(100_000)])
    texts = names.take(pa.array(random.integers(0, 100_000, rows)))
    columns = {
        f"float{n}": random.normal(size=rows).astype("float32") for n in range(8)
    }
    columns |= {f"int{n}": random.integers(0, 10**6, rows, "int32") for n in range(4)}
    columns |= {f"day{n}": days for n in range(2)}
    columns |= {f"kind{n}": kinds for n in range(2)}
    columns |= {f"text{n}": pd.array(texts, dtype="str") for n in range(4)}
    return pd.DataFrame(columns, copy=False)


def print_cpu(name: str, describe: Callable[[], str]) -> None:
    """The least of three runs: others share the machine."""
    spent = []
    for _ in range(3):
        began = time.process_time()
        text = describe()
        spent.append(time.process_time() - began)
    print(
        f"{name:>16} {min(spent) * 1000:6.0f} ms of CPU {COUNTER.count(text):8,} tokens"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    frame = wide(parser.parse_args().rows)
    print(f"@df of {len(frame):,} rows x {len(frame.columns)} columns")
    print_cpu("pandas", lambda: describe_value(frame))
    numbers = frame[[name for name in frame if not name.startswith(("kind", "text"))]]
    other = pl.from_pandas(numbers)
    print(f"@df of {other.height:,} rows x {other.width} columns")
    print_cpu("polars", lambda: describe_value(other))
    table = other.to_arrow()
    print_cpu("pyarrow", lambda: describe_value(table))
    print("@file: of ten forms")
    with TemporaryDirectory() as folder:
        for name, write in FORMS.items():
            path = Path(folder, name)
            write(path)
            whole = path.read_bytes().decode("utf-8", "replace")
            print_cpu(name, lambda path=path: file_text(path).text)
            print(f"{'':>16} {COUNTER.count(whole):8,} tokens of its bytes as text")


if __name__ == "__main__":
    main()
