"""What the benchmark of the memory asks for is right, and the same in every run."""

import ast
import json
from pathlib import Path

import needed_values
from memory_cases import (
    cases_of,
)
from needed_values import named
from recorded_summaries import compact

from nbchat.conversation.entries import Entry


def cell(code: str, number: int = 0) -> Entry:
    """A call that runs a cell."""
    arguments = json.dumps({"code": code})
    return Entry("assistant", "", f"c{number}", "run_cell", arguments)


def output(text: str, number: int = 0) -> Entry:
    """What a cell returned."""
    return Entry("tool", text, f"c{number}", "run_cell")


def needed(code: str, *, said: str = "", later: str = "") -> list[str]:
    """What a cell needs of an earlier one; `later` is said between them."""
    entries = [Entry("user", "Begin."), cell(said), output(""), Entry("user", later)]
    return needed_values.needed_values([*entries, cell(code, 1)], 3)


def test_the_extractor_imports_nothing_of_the_compaction():
    tree = ast.parse(Path(needed_values.__file__).read_text("utf-8"))
    modules = [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    assert not [name for name in modules if name.startswith("nbchat.compaction")]


def test_a_cell_needs_names_that_earlier_cells_defined():
    said = "import pandas as pd\nsales = pd.read_csv('a.csv')\nfor row in sales: pass"
    assert needed("sales.head()", said=said) == ["sales"]
    assert needed("sales = 1\nsales + 1", said=said) == []
    assert needed("[row for row in (1, 2)]", said=said) == []
    assert needed("lambda row: row", said=said) == []
    assert needed("def total(sales):\n    return sales", said=said) == []


def test_a_cell_needs_literals_that_were_said():
    said = "df['month'].mean()\nopen('data/a.csv')"
    assert needed("df['month']", said=said) == ["month"]
    assert needed("x.month", said=said) == ["month"]
    assert needed("open('data/a.csv')", said=said) == ["data/a.csv"]
    assert needed("df['unknown']", said=said) == []


def test_what_is_said_again_before_its_use_is_not_needed():
    assert needed("df['month']", said="df['month']", later="Group by month.") == []


def test_queries_name_tables_columns_and_literals():
    query = "SELECT COUNT(*) AS total, `Song_ID` FROM song WHERE name = 'Ann B' -- all"
    call = Entry("assistant", "", "c", "execute_sql", json.dumps({"query": query}))
    assert named(call).values == ("Song_ID", "song", "name", "Ann B")


def test_commands_name_paths_and_names_of_code():
    command = "cd /repo && grep -rn 'def _coord_matrix' lib/separable.py | head"
    call = Entry("assistant", "", "c", "bash", json.dumps({"command": command}))
    assert named(call).values == ("/repo", "lib/separable.py", "_coord_matrix")


def test_talk_has_the_facts_that_later_questions_ask_for():
    spans = [case.needed for kind in ("meeting", "chats") for case in cases_of(kind)]
    assert sum(map(len, spans)) == 69


def test_the_same_request_is_made_each_time():
    said = [Entry("user", "What is 2 and 2? " * 40), Entry("assistant", "4. " * 400)]
    first, second = (compact(said, summary="They added.") for _ in range(2))
    assert first.request == second.request
    assert "2 and 2" in first.request
