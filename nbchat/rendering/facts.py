"""The memory beside a summary, as sections of lines that know their message.

Records of older versions have only the text that the model reads, and a table of
values: these are shown as they were.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from nbchat.conversation.entries import Fact, MemoryLine
from nbchat.rendering.entries import escaped

TITLE, MEMORY_TITLE = "Facts kept by code", "Copied from the conversation"

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

SEPARATOR = " | "
"""Between the cells of a record."""

NOTE = "(before "
"""How a remark behind the cells begins: an action was asked for later."""

SHOWN = 40
"""Characters of a value by which its line is known: long values are cut there."""


HEADING = "## "
"""Before a title within a part, in policies whose summary has headings."""

REMARKS = ("Calls made", "(")
"""How lines begin that are no record."""


@dataclass(frozen=True, slots=True)
class FactSection:
    """A title and the lines below it that no table shows."""

    title: str
    lines: tuple[str, ...]


def memory_html(lines: Sequence[MemoryLine]) -> str:
    """Render the lines that code copied, part by part; empty without any.

    The panel makes a button of each text with a position.
    """
    if not lines:
        return ""
    parts = [(part, list(group)) for part, group in groupby(lines, lambda e: e.part)]
    shown = "".join(_part_html(part, group) for part, group in parts)
    label = f'<div class="nbc-label">{MEMORY_TITLE}</div>'
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


def fact_sections(text: str, facts: Sequence[Fact]) -> list[FactSection]:
    """The sections of the facts' text without the lines that `facts` show."""
    sections: list[FactSection] = []
    title, lines = "", list[str]()
    for line in [*text.splitlines(), ":"]:
        if line.endswith(":") and not line.startswith("- "):
            if lines:
                sections.append(FactSection(title, tuple(lines)))
            title, lines = line.removesuffix(":"), []
        elif line.strip() and not _is_record(line, facts):
            if lines and not line.startswith("- "):  # such as the number of calls
                sections.append(FactSection(title, tuple(lines)))
                title, lines = "", []
            lines.append(line.removeprefix("- "))
    return sections


def facts_html(
    text: str,
    facts: Sequence[Fact],
    find: Callable[[str], int | None] = lambda _line: None,
) -> str:
    """Render the facts; empty without any.

    `find` gives the position of the message that a line quotes. The panel makes a
    button of each text with a position.
    """
    if not (text or facts):
        return ""
    sections = "".join(_section_html(each, find) for each in fact_sections(text, facts))
    label = f'<div class="nbc-label">{TITLE}</div>'
    return f'<div class="nbc-kept-facts">{label}{sections}{_table_html(facts)}</div>'


def _is_record(line: str, facts: Iterable[Fact]) -> bool:
    if line.startswith("- ") or not facts:
        return False
    if line.startswith(REMARKS):
        return False
    known = (text[:SHOWN] for fact in facts for text in (fact.entity, fact.value))
    is_row = " | " in line or " → " in line
    return is_row or any(_is_word_in(line, text) for text in known if text)


def _is_word_in(line: str, text: str) -> bool:
    """Whether a line has a text as whole words: "1" is not in "120"."""
    place = line.find(text)
    while place >= 0:
        stop = place + len(text)
        around = line[place - 1 : place] + line[stop : stop + 1]
        if not any(map(str.isalnum, around)):
            return True
        place = line.find(text, place + 1)
    return False


def _section_html(section: FactSection, find: Callable[[str], int | None]) -> str:
    shown = (_placed(line, find(line)) for line in section.lines)
    items = "".join(f'<li dir="auto">{line}</li>' for line in shown)
    title = f"<p>{escaped(section.title)}</p>" if section.title else ""
    return f"{title}<ul>{items}</ul>"


def _placed(text: str, position: int | None) -> str:
    if position is None:
        return escaped(text)
    return f'<span data-position="{position}">{escaped(text)}</span>'


def _table_html(facts: Sequence[Fact]) -> str:
    if not facts:
        return ""
    groups = [list(group) for _, group in groupby(facts, lambda fact: fact.entity)]
    body = "".join(
        _row_html(fact, 0 if n else len(group))
        for group in groups
        for n, fact in enumerate(group)
    )
    return f'<table class="nbc-facts" aria-label="Facts"><tbody>{body}</tbody></table>'


def _row_html(fact: Fact, rows: int) -> str:
    """A row; the first one of an entity names it."""
    span = f' rowspan="{rows}"' if rows > 1 else ""
    name = f'<th scope="row"{span}>{escaped(fact.entity)}</th>' if rows else ""
    value = _placed(fact.value, fact.position)
    field = f"<td>{escaped(fact.field)}</td><td>" if fact.field else '<td colspan="2">'
    return f"<tr>{name}{field}{value}</td></tr>"
