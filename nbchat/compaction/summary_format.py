"""The text of a summary entry: the summary, and the memory beside it.

<summary>
The parcel of W100 is late.
</summary>
<facts>
Rules, preferences and decisions in force, in the user's words:
- "Write dates as 2026-11-29."
The user's messages, word for word, oldest first; ...
- Where is W100?
</facts>

Tags and role markers in texts for a model are escaped.
"""

import re
from collections.abc import Iterable

from nbchat.conversation.entries import Entry

_QUOTE_START = '- "'

_TAGS = re.compile(
    r"<(?=/?(?:summary|facts|transcript|recent|conversation_summary|previous_summary|"
    r"user|assistant|tool_call|call|result|pasted|earlier_records|notebook_now)\b|\|)",
    re.IGNORECASE,
)


def summary_entry(text: str, facts: Iterable[str]) -> Entry:
    """The entry that replaces covered entries: a summary and the facts."""
    lines = ["<summary>", escape(text), "</summary>"]
    if known := [escape(line) for line in facts]:
        lines += ["<facts>", *known, "</facts>"]
    return Entry("summary", "\n".join(lines))


def summary_text(content: str) -> str:
    """The text of a summary entry, without tags and facts."""
    _, opened, rest = content.partition("<summary>")
    text, closed, _ = rest.partition("</summary>")
    return text.strip() if opened and closed else content


def summary_facts(content: str) -> list[str]:
    """The lines of facts in a summary entry."""
    _, _, rest = content.partition("</summary>\n<facts>\n")
    return rest.removesuffix("\n</facts>").splitlines()


def statements_text(content: str) -> str:
    """The summary and its rules, for the model that writes the next one."""
    rules = [line for line in summary_facts(content) if line.startswith(_QUOTE_START)]
    return "\n".join([summary_text(content), *rules])


def escape(text: str) -> str:
    """Escape our tags and role markers in a text."""
    return _TAGS.sub("&lt;", text)


def element(tag: str, text: str) -> str:
    """A text between tags; empty for an empty one."""
    return f"<{tag}>\n{text}\n</{tag}>" if text else ""
