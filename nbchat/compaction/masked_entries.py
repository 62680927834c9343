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


class MaskedEntries:
    """Masks each entry once, and returns the same object for it every time."""

    def __init__(self) -> None:
        """Start with nothing masked."""
        self._masked: dict[Entry, Entry] = {}
        self._summary: dict[Entry, Entry] = {}

    def of(self, entries: Iterable[Entry]) -> list[Entry]:
        """The entries without the secrets in their texts."""
        return [self._of(entry) for entry in entries]

    def _of(self, entry: Entry) -> Entry:
        is_summary = entry.role == "summary"
        known = self._summary if is_summary else self._masked
        found = known.get(entry)
        if found is None:
            if is_summary:  # of those before nothing is asked again
                known.clear()
            found = known[entry] = masked(entry)
        return found


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
