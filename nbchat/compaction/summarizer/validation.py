"""Whether an answer is a summary: every check it must pass, each with a reason code.

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
    copy          repeats one of the newest messages and leaves out the rest
    continuation  goes on with the conversation: a tool's syntax, a role, a reply
    too-long      is more than half as long as what it tells
    not-smaller   would, facts included, save less than the policy wants
    too-full      would, facts included, leave the context too large

The checks on what is said are few and blind to all that is not certain: a summary that
is refused for nothing costs a request, a weak one costs little beside the facts.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from nbchat.errors import CompactionError
from nbchat.providers.base import Reply

LARGEST_STORY_SHARE = 0.5
"""The story alone must be at most this share of what it tells."""

LONG_CONVERSATION, FEWEST_LETTERS = 1_000, 8
"""Of so many tokens a summary of fewer letters tells nothing; 8 are two words."""

RUN = 8
"""Words in a row that two texts do not share by chance."""

ECHO_SHARE = 0.6
"""Of the runs of a summary that stand in the instruction: a template keeps headings."""

COPY_SHARE, COPY_WORDS, COPY_FACTOR = 0.9, 40, 4
"""A copy has at least so many words, nearly all of its runs from the newest messages,
and stands for a conversation of at least four times its length."""

LONGEST_APOLOGY = 60
"""Words; what begins with an apology and goes on longer may be a summary after all."""

_THINKING = ("analysis", "think", "thinking")

# Languages without spaces count a word a letter, so that runs mean the same in them.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")

_SYNTAX = re.compile(
    r"^[ \t]*(?:<\|\w|\[INST\]|\[TOOL_CALLS\]|</?(?:tool_call|tool_use|function_call|"
    r"invoke|function=|call tool=|result tool=|user>|assistant>|system>|transcript>))",
    re.MULTILINE | re.IGNORECASE,
)
"""What only a chat's own machinery begins a line with; in the middle of a line it may
be what the conversation was about."""

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
_TELLS = re.compile(
    r"\b(?:user|customer|client|assistant|conversation|summary|they|he|she)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Source:
    """What a summary was written from and is held against."""

    tokens: int
    """Of the entries it tells."""
    newest: str = ""
    """What was said last, as it was said."""
    instruction: str = ""


def read_summary(reply: Reply, *, is_structured: bool = False) -> str:
    """The text inside the tags; raises CompactionError with the gate's code.

    A JSON object needs no tags where one was asked for.
    """
    if reply.calls:
        raise CompactionError("tool-call", "the summariser called a tool")
    if reply.stop_reason != "end_turn":
        raise CompactionError(
            reply.stop_reason.replace("_", "-"),
            f"the summariser did not finish: {reply.stop_reason}",
        )
    text = _unfenced(_without_thinking(reply.text))
    if is_structured and "<summary>" not in text and "{" in text:
        return text
    story = _inside(text, _without_code(text))
    if not story:
        raise CompactionError("empty", "the summary was empty")
    return story


def check_story(story: str, source: Source) -> None:
    """Raise CompactionError where a text is certainly not a summary of its source.

    Signals are cheap and of the form only. Apologies and replies are known in English
    alone; in other languages they pass.
    """
    letters = sum(map(str.isalnum, story))
    if source.tokens >= LONG_CONVERSATION and letters < FEWEST_LETTERS:
        raise CompactionError("too-short", "the summary told almost nothing")
    if not letters:
        raise CompactionError("empty", "the summary was empty")
    if _SYNTAX.search(story) or _CALL.search(story):
        raise CompactionError("continuation", "the summary went on with the chat")
    words = _words(story)
    if _APOLOGY.search(story) and len(words) < LONGEST_APOLOGY:
        raise CompactionError("refusal", "the summariser declined to write a summary")
    if _REPLY.search(story) and not _TELLS.search(story):
        raise CompactionError("continuation", "the summary answered the user")
    _check_copies(words, source)


def check_size(
    story_tokens: int,
    entry_tokens: int,
    *,
    replaced_tokens: int,
    largest_share: float,
) -> None:
    """Raise CompactionError where a summary would not pay for what it replaces.

    With its facts it must be at most `largest_share` of that.
    """
    if entry_tokens > replaced_tokens * largest_share:
        raise CompactionError(
            "not-smaller",
            f"the summary has {entry_tokens:,} tokens, "
            f"what it replaces has {replaced_tokens:,}",
        )
    if story_tokens > replaced_tokens * LARGEST_STORY_SHARE:
        raise CompactionError(
            "too-long",
            f"the summary has {story_tokens:,} tokens, "
            f"more than half of the {replaced_tokens:,} it tells",
        )


def check_room(entry_tokens: int, room_tokens: int | None) -> None:
    """Raise CompactionError where a summary would leave the context too large."""
    if room_tokens is not None and entry_tokens > room_tokens:
        raise CompactionError(
            "too-full",
            f"the summary has {entry_tokens:,} tokens with its facts, "
            f"there is room for {room_tokens:,}",
        )


def _check_copies(words: list[str], source: Source) -> None:
    if _share(words, source.instruction) >= ECHO_SHARE:
        raise CompactionError("echo", "the summary repeated the instruction")
    is_long = len(words) >= COPY_WORDS and source.tokens > COPY_FACTOR * len(words)
    if is_long and _share(words, source.newest) >= COPY_SHARE:
        raise CompactionError("copy", "the summary repeated the newest messages")


def _share(words: list[str], text: str) -> float:
    """The share of runs of words that stand in a text, too."""
    runs = set(_runs(words))
    return len(runs.intersection(_runs(_words(text)))) / len(runs) if runs else 0.0


def _runs(words: list[str]) -> Iterable[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(RUN)), strict=False)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _inside(text: str, tags: str) -> str:
    """What stands in the one pair of tags; `tags` is the text with its code blanked."""
    opened, closed = tags.count("<summary>"), tags.count("</summary>")
    start, end = tags.find("<summary>"), tags.rfind("</summary>")
    if not opened or not closed or end < start:
        code = "unclosed" if opened else "no-tags"
        raise CompactionError(code, "the answer had no closed <summary></summary>")
    if opened > 1 or closed > 1:
        raise CompactionError("several", f"the answer had {opened} summaries")
    return text[start + len("<summary>") : end].strip()


def _without_thinking(text: str) -> str:
    """The text without whole blocks of thinking aloud; in one pass, whatever comes."""
    for tag in _THINKING:
        kept, place = [], 0
        while (start := text.find(f"<{tag}>", place)) >= 0:
            end = text.find(f"</{tag}>", start)
            if end < 0:
                break
            kept.append(text[place:start])
            place = end + len(tag) + 3
        text = "".join([*kept, text[place:]])
    return text


def _unfenced(text: str) -> str:
    """The text without a fence that holds all of it: that one is wrapping, not code."""
    text = text.strip()
    head, _, rest = text.partition("\n")
    is_wrapped = head.startswith("```") and text.endswith("</summary>\n```")
    return rest.removesuffix("```") if is_wrapped else text


def _without_code(text: str) -> str:
    """The text at its full length, its finished code blocks blank."""
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
