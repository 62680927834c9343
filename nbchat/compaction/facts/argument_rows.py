"""Make rows of call arguments: decisions, and values that no result contains.

    [for | set_category(category) | set_priority(priority)]
    T0001 | age_limit | low
    T0002 | card_swallowed | high

A decision is an action on one entity with one short argument beside it. Of decisions on
the same entity by the same tool the newest counts.

    Used in calls:
    path: src/parser.py, src/lexer.py
    search_flights(origin: ATL, destination: PHL, date: 2024-05-24) → nothing found
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence

from nbchat.compaction.facts.records import CALL_SIGNS, Call, Field, quoted
from nbchat.compaction.facts.tables import ARROW, Cell, Row
from nbchat.compaction.facts.value_ranking import NAME, Weights, form_weight
from nbchat.conversation.entries import Fact

LEAST_ALIKE, LONGEST_DECISION = 3, 40
"""Entities from which a tool's decisions are a table, and ids from which a range such
as `T1 to T3` is; characters of a decision."""

_NUMBERED = re.compile(r"(.*?)(\d{1,9})$")

Action = tuple[Call, Field]
"""An action, and the entity that it was about."""

USED_TITLE, USED, USED_SCORE = "Used in calls:", "calls", 2.0
"""Used arguments count as much as an entity that was mentioned."""

ARGUMENT_CHARACTERS, WORDS_CHARACTERS, ONE_NAME = 60, 100, 40
"""Characters shown of an argument and of a result in words, and of one name."""

MOST_SILENT = 6
"""Searches without a row of a result that are shown, the newest."""


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


def argument_rows(
    calls: Sequence[Call],
    known: Collection[str],
    shown: Collection[int],
    weights: Weights,
) -> list[Row]:
    """What calls were asked with and no result names, such as the paths of files.

    What was used more often is more likely to be used again. Short arguments of one
    call stand together. `known` are the values of results, of which those at the
    indices `shown` have rows.
    """
    rows: dict[str, Row] = {}
    for (name, text), uses in _unnamed(calls, known, shown).items():
        call = uses[-1]
        is_whole = _is_short(call)
        key = f"used {call.index if is_whole else name}"
        row = rows.setdefault(key, Row(key, "", "", 0, call.index, USED_TITLE))
        row.score = max(row.score, USED_SCORE * weights.freshness(text, call.index))
        weight = weights.weight(name, text) * math.sqrt(len(uses))
        if not is_whole:
            fact = Fact(USED, name, text, call.index)
            row.cells.append(Cell(name, quoted(text, "|,"), weight, (fact,)))
        elif not row.cells:
            row.cells.append(_asked_cell(call, weights))
    return list(rows.values())


def _unnamed(
    calls: Sequence[Call], known: Collection[str], shown: Collection[int]
) -> dict[tuple[str, str], list[Call]]:
    """Arguments that no row of a result has, with the calls that were made with them.

    Of searches of which nothing is shown, as no message names a result, the newest.
    """
    uses: dict[tuple[str, str], list[Call]] = {}
    for call in calls:
        for field in call.asked:
            is_name = form_weight(field.text) >= NAME and " " not in field.text
            if is_name and field.text not in known:
                uses.setdefault((field.name, field.text), []).append(call)
    newest = {call.scope: call for call in calls}.values()
    silent = [
        call
        for call in newest
        if call.record and call.record.parts and call.index not in shown
    ]
    for call in filter(_is_short, silent[-MOST_SILENT:]):
        for field in call.asked:
            uses.setdefault((field.name, field.text), [call])
    return uses


def _is_short(call: Call) -> bool:
    """Whether what a call was asked with is short enough to be shown together."""
    texts = [field.text for field in call.asked]
    is_short = len("".join(texts)) <= WORDS_CHARACTERS
    return call.status == "called" and len(texts) > 1 and is_short


def _asked_cell(call: Call, weights: Weights) -> Cell:
    """A call with its arguments, and its result where that is a word or two."""
    says_little = 0 < len(call.words) <= ONE_NAME
    words = f" {ARROW} {quoted(call.words, '|')}" if says_little else ""
    weight = sum(weights.weight(field.name, field.text) for field in call.asked)
    facts = tuple(Fact(call.scope, f.name, f.text, call.index) for f in call.asked)
    return Cell("", shown_call(call) + words, weight, facts)


def shown_call(call: Call) -> str:
    """A call with its arguments; long ones are shortened."""
    asked = ", ".join(
        f"{field.name}: {quoted(cut(field.text, ARGUMENT_CHARACTERS), CALL_SIGNS)}"
        for field in call.asked
    )
    return f"{call.tool}({asked})" if asked else f"{call.tool}()"


def cut(text: str, limit: int) -> str:
    """A text within a limit of characters, with a sign where it was cut."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def tally(calls: Sequence[Call]) -> str:
    """The number of calls, of repeated actions, and of failures."""
    made = Counter(call.tool for call in calls)
    failed = Counter(call.tool for call in calls if call.status == "failed")
    unknown = Counter(call.tool for call in calls if call.status == "interrupted")
    acted = {call.tool for call in calls if call.status == "done"}
    shown = [
        f"{tool} x{count}{_failures(failed[tool], unknown[tool])}"
        for tool, count in made.items()
        if failed[tool] or unknown[tool] or (tool in acted and count > 1)
    ]
    return ", ".join([f"{len(calls)} in all", *shown]) if calls else ""


def _failures(failed: int, unknown: int) -> str:
    counts = ((failed, "failed"), (unknown, "interrupted"))
    lines = ", ".join(f"{count} {how}" for count, how in counts if count)
    return f" ({lines})" if lines else ""
