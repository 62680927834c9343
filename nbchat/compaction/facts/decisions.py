"""Make a table of decisions: what was set for each of many entities.

    [for | set_category(category) | set_priority(priority)]
    T0001 | age_limit | low
    T0002 | card_swallowed | high

A decision is an action on one entity with one short argument beside it. Of decisions on
the same entity by the same tool the newest counts.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from nbchat.compaction.facts.records import Call, Field, quoted
from nbchat.compaction.facts.tables import Cell, Row
from nbchat.compaction.facts.value_ranking import Weights
from nbchat.conversation.entries import Fact

LEAST_ALIKE, LONGEST_DECISION = 3, 40
"""Entities from which a tool's decisions are a table, and ids from which a range such
as `T1 to T3` is; characters of a decision."""

_NUMBERED = re.compile(r"(.*?)(\d{1,9})$")

Action = tuple[Call, Field]
"""An action, and the entity that it was about."""


def decision_rows(
    actions: Sequence[Action], weights: Weights, *, title: str, weight: float
) -> tuple[list[Row], list[Action]]:
    """A row for each entity with decisions, and the actions that are none.

    `weight` is what a decision counts. Of several on an entity the one with the most
    different values says most; the others count less, by their numbers of values.
    """
    by_tool: dict[tuple[str, str], list[Action]] = defaultdict(list)
    for call, subject in actions:
        by_tool[call.tool, subject.name].append((call, subject))
    chosen = [same for same in by_tool.values() if _are_decisions(same)]
    counts = [len({_others(*each) for each in same}) for same in chosen]
    rows: dict[tuple[str, str], Row] = {}
    for same, count in zip(chosen, counts, strict=True):
        for call, subject in same:
            key = (subject.name, subject.text)
            row = rows.setdefault(key, _row(call, subject, title))
            row.score = max(row.score, weights.freshness(subject.text, call.index))
            _decide(row, _cell(call, subject, weight * count / max(counts)))
    others = [e for same in by_tool.values() if same not in chosen for e in same]
    return list(rows.values()), others


def _are_decisions(same: Sequence[Action]) -> bool:
    """Whether a tool decided one thing for several entities, not always the same."""
    values = {_others(*each) for each in same}
    are_short = all(
        len(value) == 1 and len(value[0].text) <= LONGEST_DECISION for value in values
    )
    subjects = {subject.text for _, subject in same}
    names = {value[0].name for value in values if value}
    is_choice = len(values) > 1 and len(names) == 1
    return are_short and is_choice and len(subjects) >= LEAST_ALIKE


def _others(call: Call, subject: Field) -> tuple[Field, ...]:
    return tuple(field for field in call.asked if field != subject)


def _row(call: Call, subject: Field, title: str) -> Row:
    label = quoted(subject.text, "|")
    return Row(f"decisions {subject.name}", subject.name, label, 0, call.index, title)


def _cell(call: Call, subject: Field, weight: float) -> Cell:
    value = _others(call, subject)[0]
    fact = Fact(call.scope, value.name, value.text, call.index)
    text = quoted(value.text, "|,")
    return Cell(f"{call.tool}({value.name})", text, weight, (fact,))


def _decide(row: Row, cell: Cell) -> None:
    row.cells = [each for each in row.cells if each.column != cell.column] + [cell]


def in_ranges(texts: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Ids as they are, or as `T1 to T7` where all between were given one by one."""
    run: list[str] = []
    for text in texts:
        if run and not _follows(run[-1], text):
            yield from _shortened(run)
            run = []
        run.append(text)
    yield from _shortened(run)


def _shortened(run: list[str]) -> Iterator[tuple[str, list[str]]]:
    if len(run) >= LEAST_ALIKE:
        yield f"{run[0]} to {run[-1]}", run
    else:
        yield from ((text, [text]) for text in run)


def _follows(text: str, after: str) -> bool:
    """Whether an id is the next one: the same letters and the next number."""
    one, other = _NUMBERED.match(text), _NUMBERED.match(after)
    if one is None or other is None or one[1] != other[1]:
        return False
    is_even = len(one[2]) == len(other[2]) or not other[2].startswith("0")
    return int(one[2]) + 1 == int(other[2]) and is_even
