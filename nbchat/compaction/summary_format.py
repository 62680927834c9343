"""The text of a summary entry: the summary, and the lists of facts beside it.

<summary>
The parcel of W100 is late.
</summary>
<facts>
From earlier, and not in the summary:
* Ann needs W100 by Friday.
Said by people and not used yet:
- "My zip code is 10115."
</facts>

Tags and role markers in texts for a model are escaped.
"""

import re
from collections.abc import Iterable
from itertools import takewhile

from nbchat.conversation.entries import Entry

QUOTE_TOKENS = 110
"""The longest quote."""

CARRIED_TITLE, CARRIED_MARK = "From earlier, and not in the summary:", "* "
"""The title of the sentences carried over, and the sign before each."""

UNUSED_TITLE = "Said by people and not used yet:"
"""The title of what people said and no call has used."""

GAP = " […] "
"""Between the parts of a quote."""

_QUOTE_START, _QUOTE_END = '- "', '"'

_TAGS = re.compile(
    r"<(?=/?(?:summary|facts|transcript|recent|conversation_summary|previous_summary|"
    r"user|assistant|tool_call|call|result|pasted|earlier_records)\b|\|)",
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


def statements_text(content: str, *, with_quotes: bool = True) -> str:
    """The statements of a summary entry: summary, carried sentences and quotes.

    The quotes are of what people said, for which a later entry may have no space.
    """
    lines = [summary_text(content), *carried_lines(content)[1:]]
    for line in _lines_below(UNUSED_TITLE, content) if with_quotes else ():
        lines += quoted_text(line).split(GAP)
    return "\n".join(lines)


def carried_list(sentences: Iterable[str]) -> list[str]:
    """The list of the sentences carried over, with its title."""
    return [CARRIED_TITLE, *(f"{CARRIED_MARK}{line}" for line in sentences)]


def carried_lines(content: str) -> list[str]:
    """The list of the sentences carried over to a summary entry, with its title."""
    kept = _lines_below(CARRIED_TITLE, content)
    return [CARRIED_TITLE, *kept] if kept else []


def quote_line(text: str, whose: str = "") -> str:
    """The line that quotes a text; `whose` says what record it is about."""
    line = f"{_QUOTE_START}{' '.join(text.split())}{_QUOTE_END}"
    return f"{line} ({whose})" if whose else line


def quoted_text(line: str) -> str:
    """The text that a line quotes."""
    text = line.removeprefix(_QUOTE_START)
    return text.rpartition(_QUOTE_END)[0] or text


def is_quote(line: str) -> bool:
    """Whether a line of facts is a quote."""
    return line.startswith(_QUOTE_START)


def _lines_below(title: str, content: str) -> list[str]:
    """The lines of a list in the facts of a summary entry."""
    lines = summary_facts(content)
    start = lines.index(title) + 1 if title in lines else len(lines)
    mark = CARRIED_MARK if title == CARRIED_TITLE else _QUOTE_START
    return list(takewhile(lambda line: line.startswith(mark), lines[start:]))


def escape(text: str) -> str:
    """Escape our tags and role markers in a text."""
    return _TAGS.sub("&lt;", text)


def element(tag: str, text: str) -> str:
    """A text between tags; empty for an empty one."""
    return f"<{tag}>\n{text}\n</{tag}>" if text else ""
