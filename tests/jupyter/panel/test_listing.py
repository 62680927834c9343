"""The table of the panel's faults names tests that exist."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]


def test_each_test_that_the_table_names_exists():
    table = (TESTS / "browser" / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", table))
    source = "\n".join(file.read_text() for file in TESTS.rglob("test_*.py"))
    assert len(named) > 30
    assert named - set(re.findall(r"def (test_\w+)", source)) == set()
    for file in re.findall(r"`(\w+\.test\.mjs)`", table):
        assert [*TESTS.rglob(file)], file
    rows = re.findall(r"^\| (\d+) ", table, re.MULTILINE)
    assert rows == [*map(str, range(1, 32)), *map(str, range(1, 11))]
