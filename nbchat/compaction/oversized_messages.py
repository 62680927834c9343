"""Shorten messages that a compaction must keep and that alone exceed the window.

Results that the model has not read yet are shortened, with a note on how to recall the
rest. A message of the user is never changed: the error names it, to be excluded.
"""

from collections.abc import Sequence

from nbchat.compaction.plan import unread_cut
from nbchat.compaction.policies import LEAST_TOKENS, Policy
from nbchat.compaction.pruning.outputs import Pruning, record_of, with_note
from nbchat.compaction.shortening import shorten_to_tokens
from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.session import Session
from nbchat.conversation.turns import safe_cuts
from nbchat.errors import with_details
from nbchat.providers.tokens import TokenCounter

NOTE_TOKENS = 30
"""Tokens of the note at the end of a shortened result."""

TRIGGER = "overflow"

OVERFLOW_SHARE = 3
"""After a request was over the window results are shortened to a third: the window is
unknown, or smaller than configured."""

FIRST_WORDS = 60
"""Characters of a message that name it in an error."""


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
    pruning = Pruning(tuple(replacements))
    return record_of(session, pruning, policy, trigger=TRIGGER)


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
    return with_note(text, session.transcript[index], counter, index)
