"""The facts: what code carries over a compaction, word for word, beside the story.

They are read from the transcript itself at every compaction, never from an earlier
summary, so nothing is retold and nothing decays.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from nbchat.compaction.fitting import shorten, within
from nbchat.compaction.identifiers import identifiers
from nbchat.history import Entry
from nbchat.tokens import TokenCounter

REQUEST_LIMIT = 4_000
"""Characters of the open request that are kept word for word."""

ROWS_SHARE = 0.3
"""Of the room for facts, the part that rows may take; names of things get the rest."""

VALUE_LIMIT = 80
"""Characters of one argument or result in a row of the ledger."""


def facts(
    transcript: Sequence[Entry],
    *,
    open_request: str,
    budget_tokens: int,
    counter: TokenCounter,
) -> list[str]:
    """The lines of a facts block within a budget; none when there is nothing to keep.

    It holds the request still being worked on, a tally of the calls made, the names of
    things that were mentioned, and one row a call with its outcome, the newest ones
    when not all fit.
    """
    head = []
    if open_request:
        head += ["Open request, word for word:", shorten(open_request, REQUEST_LIMIT)]
    rows = call_rows(transcript)
    if rows:
        head.append(f"Calls made, not to be made again: {tally(transcript)}")
    room = budget_tokens - counter.count("\n".join(head))
    kept = _newest(rows, int(room * ROWS_SHARE), counter)
    room -= counter.count("\n".join(kept))
    shown = set(re.findall(r"[^\s(),=]+", "\n".join(head + kept)))
    names = (name for name in identifiers(transcript) if name not in shown)
    named = within(names, room, lambda name: counter.count(f", {name}"))
    head += [f"Named so far: {', '.join(named)}"] if named else []
    return [*head, *kept] if head else []


def tally(transcript: Iterable[Entry]) -> str:
    """How often each tool was called, and how often it failed."""
    results = [entry for entry in transcript if entry.role == "tool"]
    calls = Counter(entry.tool_name for entry in results)
    failed = Counter(entry.tool_name for entry in results if entry.is_error)
    return ", ".join(
        f"{name} x{count}" + (f" ({failed[name]} failed)" if failed[name] else "")
        for name, count in calls.items()
    )


def call_rows(transcript: Iterable[Entry]) -> list[str]:
    """One row a finished call: `- tool(argument=value) -> first line of its result`."""
    waiting: dict[str, list[Entry]] = {}
    rows = []
    for entry in transcript:
        if entry.is_call:
            waiting.setdefault(entry.tool_id, []).append(entry)
        elif entry.role == "tool" and waiting.get(entry.tool_id):
            call = waiting[entry.tool_id].pop(0)
            rows.append(f"- {_signature(call)} -> {_brief(entry.content)}")
    return rows


def _newest(rows: Sequence[str], room: int, counter: TokenCounter) -> list[str]:
    kept = within(reversed(rows), room, lambda row: counter.count(row) + 1)
    missing = len(rows) - len(kept)
    note = [f"- ({missing} earlier calls)"] if missing else []
    return note + kept[::-1]


def _signature(call: Entry) -> str:
    values = ", ".join(f"{k}={_brief(str(v))}" for k, v in call.arguments.items())
    return f"{call.tool_name}({values})"


def _brief(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= VALUE_LIMIT else f"{line[: VALUE_LIMIT - 3]}..."
