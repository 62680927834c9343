"""Shorten tool outputs without a model: each as it arrives, and old ones.

As it arrives, in every policy and for every tool, a text is whole up to 8,000 tokens
and 500 lines. A longer one keeps head and tail; a failed call its last 60 lines and
stderr. A call has failed by its error mark or exit status, never by words in it.

A pruning of old outputs is a record like a summary: the transcript keeps every output
whole, and the model sees some of them shortened. Each of these ends with a line that
says how much is missing and how to recall it. Pruning breaks the prompt cache, so it
must save enough.
"""

import re
import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nbchat.compaction.exact_json import parsed, written
from nbchat.compaction.exit_status import ends_in_failure, reports_failure
from nbchat.compaction.policies import Policy
from nbchat.compaction.pruning.output_kinds import (
    SMALL_TOKENS,
    Count,
    shortened,
    shortened_at_once,
)
from nbchat.compaction.shortening import shorten_to_tokens
from nbchat.conversation.entries import RETRIEVAL, Compaction, Entry
from nbchat.conversation.search_index import TOOL_NAME
from nbchat.conversation.session import Session
from nbchat.conversation.turns import calls_by_result, safe_cuts
from nbchat.providers.tokens import TokenCounter, most_tokens

UNTOUCHED_UNITS = 3
"""Newest units whose outputs stay whole: the model is still using them."""

LEAST_SHARE, LEAST_TOKENS = 0.20, 2_000
"""Least share of the context, or least tokens, to save: below it the broken cache costs
more than is saved (opencode prunes with such a minimum)."""

TARGET_SHARE = 0.8
"""Share of the window guard's limit that a pruning must get below: then the context can
grow by a quarter before the guard fires."""

_NOTE = re.compile(
    r"\[[\d,]{1,20} of [\d,]{1,20} tokens omitted"
    r"(?:; recall\(\d{1,20}\) returns them)?\]"
)


@dataclass(frozen=True, slots=True)
class Pruning:
    """Outputs to shorten: indices in the transcript with their new text."""

    replacements: tuple[tuple[int, str], ...] = ()
    saved_tokens: int = 0

    def pays(self, context_tokens: int) -> bool:
        """True if enough of a context is saved."""
        least = min(LEAST_TOKENS, context_tokens * LEAST_SHARE)
        return bool(self.replacements) and self.saved_tokens >= least


def make_pruning(
    session: Session, counter: TokenCounter, *, protected: Collection[str] = ()
) -> Pruning:
    """All old outputs that can be shortened, except those of `protected` tools.

    Errors, small outputs and shortened ones stay as they are. The newest of identical
    outputs is kept.
    """
    found = list(_replacements(session, counter, protected))
    saved = sum(
        counter.count_entry(entry) - counter.count_entry(entry._replace(content=text))
        for entry, text in ((session.transcript[index], text) for index, text in found)
    )
    return Pruning(tuple(found), saved)


def prune_text(
    entry: Entry,
    counter: TokenCounter,
    *,
    position: int | None = None,
    tool_name: str = "",
) -> str:
    """A tool's output, shortened by its kind, or the whole text where it should stay.

    With its `position` in the transcript the last line states how to recall the rest.
    Pruning a pruned text changes nothing, nor does any entry but a tool's output.
    """
    is_pruned = _NOTE.fullmatch(entry.content[-100:].rpartition("\n")[2])
    if entry.role != "tool" or entry.is_error or is_pruned:
        return entry.content
    name = entry.tool_name or tool_name
    text = shortened(entry.content, counter.count, tool_name=name)
    return with_note(text, entry, counter, position)


def _replacements(
    session: Session, counter: TokenCounter, protected: Collection[str]
) -> Iterator[tuple[int, str]]:
    entries = session.included_transcript
    start = session.compaction.stop if session.compaction else 0
    pruned = {index for c in session.active_compactions for index, _ in c.replacements}
    calls = calls_by_result(entries)
    newest = {
        entry.content: index
        for index, entry in enumerate(entries[start:], start)
        if entry.role == "tool" and not entry.is_error
    }
    for index in range(start, start + _old(entries[start:])):
        entry = entries[index]
        name = entry.tool_name or entries[calls.get(index, index)].tool_name
        if index in pruned or entry.role != "tool" or name in protected:
            continue
        if entry.is_error or counter.count_entry(entry) < SMALL_TOKENS:
            continue
        same = newest[entry.content]
        if same > index:
            yield index, with_note(f"[same as recall({same})]", entry, counter, index)
        else:
            text = prune_text(entry, counter, position=index, tool_name=name)
            if text != entry.content:
                yield index, text


def _old(entries: Sequence[Entry]) -> int:
    """The number of entries before the newest units."""
    cuts = safe_cuts(entries)
    return cuts[-1 - UNTOUCHED_UNITS] if len(cuts) > UNTOUCHED_UNITS else 0


def with_note(
    text: str, entry: Entry, counter: TokenCounter, position: int | None
) -> str:
    """The shortened text with a line on what is missing; the same text if whole."""
    if text == entry.content:
        return text
    whole = counter.count(entry.content)
    missing = max(whole - counter.count(text), 0)
    hint = "" if position is None else f"; recall({position}) returns them"
    return f"{text}\n[{missing:,} of {whole:,} tokens omitted{hint}]"


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
    text = with_note(text, entry, counter, index)
    if text == entry.content:
        return None
    short = entry._replace(content=text)
    before, after = map(counter.count_entry, (entry, short))
    record = record_of(session, Pruning(((index, text),)), policy, trigger=RETRIEVAL)
    return replace(record, tokens_before=before, tokens_after=after)


def record_of(
    session: Session, pruning: Pruning, policy: Policy, *, trigger: str
) -> Compaction:
    """The record of a pruning, without token figures."""
    stop = pruning.replacements[-1][0] + 1
    return Compaction(
        id=uuid.uuid4().hex[:12],
        start=pruning.replacements[0][0],
        stop=stop,
        summary="",
        trigger=trigger,
        policy=policy.name,
        prefix_hash=session.transcript.prefix_hash(stop),
        committed_at=len(session.transcript),
        kind="pruning",
        replacements=pruning.replacements,
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
