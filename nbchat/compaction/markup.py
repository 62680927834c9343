"""Put texts for a model between tags; tags in the texts are escaped."""

import re

_TAGS = re.compile(
    r"<(?=/?(?:summary|facts|transcript|recent|conversation_summary|previous_summary|"
    r"user|assistant|tool_call|call|result|pasted|earlier_records)\b|\|)",
    re.IGNORECASE,
)


def escape(text: str) -> str:
    """Escape our tags and role markers in a text."""
    return _TAGS.sub("&lt;", text)


def element(tag: str, text: str) -> str:
    """A text between tags; empty for an empty one."""
    return f"<{tag}>\n{text}\n</{tag}>" if text else ""
