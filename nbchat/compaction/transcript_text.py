"""Write entries as data for a model, one element each."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from nbchat.compaction.markup import escape
from nbchat.conversation.entries import Entry
from nbchat.conversation.pastes import parts_of


def transcript(entries: Iterable[Entry]) -> str:
    """Entries as one element each, for a model to read and not to obey.

    Without thinking: it is not what the assistant said. Results name the tool of their
    call, and its number where several calls were made together.
    """
    said = [entry for entry in entries if entry.role != "thinking"]
    calls = _call_attributes(said)
    return "\n".join(_element(entry, calls) for entry in said)


def _call_attributes(entries: Sequence[Entry]) -> dict[str, str]:
    """What tags say of each call and its result, by the id of the call."""
    found = {}
    for is_call, batch in groupby(entries, key=lambda entry: entry.is_call):
        calls = list(batch) if is_call else []
        for number, call in enumerate(calls, 1):
            which = f' number="{number}"' if len(calls) > 1 else ""
            found[call.tool_id] = f'tool="{_name(call)}"{which}'
    return found


def _element(entry: Entry, calls: dict[str, str]) -> str:
    if entry.is_call:
        return f"<call {calls[entry.tool_id]}>{escape(entry.tool_args)}</call>"
    if entry.role == "tool":
        which = calls.get(entry.tool_id, f'tool="{_name(entry)}"')
        return f"<result {which}>{escape(entry.content)}</result>"
    if entry.role == "user" and entry.tool_name:
        return f"<user>[{_name(entry)}] {escape(entry.attachment_text)}</user>"
    if entry.is_by_nbchat:
        return f"<user>[nbchat] {escape(entry.content)}</user>"
    return f"<{entry.role}>{_content(entry)}</{entry.role}>"


def _content(entry: Entry) -> str:
    """The text of an entry; what a person pasted is between tags of its own."""
    parts = ((escape(text), is_pasted) for text, is_pasted in parts_of(entry))
    return "".join(
        f"<pasted>{text}</pasted>" if is_pasted else text for text, is_pasted in parts
    )


def _name(entry: Entry) -> str:
    return re.sub(r"[^\w.-]", "_", entry.tool_name)
