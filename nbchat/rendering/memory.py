"""The memory beside a summary, as sections of lines that know their message."""

from collections.abc import Sequence
from itertools import groupby

from nbchat.conversation.entries import MemoryLine
from nbchat.rendering.entries import escaped

TITLE = "Copied from the conversation"

SECTIONS = {
    "rules": "Rules in force",
    "words": "What you said",
    "work": "Variables, names and files",
    "calls": "Calls",
    "records": "Records",
    "newest": "Newest answers and outputs",
}
"""The parts of a memory, as a person reads them."""

CODE_PARTS = ("work", "calls", "newest")
"""Parts with code and outputs."""

LINE_PARTS = ("work", "calls")
"""Parts of one line each, which are not wrapped."""

SEPARATOR = " | "
"""Between the cells of a record."""

NOTE = "(before "
"""How a remark behind the cells begins: an action was asked for later."""

HEADING = "## "
"""Before a title within a part, in policies whose summary has headings."""


def memory_html(lines: Sequence[MemoryLine]) -> str:
    """Render the lines that code copied, part by part; empty without any.

    The panel makes a button of each text with a position.
    """
    if not lines:
        return ""
    parts = [(part, list(group)) for part, group in groupby(lines, lambda e: e.part)]
    shown = "".join(_part_html(part, group) for part, group in parts)
    label = f'<div class="nbc-label">{TITLE}</div>'
    return f'<div class="nbc-kept-facts">{label}{shown}</div>'


def _part_html(part: str, lines: Sequence[MemoryLine]) -> str:
    """A part below its own title; the first line is the title that the model reads."""
    groups: list[list[MemoryLine]] = []
    for line in lines[1:]:
        if not groups or (line.position is None and _is_heading(line.text)):
            groups.append([])
        groups[-1].append(line)
    shown = "".join(_table_of(group) or _list_of(group) for group in groups)
    kind = " nbc-copied-code" if part in CODE_PARTS else ""
    kind += " nbc-copied-lines" if part in LINE_PARTS else ""
    title = escaped(SECTIONS.get(part, part))
    return f'<p>{title}</p><div class="nbc-copied{kind}">{shown}</div>'


def _is_heading(text: str) -> bool:
    return text.endswith((":", "]")) or text.startswith(HEADING)


def _list_of(lines: Sequence[MemoryLine]) -> str:
    items = (_item(line) for line in lines)
    return f"<ul>{''.join(items)}</ul>"


def _item(line: MemoryLine) -> str:
    text = line.text.removeprefix("- ").removeprefix(HEADING).replace("\n  ", "\n")
    kind = ' class="nbc-muted"' if line.position is None else ""
    return f'<li dir="auto"{kind}>{_placed(text, line.position)}</li>'


def _table_of(lines: Sequence[MemoryLine]) -> str:
    """Records as a table; empty for other lines, and where cells have bars in them."""
    scope, bracket, header = lines[0].text.rpartition("[")
    if not (bracket and header.endswith("]")) or lines[0].position is not None:
        return ""
    names = header.removesuffix("]").split(SEPARATOR)
    rows = [line.text.split(SEPARATOR) for line in lines[1:]]
    if not all(len(row) == len(names) + row[-1].startswith(NOTE) for row in rows):
        return ""
    caption = f"<caption>{escaped(scope)}</caption>" if scope else ""
    head = "".join(f'<th scope="col">{escaped(name)}</th>' for name in names)
    body = "".join(
        f"<tr>{_cells_html(row, line.position)}</tr>"
        for row, line in zip(rows, lines[1:], strict=True)
    )
    table = f"{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="nbc-records"><table>{table}</table></div>'


def _cells_html(cells: Sequence[str], position: int | None) -> str:
    """The cells of a row, of which the first leads to the message."""
    rest = "".join(f'<td dir="auto">{escaped(cell)}</td>' for cell in cells[1:])
    return f'<td dir="auto">{_placed(cells[0], position)}</td>{rest}'


def _placed(text: str, position: int | None) -> str:
    if position is None:
        return escaped(text)
    return f'<span data-position="{position}">{escaped(text)}</span>'
