"""Rows of call arguments that no row of a result contains.

Used in calls:
path: src/parser.py, src/lexer.py
search_flights(origin: ATL, destination: PHL, date: 2024-05-24) → nothing found
"""

import math
from collections.abc import Collection, Sequence

from nbchat.compaction.facts.records import CALL_SIGNS, Call, quoted
from nbchat.compaction.facts.tables import ARROW, Cell, Row
from nbchat.compaction.facts.value_ranking import NAME, Weights, form_weight
from nbchat.conversation.entries import Fact

USED_TITLE, USED, USED_SCORE = "Used in calls:", "calls", 2.0
"""Used arguments count as much as an entity that was mentioned."""

ARGUMENT_CHARACTERS, WORDS_CHARACTERS, ONE_NAME = 60, 100, 40
"""Characters shown of an argument and of a result in words, and of one name."""

MOST_SILENT = 6
"""Searches without a row of a result that are shown, the newest."""


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
