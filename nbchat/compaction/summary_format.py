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
from itertools import takewhile

from nbchat.conversation.entries import Entry

CARRIED_TITLE, CARRIED_MARK = "From earlier, and not in the summary:", "* "
"""The title of the sentences carried over, and the sign before each."""

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
    """The statements of a summary entry, for the model that writes the next one.

    The summary, the rules that stand beside it, and what older versions of nbchat
    carried over.
    """
    quotes = [line for line in summary_facts(content) if is_quote(line)]
    return "\n".join([summary_text(content), *carried_lines(content)[1:], *quotes])


def carried_lines(content: str) -> list[str]:
    """The sentences that older versions carried over, with their title."""
    lines = summary_facts(content)
    start = lines.index(CARRIED_TITLE) + 1 if CARRIED_TITLE in lines else len(lines)
    kept = takewhile(lambda line: line.startswith(CARRIED_MARK), lines[start:])
    found = list(kept)
    return [CARRIED_TITLE, *found] if found else []


def is_quote(line: str) -> bool:
    """Whether a line of facts is a quote."""
    return line.startswith(_QUOTE_START)


def escape(text: str) -> str:
    """Escape our tags and role markers in a text."""
    return _TAGS.sub("&lt;", text)


def element(tag: str, text: str) -> str:
    """A text between tags; empty for an empty one."""
    return f"<{tag}>\n{text}\n</{tag}>" if text else ""
