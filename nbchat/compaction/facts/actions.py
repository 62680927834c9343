"""What was done, to what; what was interrupted or failed; what was only looked up.

Done, not to be done again:
T3 set_category top_up_limits; set_priority normal; close_ticket
Interrupted, the result is unknown:
refund_order W778812 319.50
Tried, and failed:
find_user_id_by_email ann@example.com; Error: User not found
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from nbchat.compaction.facts.row_packing import Cell, Row
from nbchat.compaction.facts.salience import Scale, words
from nbchat.compaction.facts.tool_results import Record, Value

OUTCOME_LIMIT = 60
"""Characters of an answer in words that a row keeps."""

ARGUMENTS, ARGUMENT_LIMIT = 12, 80
"""Arguments of a call that a row keeps, and their characters."""

DONE, LOOKED_UP, FAILED = 1.0, 0.6, 0.8
"""How much rows count: of what was done, what was only looked up, and what failed."""

OUTCOME, FOUND = 0.8, 3.0
"""How much an answer in words counts; and a name that was all a call was made for."""

FRESH = 0.5
"""How much more the newest call counts than the first."""

DONE_TITLE = "Done, not to be done again:"
UNKNOWN_TITLE = "Interrupted, the result is unknown:"
FAILED_TITLE = "Tried, and failed:"
LOOKED_UP_TITLE = "Looked up:"


def call_rows(calls: Sequence[Record], scale: Scale, length: int) -> list[Row]:
    """Rows of calls that did something, failed, or answered in words.

    `length` is that of the transcript: newer calls count more. Of equal calls there is
    one row, at the place of the newest.
    """
    rows: dict[tuple[str, str], Row] = {}
    for call, times in _last_of_each(calls):
        freshness = 1 + FRESH * call.place / max(length, 1)
        if call.is_action and not call.is_error:
            label = call.subject or call.tool
            row = rows.setdefault(("done", label), Row(label, 0, DONE_TITLE))
            row.score = DONE  # each deed is as fresh as it is, not as the newest
            row.place = call.place
            _add_deed(row, call, times, scale, freshness=freshness)
        else:
            rows[call.tool, str(call.place)] = _answer_row(call, freshness, scale)
    return list(rows.values())


def tally(calls: Iterable[Record]) -> str:
    """How many calls were made, how often the same tool, and what became of them."""
    calls = list(calls)
    made = Counter(call.tool for call in calls)
    unknown = Counter(call.tool for call in calls if call.is_unknown)
    failed = Counter(call.tool for call in calls if call.is_error) - unknown
    acted = {call.tool for call in calls if call.is_action}
    shown = [
        f"{tool} x{count}{_troubles(failed[tool], unknown[tool])}"
        for tool, count in made.items()
        if failed[tool] or unknown[tool] or (tool in acted and count > 1)
    ]
    return ", ".join([f"{len(calls)} in all", *shown])


def _troubles(failed: int, unknown: int) -> str:
    counts = ((failed, "failed"), (unknown, "interrupted"))
    told = ", ".join(f"{count} {how}" for count, how in counts if count)
    return f" ({told})" if told else ""


def _last_of_each(calls: Iterable[Record]) -> Iterator[tuple[Record, int]]:
    last: dict[tuple[object, ...], Record] = {}
    times: Counter[tuple[object, ...]] = Counter()
    for call in calls:
        if call.is_action or call.is_error or call.outcome:
            key = (call.tool, call.subject, call.asked, call.is_error, call.is_unknown)
            last.pop(key, None)
            last[key] = call
            times[key] += 1
    return ((call, times[key]) for key, call in last.items())


def _add_deed(
    row: Row, call: Record, times: int, scale: Scale, *, freshness: float
) -> None:
    """What was done, with what it was done; and what the answer adds, if anything."""
    row.breaks.add(len(row.cells))
    asked = [value for value in _kept(call) if value.text != row.label]
    tool = [] if call.tool == row.label else [call.tool]
    again = [f"x{times}"] if times > 1 else []
    texts = (*tool, *(value.text for value in asked), *again)
    if texts:
        weight = (sum(map(scale.weight, asked)) + OUTCOME) * freshness
        row.cells.append(Cell(texts, weight, is_tie=True))
    told = words(" ".join((row.label, call.tool, *texts)).replace("_", " "))
    is_news = bool(words(call.outcome.replace("_", " ")) - told)
    if is_news and not call.outcome.startswith(row.label):  # else it only confirms
        row.breaks.add(len(row.cells))
        row.cells.append(Cell((call.outcome[:OUTCOME_LIMIT],), OUTCOME * freshness))


def _answer_row(call: Record, freshness: float, scale: Scale) -> Row:
    """A call that failed or looked something up: what was asked, what came back."""
    is_name = bool(call.outcome) and call.outcome == call.subject
    title, weight = _kind(call, is_name=is_name)
    row = Row(call.tool, weight * freshness, title, place=call.place)
    asked = _kept(call)
    if asked:
        texts = tuple(value.text for value in asked)
        row.cells.append(Cell(texts, sum(map(scale.weight, asked)), is_tie=True))
    if call.outcome and not (asked and call.is_unknown):  # which the title says
        row.breaks.add(len(row.cells))
        weight = FOUND if is_name else OUTCOME
        row.cells.append(Cell((call.outcome[:OUTCOME_LIMIT],), weight))
    return row


def _kind(call: Record, *, is_name: bool) -> tuple[str, float]:
    """The title of an answer's row, and how much it counts."""
    if call.is_unknown:  # it may have been done
        return UNKNOWN_TITLE, DONE
    if call.is_error:
        return FAILED_TITLE, FAILED
    return LOOKED_UP_TITLE, DONE if is_name else LOOKED_UP


def _kept(call: Record) -> list[Value]:
    short = [value for value in call.asked if len(value.text) <= ARGUMENT_LIMIT]
    return short[:ARGUMENTS]
