"""Check that an answer is a summary; each check has a reason code.

    code          the answer ...
    tool-call     asks for a tool
    max-tokens    was cut at its limit
    refusal       was withheld by the server, or is an apology inside the tags
    no-tags       has no <summary></summary> outside of code
    unclosed      opens the tag and does not close it
    several       has more than one pair of tags
    empty         has no word between the tags, or in the fields of its JSON
    too-short     says almost nothing about a long conversation
    echo          repeats the instruction
    copy          repeats one of the newest messages without the rest
    continuation  continues the conversation: tool syntax, a role, a reply
    too-long      is more than half as long as what it covers
    not-smaller   would, facts included, save less than the policy wants
    too-full      would, facts included, leave the context too large

The checks of the content refuse only what is certainly wrong: a good summary that is
refused costs a request, a weak one costs little, because the facts are kept anyway.
"""

import re
from collections.abc import Iterable, Sequence

from nbchat.compaction.policies import LARGEST_SUMMARY_SHARE
from nbchat.errors import CompactionError
from nbchat.providers.base import Reply

LONG_CONVERSATION, FEWEST_LETTERS = 1_000, 8
"""A summary of so many tokens has at least so many letters; 8 are two words."""

RUN = 8
"""Words in a row that two texts do not share by chance."""

ECHO_SHARE = 0.6
"""Share of a summary's runs that are in the instruction; headings may be kept."""

COPY_SHARE, COPY_WORDS, COPY_FACTOR = 0.9, 40, 4
"""A copy has at least so many words, nearly all of its runs are in the newest messages,
and the conversation is at least four times as long."""

LONGEST_APOLOGY = 60
"""Words; a longer text that begins with an apology may still be a summary."""

_THINKING = ("analysis", "think", "thinking")

# Languages without spaces count a word a letter, so that runs mean the same in them.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")

_SYNTAX = re.compile(
    r"^[ \t]*(?:<\|\w|\[INST\]|\[TOOL_CALLS\]|</?(?:tool_call|tool_use|function_call|"
    r"invoke|function=|call tool=|result tool=|user>|assistant>|system>|transcript>))",
    re.MULTILINE | re.IGNORECASE,
)
"""Syntax of tools and roles at the start of a line; elsewhere it may be quoted."""

_CALL = re.compile(r'\A\{\s*"(?:tool_calls?|name|function)"\s*:.*\}\Z', re.DOTALL)

_APOLOGY = re.compile(
    r"\A(?:I['\u2019]?m sorry|I am sorry|Sorry,|I apologi[sz]e|I can(?:no|['\u2019])t\b"
    r"|I['\u2019]?m (?:unable|not able)|I am (?:unable|not able)|As an AI\b)",
    re.IGNORECASE,
)
_REPLY = re.compile(
    r"\A(?:Sure|Certainly|Of course|Absolutely|You['\u2019]re welcome|Thank you for"
    r"|Thanks for|Let me|I['\u2019]ll|I will)\b",
    re.IGNORECASE,
)
_HEADING = re.compile(r"^## \w.*\n- ", re.MULTILINE)
_IS_ABOUT = re.compile(
    r"\b(?:user|customer|client|assistant|conversation|summary|they|he|she)\b",
    re.IGNORECASE,
)


def read_summary(reply: Reply, *, is_structured: bool = False) -> str:
    """The text inside the tags; raises CompactionError with a reason code.

    Tags are optional around JSON, where that was asked for.
    """
    if reply.calls:
        raise CompactionError(
            "tool-call", "the model called a tool instead of writing a summary"
        )
    if reply.stop_reason != "end_turn":
        raise CompactionError(
            reply.stop_reason.replace("_", "-"),
            f"the summary was not finished: {reply.stop_reason}",
        )
    text = _unfenced(_without_thinking(reply.text))
    if is_structured and "<summary>" not in text and "{" in text:
        return text
    summary = _inside(text, _without_code(text))
    if not summary:
        raise CompactionError("empty", "the summary is empty")
    return summary


def check_summary(
    summary: str, *, tokens: int, newest: str = "", instruction: str = ""
) -> None:
    """Raise CompactionError for a text that is certainly no summary.

    Only the form is checked, against the `tokens` that it covers, the text of the
    newest entries and the instruction. Apologies and replies are recognized in English
    only.
    """
    letters = sum(map(str.isalnum, summary))
    if tokens >= LONG_CONVERSATION and letters < FEWEST_LETTERS:
        raise CompactionError("too-short", "the summary says almost nothing")
    if not letters:
        raise CompactionError("empty", "the summary is empty")
    if _SYNTAX.search(summary) or _CALL.search(summary):
        raise CompactionError("continuation", "the answer continues the chat")
    words = _words(summary)
    if not _HEADING.search(summary):  # a form with items may begin with quoted words
        _check_not_a_reply(summary, words)
    if _share(words, instruction) >= ECHO_SHARE:
        raise CompactionError("echo", "the summary repeats the instruction")
    is_long = len(words) >= COPY_WORDS and tokens > COPY_FACTOR * len(words)
    if is_long and _share(words, newest) >= COPY_SHARE:
        raise CompactionError("copy", "the summary repeats the newest messages")


def check_size(
    summary_tokens: int,
    entry_tokens: int,
    *,
    replaced_tokens: int,
    largest_tokens: int,
) -> None:
    """Raise CompactionError for a summary that would save too little.

    With its facts it must have at most `largest_tokens`.
    """
    if entry_tokens > largest_tokens:
        raise CompactionError(
            "not-smaller",
            f"the summary has {entry_tokens:,} tokens, "
            f"what it replaces has {replaced_tokens:,}",
        )
    if summary_tokens > replaced_tokens * LARGEST_SUMMARY_SHARE:
        raise CompactionError(
            "too-long",
            f"the summary has {summary_tokens:,} tokens, "
            f"more than half of the {replaced_tokens:,} it covers",
        )


def check_budget(entry_tokens: int, budget_tokens: int | None) -> None:
    """Raise CompactionError for a summary that would leave the context too large."""
    if budget_tokens is not None and entry_tokens > budget_tokens:
        raise CompactionError(
            "too-full",
            f"the summary has {entry_tokens:,} tokens with its facts, "
            f"but only {budget_tokens:,} fit",
        )


def _check_not_a_reply(summary: str, words: Sequence[str]) -> None:
    if _APOLOGY.search(summary) and len(words) < LONGEST_APOLOGY:
        raise CompactionError("refusal", "the model declined to write a summary")
    if _REPLY.search(summary) and not _IS_ABOUT.search(summary):
        raise CompactionError("continuation", "the answer replies to the user")


def _share(words: list[str], text: str) -> float:
    """The share of runs of words that are also in a text."""
    runs = set(_runs(words))
    return len(runs.intersection(_runs(_words(text)))) / len(runs) if runs else 0.0


def _runs(words: list[str]) -> Iterable[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(RUN)), strict=False)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _inside(text: str, tags: str) -> str:
    """The text in the one pair of tags; `tags` is the text with its code blanked."""
    opened, closed = tags.count("<summary>"), tags.count("</summary>")
    start, end = tags.find("<summary>"), tags.rfind("</summary>")
    if not opened or not closed or end < start:
        if opened:
            raise CompactionError("unclosed", "the summary has no end (no </summary>)")
        raise CompactionError("no-tags", "the answer has no summary (no <summary>)")
    if opened > 1 or closed > 1:
        raise CompactionError("several", f"the answer has {opened} summaries")
    return text[start + len("<summary>") : end].strip()


def _without_thinking(text: str) -> str:
    """The text without closed blocks of thinking."""
    for tag in _THINKING:
        kept, index = [], 0
        while (start := text.find(f"<{tag}>", index)) >= 0:
            end = text.find(f"</{tag}>", start)
            if end < 0:
                break
            kept.append(text[index:start])
            index = end + len(tag) + 3
        text = "".join([*kept, text[index:]])
    return text


def _unfenced(text: str) -> str:
    """The text without a fence around all of it."""
    text = text.strip()
    head, _, rest = text.partition("\n")
    is_wrapped = head.startswith("```") and text.endswith("</summary>\n```")
    return rest.removesuffix("```") if is_wrapped else text


def _without_code(text: str) -> str:
    """The text with closed code blocks replaced by spaces, at the same length."""
    shown: list[str] = []
    opened: int | None = None
    for line in text.splitlines(keepends=True):
        shown.append(line)
        if line.lstrip(" ").startswith(("```", "~~~")):
            if opened is None:
                opened = len(shown) - 1
            else:
                shown[opened:] = [" " * len(part) for part in shown[opened:]]
                opened = None
    return "".join(shown)
