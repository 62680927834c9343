"""Shorten tool outputs without a model, as they arrive or where they fill the window.

As it arrives, in every policy and for every tool, a text is whole up to 8,000 tokens
and 500 lines. A longer one keeps head and tail; a failed call its last 60 lines and
stderr. A call has failed by its error mark or exit status, never by words in it.

Results that the model has not read yet and that alone exceed the window are shortened
to fit. A message of the user is never changed: the error names it, to be excluded.

A pruning is a record like a summary: the transcript keeps every output whole, and the
model sees some of them shortened. Each of these ends with a line that says how much is
missing and how to recall it.
"""

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nbchat.compaction.plan import unread_cut
from nbchat.compaction.policies import LEAST_TOKENS, Policy
from nbchat.compaction.pruning.output_kinds import Count, shortened_at_once
from nbchat.compaction.results import ends_in_failure, parsed, reports_failure, written
from nbchat.compaction.shortening import shorten_to_tokens
from nbchat.conversation.entries import RETRIEVAL, Compaction, Entry
from nbchat.conversation.search_index import TOOL_NAME
from nbchat.conversation.session import Session
from nbchat.conversation.turns import safe_cuts
from nbchat.errors import with_details
from nbchat.providers.tokens import TokenCounter, most_tokens

Replacements = Sequence[tuple[int, str]]
"""Indices in the transcript of outputs to shorten, with their new text."""

NOTE_TOKENS = 30
"""Tokens of the note at the end of a shortened result."""

OVERFLOW = "overflow"
"""Trigger of a pruning of results that would not fit the window."""

OVERFLOW_SHARE = 3
"""After a request was over the window results are shortened to a third: the window is
unknown, or smaller than configured."""

FIRST_WORDS = 60
"""Characters of a message that name it in an error."""


def _with_note(text: str, entry: Entry, counter: TokenCounter, position: int) -> str:
    """The shortened text with a line on what is missing; the same text if whole."""
    if text == entry.content:
        return text
    whole = counter.count(entry.content)
    missing = max(whole - counter.count(text), 0)
    hint = f"recall({position}) returns them"
    return f"{text}\n[{missing:,} of {whole:,} tokens omitted; {hint}]"


def newest_shortened(
    session: Session, policy: Policy, counter: TokenCounter, *, shown: str = ""
) -> Compaction | None:
    """The record that shortens the newest output before the model first sees it.

    To `shown` if it is given, by its kind where the policy says so, and in any case to
    what `bounded` leaves. None for outputs that stay whole: most, and those of
    protected tools and of `recall`.
    """
    index, entry = len(session.transcript) - 1, session.transcript[-1]
    protected = (*policy.protected_tools, TOOL_NAME)
    if policy.verbosity == "debug" or entry.tool_name in protected:
        return None
    text = shown or entry.content
    if policy.shortens_at_once and not (shown or entry.is_error):
        text = shortened_at_once(text, counter.count, tool_name=entry.tool_name)
    text = bounded(text, counter.count, is_failed=entry.is_error)
    text = _with_note(text, entry, counter, index)
    if text == entry.content:
        return None
    short = entry._replace(content=text)
    before, after = map(counter.count_entry, (entry, short))
    record = record_of(session, [(index, text)], policy, trigger=RETRIEVAL)
    return replace(record, tokens_before=before, tokens_after=after)


def shortened_unread(
    session: Session,
    policy: Policy,
    counter: TokenCounter,
    *,
    limit_tokens: int | None = None,
) -> Compaction | None:
    """The record that shortens results which the model has not read, to fit.

    Without `limit_tokens`, where a server refused the request and its window is not
    known, to a third of their tokens. None where all fit or nothing can be shortened.
    """
    history = session.history
    offset = len(session.transcript) - len(history)
    start = unread_cut(history, safe_cuts(history))
    unread = enumerate(history[start:], start + offset)
    results = [(index, entry) for index, entry in unread if entry.role == "tool"]
    tokens = [counter.count_entry(entry) for _, entry in results]
    total = counter.count_entries(history[start:])
    limit = limit_tokens
    if limit is None:
        limit = total - sum(tokens) + sum(tokens) // OVERFLOW_SHARE
    if total <= limit or not results:
        return None
    most = _most_each(tokens, max(limit - total + sum(tokens), 0))
    replacements = [
        (index, _shortened(session, index, entry, most, counter))
        for (index, entry), size in zip(results, tokens, strict=True)
        if size > most
    ]
    return record_of(session, replacements, policy, trigger=OVERFLOW)


def with_largest_message(error: str, session: Session, counter: TokenCounter) -> str:
    """An error about a request that was too long, with the message to exclude."""
    offset = len(session.transcript) - len(session.history)
    sizes = [
        (counter.count_entry(entry), index + offset, entry)
        for index, entry in enumerate(session.history)
        if entry.can_be_excluded and index + offset not in session.excluded
    ]
    tokens, index, entry = max(sizes, default=(0, 0, Entry("user", "")))
    if tokens < LEAST_TOKENS:
        return error
    words = " ".join(entry.content[: FIRST_WORDS * 2].split())
    first = words if len(words) <= FIRST_WORDS else f"{words[:FIRST_WORDS]}…"
    line, *details = error.splitlines()
    largest = f'The largest is #{index}, "{first}", with about {tokens:,} tokens.'
    how = f"/exclude {index} hides it from the model."
    return with_details(f"{line} {largest} {how}", *details)


def _most_each(tokens: Sequence[int], limit: int) -> int:
    """Tokens that each may have at most, so that all together fit the window."""
    left = limit
    for done, size in enumerate(sorted(tokens)):
        share = left // (len(tokens) - done)
        if size > share:
            return share
        left -= size
    return max(tokens)


def _shortened(
    session: Session, index: int, entry: Entry, most: int, counter: TokenCounter
) -> str:
    """The head and tail of a result as the model sees it, with a note."""
    text = shorten_to_tokens(entry.content, max(most - NOTE_TOKENS, 0), counter.count)
    return _with_note(text, session.transcript[index], counter, index)


def record_of(
    session: Session, replacements: Replacements, policy: Policy, *, trigger: str
) -> Compaction:
    """The record of a pruning, without token figures."""
    stop = replacements[-1][0] + 1
    return Compaction(
        id=uuid.uuid4().hex[:12],
        start=replacements[0][0],
        stop=stop,
        summary="",
        trigger=trigger,
        policy=policy.name,
        prefix_hash=session.transcript.prefix_hash(stop),
        committed_at=len(session.transcript),
        kind="pruning",
        replacements=tuple(replacements),
    )


WHOLE_TOKENS, WHOLE_LINES = 8_000, 500
"""Up to these a text is whole: a file, or the output of a run of all tests."""

BOUNDED_TOKENS = 4_000
"""The tokens that are left of a longer text."""

FAILED_LINES, FAILED_TOKENS = 60, 2_500
"""Last lines of a failed call that stay, and their most tokens."""


def bounded(text: str, count: Count, *, is_failed: bool = False) -> str:
    """The text, or what of a long one shows most."""
    is_long = text.count("\n") >= WHOLE_LINES
    if most_tokens(text) <= (BOUNDED_TOKENS if is_long else WHOLE_TOKENS):
        return text
    size = count(text)
    if size <= BOUNDED_TOKENS or (size <= WHOLE_TOKENS and not is_long):
        return text
    value = parsed(text)
    if reports_failure(value, in_lists=True):
        text, is_failed = written(_with_ends(value, count)), True
        if count(text) <= BOUNDED_TOKENS:
            return text
    if not is_failed and not ends_in_failure(text):
        return shorten_to_tokens(text, BOUNDED_TOKENS, count)
    lines = text.splitlines()
    tail = shorten_to_tokens("\n".join(lines[-FAILED_LINES:]), FAILED_TOKENS, count)
    left = BOUNDED_TOKENS - count(tail)
    head = shorten_to_tokens("\n".join(lines[:-FAILED_LINES]), left, count)
    return "\n".join(filter(None, (head, tail)))


def _with_ends(value: Any, count: Count) -> Any:
    """A result whose texts are cut to their last lines; stderr has the most room."""
    if isinstance(value, list):
        return [_with_ends(each, count) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _end(each, count, tokens=FAILED_TOKENS if key == "stderr" else 1_000)
        if type(each) is str
        else _with_ends(each, count)
        for key, each in value.items()
    }


def _end(text: str, count: Count, *, tokens: int) -> str:
    """The last lines of a text, within some tokens."""
    if count(text) <= tokens:
        return text
    lines = text.splitlines()
    left_out = len(lines) - FAILED_LINES
    tail = shorten_to_tokens("\n".join(lines[-FAILED_LINES:]), tokens, count)
    return f"[{left_out:,} lines omitted]\n{tail}" if left_out > 0 else tail
