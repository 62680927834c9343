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
    rows = re.findall(r"^\| ([CMm]?\d+) ", table, re.MULTILINE)
    newcomers = ["C1", *(f"M{n}" for n in range(10)), *(f"m{n}" for n in range(1, 17))]
    ten = [*map(str, range(1, 11))]
    assert rows == [*map(str, range(1, 32)), *newcomers, *ten, *ten]
