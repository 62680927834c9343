"""Collect the facts that code keeps beside a summary.

They are read from the transcript itself at every compaction, never from an earlier
summary, so they never decay. Each line states what one record in the transcript states:

    Done, not to be done again:
    cancel_order(order_id: #W9373487, reason: no longer needed)
    set_priority(priority: normal) ticket_id: T1 | T2 | T7
    Tried, and failed:
    find_user(email: ann@example.com) → Error: User not found
    Known, newest state:
    line_id: L1001 | plan_id: P1001 | data_used_gb: 3.2
    [order_id | status | items (name, item_id)]
    #W2905754 | delivered | Laptop, 3478699712; Speaker, 9844888101
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest

from nbchat.compaction.facts.argument_rows import (
    ONE_NAME,
    USED_TITLE,
    WORDS_CHARACTERS,
    Action,
    argument_rows,
    cut,
    decision_rows,
    in_ranges,
    shown_call,
    tally,
)
from nbchat.compaction.facts.artifacts import artifact_lines
from nbchat.compaction.facts.entities import entity_rows
from nbchat.compaction.facts.exchanges import exchange_lines
from nbchat.compaction.facts.open_questions import Matters
from nbchat.compaction.facts.open_requests import (
    ASKED_TITLE,
    OPEN_TITLE,
    open_matters,
)
from nbchat.compaction.facts.quotes import Quote
from nbchat.compaction.facts.read_entries import NOT_SAID, ReadEntries
from nbchat.compaction.facts.records import Call, Field, quoted
from nbchat.compaction.facts.rules import TITLE as RULES_TITLE
from nbchat.compaction.facts.rules import rule_lines, rules_in_force
from nbchat.compaction.facts.statements import unused_statements
from nbchat.compaction.facts.tables import ARROW, Block, Cell, Row, block_within
from nbchat.compaction.facts.tool_names import acts, own_forms, tool_words
from nbchat.compaction.facts.value_ranking import (
    NAME,
    NEEDED,
    Taken,
    Weights,
    form_weight,
)
from nbchat.compaction.policies import Policy
from nbchat.compaction.shortening import within
from nbchat.compaction.summary_format import is_quote, quoted_text, summary_facts
from nbchat.conversation.entries import Entry, Fact
from nbchat.conversation.search_index import TOOL_NAME
from nbchat.conversation.tools import Tool, argument_names
from nbchat.providers.tokens import TokenCounter

DONE_TITLE = "Done, not to be done again:"
FAILED_TITLE = "Tried, and failed:"
UNCONFIRMED_TITLE = "Called, see the result:"
UNKNOWN_TITLE = "Interrupted, the result is unknown:"
RETURNED_TITLE = "Returned:"
FOR = "for"
"""Before the entities that results of an action name."""

NAMED_TITLE, NAMED = "Also named:", "conversation"
USER, MODEL = 1.0, 0.3
"""How much a name counts that a person said, or only the model."""

COMMON = 0.2
"""The same of a word that occurs in small letters, too: "Option" is seldom a name."""

OPTIONAL = (RETURNED_TITLE, USED_TITLE, NAMED_TITLE)
"""Titles of rows that are not counted when they do not fit."""

DONE, FAILED, RETURNED, SHORT_ANSWER = 1.5, 0.8, 0.3, 1.2
"""Weights of actions, failures, results in words, and results that are one name."""

LONG_WORD, NEW_WORDS = 5, 3
"""Letters of a word, and such words beside a call's own, by which a result in words
says more than that the call was done."""

MOST_NAMED = 500
"""The newest names that nothing else has, of which the best are shown."""

MOST_RETURNED = 6
"""Results in words that are shown, the newest; the others are closed searches."""

SAID_BEFORE = 0.05
"""Factor for a value that the summary states already."""

OPEN_SHARE, SAID_SHARE = 0.15, 0.05
"""Shares of the budget that requests and proposals may take, and what people said."""

LEAST_OPEN_SHARE, LEAST_OPEN = 0.25, 350
"""The share of a small budget that requests and proposals may take, and up to how many
tokens: from rows alone a reader does not know to what a "yes" agrees."""

LEAST_SAID = 40
"""Tokens that what people said may take of a small budget, up to half of it."""

FEW_CALLS = 60
"""Calls up to which rows are first made with all fields of parts, which seldom fit."""

NOTE_TOKENS = 12
"""Of the note on what is missing."""

ALL_TOKENS = 10**9
"""A budget that holds all facts, where no model reads them."""

IMPORTED_TITLE = "From another session:"

SECTIONS_SHARE = 0.5
"""Share of the facts' budget for artifacts and exchanges; rules may take all."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The lines of a facts block, and the values in them as data."""

    lines: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()


def collect_facts(
    transcript: Sequence[Entry],
    stop: int,
    *,
    said: str = "",
    budget_tokens: int,
    counter: TokenCounter,
    tools: Iterable[Tool] = (),
    read: ReadEntries | None = None,
    is_brief: bool = False,
    above: Sequence[str] = (),
) -> Facts:
    """The facts in the first `stop` entries of a transcript, within a budget.

    The arguments of `tools` tell what later calls may need. What `said`, the text of a
    summary, states already comes last. Calls of `recall` do not count. `read` is what
    was read of the entries, if it is known. With `is_brief`, beside a good summary,
    there are no rows that are only worth their space where nothing else is known.
    `above` are the lines that come first: what people said is quoted only once.
    """
    covered = transcript[:stop]
    read = read or ReadEntries(covered)
    tools = list(tools)
    unlike = _unlike(tools)
    calls, used = read.calls_by(unlike), read.used_words()
    room = budget_tokens - counter.count("\n".join(above))
    matters = _matters_in(covered, calls, read, unlike)
    most = int(room * OPEN_SHARE)
    if not is_brief:
        most = max(most, min(int(room * LEAST_OPEN_SHARE), LEAST_OPEN))
    lines = open_matters(transcript, stop, matters, most, counter)
    request = lines[:2] if lines[:1] in ([ASKED_TITLE], [OPEN_TITLE]) else []
    lines = [*_not_quoted_again(above, request), *lines]
    limit = max(int(room * SAID_SHARE), min(LEAST_SAID, room // 2))
    if not is_brief:
        lines += unused_statements(read.statements, used, limit, counter, quoted=lines)
        counts = tally(calls)
        lines += [f"Calls made: {counts}"] if counts else []
    left = budget_tokens - counter.count("\n".join([*lines, ""])) - 1
    block = Block()
    for is_short in (False, True):
        if is_short or len(calls) <= FEW_CALLS:
            rows = _rows_for(covered, calls, read, tools, unlike, is_short=is_short)
            if is_brief:
                rows = [row for row in rows if row.title not in OPTIONAL]
            block = _packed(rows, said, budget_tokens=left, counter=counter)
            if block.is_whole:
                break
    return Facts((*lines, *block.lines), block.facts)


def record_lines(
    covered: Sequence[Entry],
    start: int,
    named: str,
    *,
    summary: str,
    budget_tokens: int,
    counter: TokenCounter,
    tools: Iterable[Tool] = (),
    read: ReadEntries,
) -> list[str]:
    """What results before an index said of the records that a text names.

    For the model that writes a summary of the text and of the `summary` before: what a
    call takes may have been returned long before it is needed. What that summary says
    is omitted.
    """
    tools = list(tools)
    unlike = _unlike(tools)
    rows = _rows_for(covered, read.calls_by(unlike), read, tools, unlike)
    lacking = [
        replace(row, cells=_before(row.cells, start, summary))
        for row in rows
        if row.label_field and row.label in named
    ]
    return list(block_within(lacking, budget_tokens, counter.count).lines)


def _before(cells: Sequence[Cell], start: int, said: str) -> list[Cell]:
    """The cells from before an index with a value that a text does not have."""
    return [
        cell
        for cell in cells
        if any(f.position < start and f.value not in said for f in cell.facts)
    ]


def _unlike(tools: Sequence[Tool]) -> frozenset[str]:
    """The tools that say otherwise than their names whether they act."""
    return frozenset(e.name for e in tools if e.read_only is acts(e.name))


def _rows_for(
    covered: Sequence[Entry],
    calls: Sequence[Call],
    read: ReadEntries,
    tools: Sequence[Tool],
    unlike: frozenset[str],
    *,
    is_short: bool = True,
) -> list[Row]:
    """All rows, which are kept with what was read."""
    taken = _taken_by(tools, unlike)
    key = (taken, unlike, is_short)
    if key not in read.rows:
        matters = _matters_in(covered, calls, read, unlike)
        waiting = matters.open_calls, matters.questions
        weights = Weights(len(covered), read.uses, taken, *waiting)
        read.rows[key] = _all_rows(covered, calls, read, weights, is_short=is_short)
    return read.rows[key]


def _taken_by(tools: Sequence[Tool], unlike: frozenset[str]) -> Taken | None:
    """What the tools take; None unless all of them say so."""
    tools = [tool for tool in tools if tool.name != TOOL_NAME]
    if not tools or any("properties" not in tool.parameters for tool in tools):
        return None
    actions = [tool for tool in tools if acts(tool.name) is not (tool.name in unlike)]
    lookups = [tool for tool in tools if tool not in actions]
    by_actions, by_lookups = map(argument_names, (actions, lookups))
    return Taken(by_actions, by_lookups, frozenset(tool.name for tool in tools))


def _matters_in(
    covered: Sequence[Entry],
    calls: Sequence[Call],
    read: ReadEntries,
    unlike: frozenset[str],
) -> Matters:
    """Whose turns are, which is kept with what was read."""
    if unlike not in read.matters:
        read.matters[unlike] = Matters(covered, calls)
    return read.matters[unlike]


def _not_quoted_again(lines: Sequence[str], others: Sequence[str]) -> list[str]:
    """The lines without the quotes that stand whole in others, nor their title."""
    kept = [
        line
        for line in lines
        if not (is_quote(line) and any(quoted_text(line) in each for each in others))
    ]
    is_quoted = any(map(is_quote, kept))
    return kept if is_quoted else [line for line in kept if line != RULES_TITLE]


def facts_by(
    field: str,
    transcript: Sequence[Entry],
    *,
    counter: TokenCounter,
    tools: Iterable[Tool],
) -> dict[str, dict[str, str]]:
    """What calls have returned of each entity, by the value of one of its fields."""
    facts = collect_facts(
        transcript,
        len(transcript),
        budget_tokens=ALL_TOKENS,
        counter=counter,
        tools=tools,
    ).facts
    records: dict[tuple[int, str], dict[str, str]] = {}
    for fact in sorted(facts, key=lambda each: each.position):
        record = records.setdefault((fact.position, fact.entity), {})
        record[fact.field] = fact.value
    found: dict[str, dict[str, str]] = {}
    for record in records.values():
        if field in record:
            found.setdefault(record[field], {}).update(record)
    return found


def _all_rows(
    covered: Sequence[Entry],
    calls: Sequence[Call],
    read: ReadEntries,
    weights: Weights,
    *,
    is_short: bool,
) -> list[Row]:
    used = read.used_words()
    entities = entity_rows(calls, covered, read.said, weights, is_short=is_short)
    shown = {row.index for row in entities}
    asked = argument_rows(calls, read.known, shown, weights)
    told = {row.index for row in asked if f" {ARROW} " in row.cells[0].text}
    made = _call_rows(calls, weights)
    made = [e for e in made if e.title != RETURNED_TITLE or e.index not in told]
    rows = [*made, *entities, *asked]
    return rows + _named_rows(read, used, weights)


def _packed(
    rows: Sequence[Row],
    said: str,
    *,
    budget_tokens: int,
    counter: TokenCounter,
) -> Block:
    """The rows within the budget, and a note on the rows that did not fit."""
    told = _told_of({row.label for row in rows if row.label}, said)
    rows = [_beside(row, told.get(row.label, "")) for row in rows]
    block = block_within(rows, budget_tokens, counter.count)
    if not (note := _missing_note(block)):
        return block
    block = block_within(rows, budget_tokens - NOTE_TOKENS, counter.count)
    lines = (*block.lines, note) if block.lines else ()
    return Block(lines, block.facts, block.missing, block.is_whole)


def _told_of(labels: Collection[str], said: str) -> dict[str, str]:
    """What a text says of each label: from there to where the next one stands."""
    found = [label for label in labels if label in said]
    if not found:
        return {}
    found.sort(key=len, reverse=True)
    parts = re.split(f"({'|'.join(map(re.escape, found))})", said)
    told: dict[str, str] = {}
    for label, text in zip(parts[1::2], parts[2::2], strict=True):
        told[label] = f"{told.get(label, label)} {text}"
    return told


def _beside(row: Row, told: str) -> Row:
    """A row of which what the summary says of the same thing counts less."""
    if not told:
        return row
    cells = [
        Cell(c.column, c.text, c.weight * SAID_BEFORE, c.facts, c.separator)
        if c.facts and all(fact.value in told for fact in c.facts)
        else c
        for c in row.cells
    ]
    return replace(row, cells=cells)


def _missing_note(block: Block) -> str:
    """One line for rows of which nothing is shown."""
    indices = [
        row.index
        for row in block.missing
        if row.title not in (RETURNED_TITLE, USED_TITLE)
    ]
    if not indices:
        return ""
    first, last = min(indices), max(indices)
    span = f"{first} to {last}" if first < last else f"{first}"
    return f"({len(indices)} more not shown; recall {span})"


def _call_rows(calls: Sequence[Call], weights: Weights) -> list[Row]:
    """Rows of actions, failures, and results in words; of equal calls the newest."""
    newest: dict[str, Call] = {}
    for call in calls:
        key = f"{call.scope} {_named_by_result(call)}"
        if key in newest and newest[key].status == "done" != call.status:
            key += " again"  # what was done stays done
        elif call.status == "done":
            newest.pop(f"{key} again", None)
        newest.pop(key, None)
        newest[key] = call
    done = [call for call in newest.values() if call.status == "done"]
    rows = _done_rows(done, weights)
    others = (call for call in newest.values() if call.status != "done")
    answered = [call for call in others if call.words or call.status != "called"]
    returned = [c for c in answered if c.status == "called" and not _is_name(c.words)]
    old = {call.index for call in returned[:-MOST_RETURNED]}
    answered = [call for call in answered if call.index not in old]
    answered.sort(key=lambda call: call.status != "unconfirmed")  # beside what was done
    return rows + [_answer_row(call, weights) for call in answered]


def _done_rows(done: Sequence[Call], weights: Weights) -> list[Row]:
    """Actions; those that differ only in what they were done to share a row."""
    rows: list[Row] = []
    actions: list[Action] = []
    for call in done:
        subject = _subject(call)
        if subject is None or sum(f.is_identity for f in call.asked) > 1:
            rows.append(_done_row(call, weights))
        else:
            actions.append((call, subject))
    decided, others = decision_rows(actions, weights, title=DONE_TITLE, weight=DONE)
    groups: dict[tuple[object, ...], list[Action]] = {}
    for call, subject in others:
        rest = tuple(field for field in call.asked if field != subject)
        groups.setdefault((call.tool, subject.name, rest), []).append((call, subject))
    rows += [
        _group_row(same, weights) if len(same) > 1 else _done_row(same[0][0], weights)
        for same in groups.values()
    ]
    return sorted([*rows, *decided], key=lambda row: row.index)


def _subject(call: Call) -> Field | None:
    """The entity that an action was about: its first id, or what the result names."""
    named = _named_by_result(call)
    found = next((field for field in call.asked if field.is_identity), None)
    return found or (Field(FOR, named) if named else None)


def _named_by_result(call: Call) -> str:
    """The entity that a result begins with, as in `T3: closed`; empty without one."""
    first, colon, _ = call.words.partition(":")
    is_id = any(map(str.isdigit, first)) and any(map(str.isalpha, first))
    has_asked = any(field.is_identity for field in call.asked)
    is_named = call.status == "done" and colon and is_id and not has_asked
    return first if is_named and " " not in first and len(first) <= ONE_NAME else ""


def _done_row(call: Call, weights: Weights) -> Row:
    weight = DONE + sum(weights.weight(f.name, f.text) for f in call.asked)
    words = "" if call.record is not None else _news(call)
    subject = _subject(call)
    label = subject.text if subject else call.tool
    row = Row(
        f"done {call.index}",
        "",
        "",
        _score(label, call, weights),
        call.index,
        DONE_TITLE,
    )
    facts = tuple(Fact(call.scope, f.name, f.text, call.index) for f in call.asked)
    row.cells.append(Cell("", shown_call(call), weight, facts))
    if words:
        row.cells.append(Cell("→", quoted(words, "|"), RETURNED, ()))
    return row


def _group_row(same: Sequence[Action], weights: Weights) -> Row:
    call, subject = same[-1]
    rest = tuple(field for field in call.asked if field != subject)
    label = f"{shown_call(Call(call.tool, 0, rest))} {subject.name}:"
    row = Row(f"done {call.index}", "", label, 1, call.index, DONE_TITLE)
    row.score = max(_score(s.text, each, weights) for each, s in same)
    made = {own.text: each for each, own in same}
    for text, texts in in_ranges(list(made)):
        weight = DONE + max(weights.weight(subject.name, each) for each in texts)
        facts = tuple(
            Fact(made[t].scope, subject.name, t, made[t].index) for t in texts
        )
        shown = quoted(text, "|,") if len(texts) == 1 else text
        row.cells.append(Cell("", shown, weight, facts))
    return row


def _named_rows(read: ReadEntries, used: set[str], weights: Weights) -> list[Row]:
    """What people and the model named and no call or result has, in one row."""
    row = Row("named", "", "", 1, 0, NAMED_TITLE)
    others = (
        (name, said)
        for name, said in read.named.items()
        if name.lower().strip("#") not in used
    )
    for name, said in nlargest(MOST_NAMED, others, key=lambda pair: max(pair[1])):
        weight, index = max(
            (factor * weights.freshness(name, at), at)
            for factor, at in zip((USER, MODEL), said, strict=True)
            if at != NOT_SAID
        )
        is_id = form_weight(name) >= NAME and any(map(str.isalpha, name))
        is_common = name.lower() in read.small_words
        kind = COMMON if is_common else NEEDED if is_id else 1
        cell = weights.weight("", name) * weight * kind
        fact = Fact(NAMED, "", name, index)
        row.cells.append(Cell("", quoted(name, "|,"), cell, (fact,)))
    return [row] if row.cells else []


def _answer_row(call: Call, weights: Weights) -> Row:
    """A call that failed, was interrupted, or returned words."""
    titles = {
        "failed": FAILED_TITLE,
        "interrupted": UNKNOWN_TITLE,
        "unconfirmed": UNCONFIRMED_TITLE,
    }
    title = titles.get(call.status, RETURNED_TITLE)
    is_name = _is_name(call.words) and call.status == "called"
    weight = RETURNED
    if is_name:
        weight = SHORT_ANSWER * (NEEDED if form_weight(call.words) >= NAME else 1)
    is_failed = call.status == "failed"
    is_unclear = call.status in ("interrupted", "unconfirmed")
    if is_unclear or (is_failed and weights.waits(call.index)):
        weight = DONE + sum(weights.weight(f.name, f.text) for f in call.asked)
    elif is_failed:
        weight = FAILED
    label = call.words if is_name else call.tool
    row = Row(
        f"call {call.index}", "", "", _score(label, call, weights), call.index, title
    )
    text = shown_call(call)
    if call.words and call.status != "interrupted":
        text += f" → {quoted(cut(call.words, WORDS_CHARACTERS), '|')}"
    told = call.reasons or (Field("", call.words),)
    facts = tuple(Fact(call.scope, f.name, f.text, call.index) for f in told)
    row.cells.append(Cell("", text, weight, facts))
    return row


def _is_name(words: str) -> bool:
    return len(words) <= ONE_NAME and " " not in words


def _score(label: str, call: Call, weights: Weights) -> float:
    return weights.freshness(label, call.index)


def _news(call: Call) -> str:
    """A result in words, if it says more than that the call was done."""
    asked = {word for field in call.asked for word in field.text.lower().split()}
    known = asked.union(own_forms(call.tool), tool_words(call.tool))
    words = [word.strip(".,:;!?#'\"").lower() for word in call.words.split()]
    new = [word for word in words if word not in known]
    has_new_name = any(any(map(str.isdigit, word)) for word in new)
    has_new_words = sum(len(word) >= LONG_WORD for word in new) >= NEW_WORDS
    says_more = has_new_name or has_new_words
    return cut(call.words, WORDS_CHARACTERS) if says_more else ""


def kept_sections(
    covered: Sequence[Entry],
    policy: Policy,
    budget_tokens: int,
    counter: TokenCounter,
    *,
    quotes: Sequence[Quote] | None = None,
    rules_tokens: int | None = None,
    read: ReadEntries | None = None,
) -> list[str]:
    """The rules in force, then the sections of a policy, within a budget.

    `quotes` are what people said that is in force, if it is known. `rules_tokens` is
    what they may take; None is the whole budget. `read` is what was read of the
    entries, if it is known.
    """
    quotes = rules_in_force(covered) if quotes is None else quotes
    limit = budget_tokens if rules_tokens is None else rules_tokens
    lines = rule_lines(quotes, limit, counter)
    budget_tokens -= counter.count("\n".join(lines))
    summary = (read or ReadEntries(covered)).imported
    imported = _imported(summary, int(budget_tokens * SECTIONS_SHARE), counter)
    lines += imported
    budget_tokens -= counter.count("\n".join(imported))
    limit = int(budget_tokens * SECTIONS_SHARE)
    if policy.summarizer == "hybrid":
        lines += artifact_lines(covered, limit, counter)
    if policy.bullets:
        lines += exchange_lines(covered, policy.bullets, limit, counter)
    return lines


def _imported(
    summary: Entry | None, budget_tokens: int, counter: TokenCounter
) -> list[str]:
    """The facts in the newest summary imported from another session."""
    if summary is None:
        return []
    lines = [IMPORTED_TITLE, *summary_facts(summary.content)]
    kept = within(lines, budget_tokens, lambda line: counter.count(line) + 1)
    return kept if len(kept) > 1 else []
