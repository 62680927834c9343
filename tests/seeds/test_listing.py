"""The list of requirements names every test, and no other."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent


def test_the_readme_lists_every_requirement_and_its_test():
    written = re.findall(
        r"^- `(test_\w+)`$", (HERE / "README.md").read_text(), re.MULTILINE
    )
    trees = (ast.parse(file.read_text()) for file in sorted(HERE.glob("test_00*.py")))
    found = [
        node.name
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert written == found
