"""The list of clauses counts its rows, and each test that it names exists."""

import re
from pathlib import Path

HERE = Path(__file__).parent
LIST = (HERE / "README.md").read_text("utf-8")


def test_the_counts_on_top_are_those_of_the_rows():
    row = r"(?m)^\|.* \| (does|differently|does not) \| .+ \|$"
    found = re.findall(row, LIST)
    counts = [found.count(each) for each in ("does", "differently", "does not")]
    told = [int(number) for number in re.findall(r"\d+", LIST.partition("Of ")[2])]
    assert told[:4] == [len(found), *counts]


def test_every_test_that_the_list_names_exists():
    source = "".join(file.read_text("utf-8") for file in HERE.parent.rglob("test_*.py"))
    defined = set(re.findall(r"def (test_\w+)\(", source))
    assert set(re.findall(r"`(test_\w+)`", LIST)) - defined == set()
