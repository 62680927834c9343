"""Check pins, summaries and shortened outputs of an imported session.

A file comes from anywhere. Its messages can be read in the panel; its pins, summaries,
facts, rules and shortened outputs act on the model unseen. They are listed, taken over
only when that was confirmed, and checked: a shortened output holds words of the output
only. A summary among the messages is of no session of nbchat, and needs the same yes.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from nbchat.conversation.entries import (
    EXCLUDED_TEXT,
    Compaction,
    Entry,
    Usage,
    prefix_hash,
)
from nbchat.conversation.rules_file import rules_in, without_rules
from nbchat.conversation.session import CHECKPOINT, Session

SHOWN_LENGTH = 200
"""Characters of a text that a list of claims shows."""

SUMMARY_LENGTH = 4_000
"""Characters of a summary that a list of claims shows: two screens of a terminal."""

NOTE_WORDS = frozenset(
    {"of", "to", "tokens", "recall", "returns", "them", "same", "as"}
    | {"more", "items", "lines", "keys", "chars", "characters", "entries", "rows"}
    | {"not", "shown", "omitted", "a", "later", "output", "the", "and", "in"}
)
"""Words that nbchat itself writes into a shortened output."""

_WORD = re.compile(r"[^\W\d_]+")


def claims(session: Session) -> list[str]:
    """A line for each part of a file, besides messages, on which a model would act."""
    lines = [_pin(text) for text in session.pins]
    rules = rules_in(session.transcript)
    lines += [f"rules of a file: {_brief(rules.text)}"] if rules else []
    lines += [f"not a rule: {_brief(text)}" for text in session.dropped_rules]
    forged = [entry for entry in session.transcript if _is_summary(entry)]
    lines += [_summary(entry.content) for entry in forged]
    for record in session.active_compactions:
        if record.kind == "summary":
            lines.append(_summary(record.summary))
        else:
            lines += _replacements(record)
        lines += _quotes(record)
    return lines


def without_claims(session: Session) -> Session:
    """The messages alone."""
    entries = without_rules(session.transcript)
    kept = [entry for entry in entries if not _is_summary(entry)]
    usages = _usages_without_summaries(session)
    return Session(kept, session_id=session.session_id, usages=usages)


def checked(session: Session) -> Session:
    """A session with what was confirmed, without records that do not match it.

    Their hashes are computed from the messages of the file.
    """
    records = [each for each in session.compactions if _is_possible(session, each)]
    entries = session.transcript
    return Session(
        entries,
        session_id=session.session_id,
        compactions=[
            replace(each, prefix_hash=prefix_hash(entries[: each.stop]))
            if each.is_active
            else each
            for each in records
        ],
        usages=session.usages,
        pins=session.pins,
        dropped_rules=session.dropped_rules,
    )


def _is_summary(entry: Entry) -> bool:
    return entry.role == "summary"


def _usages_without_summaries(session: Session) -> list[tuple[int, Usage]]:
    """The usages, each with the number of other entries before it."""
    others = [0]
    for entry in session.transcript:
        others.append(others[-1] + (not _is_summary(entry)))
    return [(others[length], usage) for length, usage in session.usages]


def _pin(text: str) -> str:
    if text.startswith(CHECKPOINT):
        return f"checkpoint: {_brief(text.removeprefix(CHECKPOINT))}"
    return f"pinned rule: {_brief(text)}"


def _replacements(record: Compaction) -> Iterator[str]:
    for position, text in record.replacements:
        yield f"message {position} is shown to the model as: {_brief(text)}"


def _summary(text: str) -> str:
    """A summary with the lists beside it, as the model would read them."""
    line = " ".join(text.split())
    rest = len(line) - SUMMARY_LENGTH
    more = f"... ({rest:,} more characters)" if rest > 0 else ""
    return f"summary: {line[:SUMMARY_LENGTH]}{more}"


def _quotes(record: Compaction) -> Iterator[str]:
    """The lines beside a record's summary, to be carried into the next one."""
    for text in record.fields.open_items if record.fields else ():
        yield f"open item: {_brief(text)}"
    for fact in record.facts:
        yield f"fact: {_brief(f'{fact.entity} {fact.field} {fact.value}')}"
    for rule in record.rules:
        yield f"rule: {_brief(rule.text)}"
    for line in record.memory:
        yield f"quote: {_brief(line.text)}"


def _brief(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_LENGTH else f"{line[:SHOWN_LENGTH]}..."


def _is_possible(session: Session, record: Compaction) -> bool:
    """True if nbchat could have made a record of these messages."""
    length = len(session.transcript)
    is_inside = 0 <= record.start <= record.stop <= length
    is_inside = is_inside and 0 <= record.committed_at <= length
    return is_inside and all(
        0 <= position < length and _is_made_of(session, record, position, text)
        for position, text in record.replacements
    )


def _is_made_of(session: Session, record: Compaction, position: int, text: str) -> bool:
    """True if a replaced text says nothing that the message does not."""
    entry = session.transcript[position]
    if record.is_exclusion:
        return entry.can_be_excluded and text == EXCLUDED_TEXT
    words = {*_WORD.findall(entry.content.casefold())} | NOTE_WORDS
    is_shorter = len(text) <= len(entry.content)
    is_output = entry.role == "tool" and is_shorter
    return is_output and words.issuperset(_WORD.findall(text.casefold()))
