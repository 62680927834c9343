"""Hide the secrets of whole entries, before facts and extracts cut them.

In a line of a private key, or in a password below the line that names it, nothing says
that it is a secret. So a message is masked whole, and what is quoted of it is a part of
the masked text. Results and arguments in JSON are masked by their texts: a value that
is a secret by its name or form alone is left to the reader of records, and to the last
check of each line.
"""

from collections.abc import Iterable
from typing import Any

from nbchat.compaction.exact_json import Number, parsed, written
from nbchat.conversation.entries import Entry
from nbchat.conversation.pastes import with_hidden_secrets
from nbchat.conversation.secret_masking import HIDDEN, without_secrets
from nbchat.conversation.session import TranscriptView


class MaskedEntries:
    """Masks each entry once."""

    def __init__(self) -> None:
        """Start with nothing masked."""
        self._newest: dict[Entry, Entry] = {}
        self._transcript: tuple[TranscriptView, dict[int, Entry]] | None = None
        """The transcript that was masked last, and what is changed in it."""

    def of(self, entries: Iterable[Entry]) -> list[Entry]:
        """A few entries without the secrets in their texts; kept for the next call."""
        known, newest = self._newest, dict[Entry, Entry]()
        masked_entries = []
        for entry in entries:
            newest[entry] = known.get(entry) or newest.get(entry) or masked(entry)
            masked_entries.append(newest[entry])
        self._newest = newest
        return masked_entries

    def of_transcript(self, view: TranscriptView) -> TranscriptView:
        """A transcript without the secrets in its texts; only what is new is masked.

        All is, where the entries of the last call were changed, as by an exclusion.
        """
        start, changes = 0, dict(view.changes)
        if self._transcript is not None:
            before, masked_before = self._transcript
            if before == view[: len(before)]:
                start, changes = len(before), masked_before
        for index, entry in enumerate(view[start:], start):
            hidden = masked(entry)
            if hidden is not entry or index in view.changes:
                changes[index] = hidden
        self._transcript = view, changes
        return TranscriptView(view.source, changes, len(view))


def masked(entry: Entry) -> Entry:
    """The entry without the secrets in its texts; attachments and thinking stay."""
    if entry.is_prompt:
        return with_hidden_secrets(entry)
    if entry.is_call:
        arguments = _masked_json(entry.tool_args)
        is_same = arguments == entry.tool_args
        return entry if is_same else entry._replace(tool_args=arguments)
    if entry.role in ("assistant", "tool", "summary"):
        content = _masked_json(entry.content)
        return entry if content == entry.content else entry._replace(content=content)
    return entry


def _masked_json(text: str) -> str:
    """A text without secrets; of JSON, only its texts that say more than a value.

    JSON that is nested too deeply is masked as text.
    """
    found = parsed(text)
    try:
        shown = _masked_value(found)
        is_same = shown == found
        masked_text = text if is_same else written(shown)
    except RecursionError:
        found = None
    return without_secrets(text)[0] if found is None else masked_text


def _masked_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _masked_value(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_masked_value(each) for each in value]
    if not isinstance(value, str) or isinstance(value, Number):
        return value
    text = without_secrets(value)[0]
    return value if text == HIDDEN else text
