"""Shorten old tool outputs without a model.

A pruning is a record like a summary: the transcript keeps every output whole, and the
model sees some of them shortened. Each of these ends with a line that says how much is
missing and how to recall it. Pruning breaks the prompt cache, so it must save enough.
"""

import re
import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from nbchat.compaction.policies import Policy
from nbchat.compaction.pruning.tool_output import SMALL_TOKENS, shortened
from nbchat.conversation.entries import RETRIEVAL, Compaction, Entry, prefix_hash
from nbchat.conversation.search import TOOL_NAME
from nbchat.conversation.session import Session
from nbchat.conversation.turns import calls_by_result, safe_cuts
from nbchat.providers.tokens import TokenCounter

UNTOUCHED_UNITS = 3
"""Newest units whose outputs stay whole: the model is at work with them."""

LEAST_SHARE, LEAST_TOKENS = 0.20, 2_000
"""What must come free, a share of the context or so many tokens: below it the cache
that a change breaks costs more than is saved (opencode prunes with such a minimum)."""

TARGET_SHARE = 0.8
"""Of the window guard's limit, what a pruning must come down to so that no model is
called: a quarter can be said again before the guard fires."""

_NOTE = re.compile(
    r"\[[\d,]{1,20} of [\d,]{1,20} tokens left out"
    r"(?:; recall\(\d{1,20}\) brings them back)?\]"
)


@dataclass(frozen=True, slots=True)
class Pruning:
    """What could be seen shortened: places in the transcript with their new text."""

    replacements: tuple[tuple[int, str], ...] = ()
    saved_tokens: int = 0

    def pays(self, context_tokens: int) -> bool:
        """Whether enough comes free of a context."""
        least = min(LEAST_TOKENS, context_tokens * LEAST_SHARE)
        return bool(self.replacements) and self.saved_tokens >= least


def make_pruning(
    session: Session, counter: TokenCounter, *, protected: Collection[str] = ()
) -> Pruning:
    """Every old output that can be shorter; outputs of `protected` tools stay.

    Errors stay, small outputs stay, what is shortened already stays as it is, and of
    identical outputs the newest is kept.
    """
    found = list(_replacements(session, counter, protected))
    saved = sum(
        counter.count_entry(entry) - counter.count_entry(entry._replace(content=text))
        for entry, text in ((session.transcript[place], text) for place, text in found)
    )
    return Pruning(tuple(found), saved)


def prune_text(
    entry: Entry,
    counter: TokenCounter,
    *,
    position: int | None = None,
    tool_name: str = "",
) -> str:
    """A tool's output, shortened by its kind; what should stay whole comes back whole.

    `position` in the transcript lets the last line say how to recall the rest. Pruning
    a pruned text changes nothing. Anything but a tool's output is left alone.
    """
    is_pruned = _NOTE.fullmatch(entry.content[-100:].rpartition("\n")[2])
    if entry.role != "tool" or entry.is_error or is_pruned:
        return entry.content
    name = entry.tool_name or tool_name
    text = shortened(entry.content, counter.count, tool_name=name)
    return _noted(text, entry, counter, position)


def _replacements(
    session: Session, counter: TokenCounter, protected: Collection[str]
) -> Iterator[tuple[int, str]]:
    entries = session.included_transcript
    start = session.compaction.stop if session.compaction else 0
    seen = {place for c in session.active_compactions for place, _ in c.replacements}
    calls = calls_by_result(entries)
    newest = {
        entry.content: place
        for place, entry in enumerate(entries[start:], start)
        if entry.role == "tool" and not entry.is_error
    }
    for place in range(start, start + _old(entries[start:])):
        entry = entries[place]
        name = entry.tool_name or entries[calls.get(place, place)].tool_name
        if place in seen or entry.role != "tool" or name in protected:
            continue
        if entry.is_error or counter.count_entry(entry) < SMALL_TOKENS:
            continue
        same = newest[entry.content]
        if same > place:
            yield place, _noted(f"[same as recall({same})]", entry, counter, place)
        else:
            text = prune_text(entry, counter, position=place, tool_name=name)
            if text != entry.content:
                yield place, text


def _old(entries: Sequence[Entry]) -> int:
    """How many entries lie before the newest units."""
    cuts = safe_cuts(entries)
    return cuts[-1 - UNTOUCHED_UNITS] if len(cuts) > UNTOUCHED_UNITS else 0


def _noted(text: str, entry: Entry, counter: TokenCounter, position: int | None) -> str:
    """The shortened text and the line that says what is missing; else the whole."""
    if text == entry.content:
        return text
    whole = counter.count(entry.content)
    missing = max(whole - counter.count(text), 0)
    way = "" if position is None else f"; recall({position}) brings them back"
    return f"{text}\n[{missing:,} of {whole:,} tokens left out{way}]"


def newest_shortened(
    session: Session, policy: Policy, counter: TokenCounter
) -> Compaction | None:
    """The record that shortens the newest output before the model first sees it.

    None where the policy leaves outputs alone, and for one that should stay whole:
    small, an error, of a protected tool, or what the model has just had recalled.
    """
    place, entry = len(session.transcript) - 1, session.transcript[-1]
    if not policy.shortens_at_once or policy.verbosity == "debug":
        return None
    if entry.tool_name in (*policy.protected_tools, TOOL_NAME):
        return None
    text = prune_text(entry, counter, position=place)
    if text == entry.content:
        return None
    short = entry._replace(content=text)
    before, after = map(counter.count_entry, (entry, short))
    record = record_of(session, Pruning(((place, text),)), policy, trigger=RETRIEVAL)
    return replace(record, tokens_before=before, tokens_after=after)


def record_of(
    session: Session, pruning: Pruning, policy: Policy, *, trigger: str
) -> Compaction:
    """The record of what is seen shortened from now on, its figures to come."""
    stop = pruning.replacements[-1][0] + 1
    return Compaction(
        id=uuid.uuid4().hex[:12],
        start=pruning.replacements[0][0],
        stop=stop,
        summary="",
        trigger=trigger,
        policy=policy.name,
        prefix_hash=prefix_hash(session.transcript[:stop]),
        committed_at=len(session.transcript),
        kind="pruning",
        replacements=pruning.replacements,
    )
