"""Check that an answer is a summary, and that it is true; each check has a code.

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
    continuation  continues the conversation: tool syntax, a role
    too-long      is more than half as long as what it covers
    not-smaller   would, facts included, save less than the policy wants
    too-full      would, facts included, leave the context too large
    invented      has values that its sources do not hold

The checks of the content refuse only what is certainly wrong: a good summary that is
refused costs a request, a weak one costs little, because the facts are kept anyway.

Every value of a summary must occur in what it covers, and every quote on a line of its
own, for code takes that for what a person said. Small whole numbers are omitted,
because they count things. A number that can be computed is no invention: the total or
the length of a list that a call returned, and the sum or difference of numbers of the
same paragraph.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain, combinations, pairwise
from typing import Any

from nbchat.compaction.memory.words import QUOTED
from nbchat.compaction.policies import LARGEST_SUMMARY_SHARE
from nbchat.compaction.results import Number, parsed
from nbchat.conversation.entries import Entry
from nbchat.conversation.secret_masking import HIDDEN
from nbchat.conversation.values import COUNTS, Value, ValueIndex, name_key, values
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

_GAP = re.compile(rf"\[?(?:\.\.\.|\u2026)\]?|{re.escape(HIDDEN)}")
_MARKS = re.compile('["\u201c\u201d\u201e\u00ab\u00bb]')
"""Where a quote leaves something out, and what shows that a line has several quotes."""

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

_HEADING = re.compile(r"^## \w.*\n- ", re.MULTILINE)
_APOLOGY = re.compile(
    r"\A(?:I['\u2019]?m sorry|I am sorry|Sorry,|I apologi[sz]e|I can(?:no|['\u2019])t\b"
    r"|I['\u2019]?m (?:unable|not able)|I am (?:unable|not able)|As an AI\b)",
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
    newest entries and the instruction. Apologies are recognized in English only.
    """
    letters = sum(map(str.isalnum, summary))
    if tokens >= LONG_CONVERSATION and letters < FEWEST_LETTERS:
        raise CompactionError("too-short", "the summary says almost nothing")
    if not letters:
        raise CompactionError("empty", "the summary is empty")
    if _SYNTAX.search(summary) or _CALL.search(summary):
        raise CompactionError("continuation", "the answer continues the chat")
    words = _words(summary)
    has_items = _HEADING.search(summary)  # a form may begin with quoted words
    is_apology = _APOLOGY.search(summary) and len(words) < LONGEST_APOLOGY
    if is_apology and not has_items:
        raise CompactionError("refusal", "the model declined to write a summary")
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


MOST_NAMED = 12
"""Values that a retry names."""

STORY_CHARACTERS = 200_000
"""Characters of a summary that are checked."""

MOST_ADDED = 12
"""Numbers, those nearest to one, of which sums and differences are computed; among
more, some would meet any number by chance."""

NUMBERS = ("number", "amount")
"""Kinds of values that may be computed."""

USUAL = {"n:24", "n:100"}
"""The hours of a day, as in "24/7", and all of something."""

Place = tuple[int, float]
"""The index of a number, and what it is."""

READ_CHARACTERS = 300_000
"""Characters whose values are read, some 75,000 tokens; the words are read of all."""

MOST_NODES = 200_000
"""Values of one JSON text that are read."""

PROBE = 3
"""Last characters of a value by which other entries are searched: `1,299` and `1299`
end alike."""

ROUNDED_SHARE = 0.001
"""How far a number that ends in zeros may be from the one that it rounds."""

INVENTED = " [not in the conversation]"
"""Follows a value that nothing in the conversation holds."""


@dataclass(slots=True)
class Sources:
    """The values of what a summary covers; `other` is read only when it matters."""

    other: Sequence[Sequence[Entry]] = ()
    """All other entries, in pieces: an earlier summary covers them, and speaks of
    them."""
    totals: set[float] = field(default_factory=set)
    """The lengths of lists in results, and the sums of each field of their records."""
    _indexes: list["_Index"] = field(default_factory=list)
    _searched: set[str] = field(default_factory=set)

    def add(self, entries: Iterable[Entry]) -> None:
        """Read entries: messages, calls with their results, attachments."""
        texts = list(chain.from_iterable(map(self._texts, entries)))
        self._indexes.append(_Index("\n".join(texts), READ_CHARACTERS))

    def knows(self, value: Value) -> bool:
        """True if a value occurs, also rounded, also in other entries."""
        return self._occurs(value) or (self._search(value) and self._occurs(value))

    def states(self, key: str) -> bool:
        """True if what was read has a value with this key."""
        return any(key in index.keys or key in index.parts for index in self._indexes)

    def _occurs(self, value: Value) -> bool:
        if any(index.has(value) for index in self._indexes):
            return True
        if value.kind not in ("number", "amount"):
            return False
        return any(
            index.has_rounded(key) for index in self._indexes for key in value.keys
        )

    def _search(self, value: Value) -> bool:
        """Read the other entries that may state a value; whether there are any."""
        words = re.findall(r"\d+|[^\W\d_]+", value.text.casefold())
        probe = words[-1][-PROBE:] if words else ""
        if not probe or probe in self._searched:
            return False
        self._searched.add(probe)
        found = [
            entry
            for entry in chain.from_iterable(self.other)
            if probe in entry.content.casefold() or probe in entry.tool_args.casefold()
        ]
        if found:
            self.add(found)
        return bool(found)

    def _texts(self, entry: Entry) -> Iterator[str]:
        if entry.role == "summary":
            yield without_marked(entry.content)
            return
        text = entry.attachment_text if entry.is_attachment else entry.content
        text = entry.tool_args if entry.is_call else text
        value = parsed(text)
        if value is None:
            yield text
            return
        yield from _leaves(value)
        if entry.role == "tool":
            self.totals.update(_totals(value))


class _Index(ValueIndex):
    """Also finds the numbers that one may round."""

    @cached_property
    def _numbers(self) -> list[float]:
        keys = self.keys | self.parts
        return sorted(float(k[2:]) for k in keys if re.fullmatch(r"n:-?[\d.]+", k))

    def has_rounded(self, key: str) -> bool:
        """True if a number of the text, rounded, has this key: 87.6 is about 88."""
        written = re.fullmatch(r"n:(-?\d+?)(0*)(?:\.(\d+))?", key)
        if written is None:
            return False
        number, decimals = float(key[2:]), len(written[3] or "")
        reach = 0.5 * 10**-decimals
        if written[2] and not decimals:
            digit = 0.5 * 10 ** len(written[2])
            reach = max(reach, min(digit, abs(number) * ROUNDED_SHARE))
        first = bisect_left(self._numbers, number - reach)
        near = self._numbers[first : first + 2]
        return any(each <= number + reach for each in near)


def _leaves(value: dict[str, Any] | list[Any]) -> Iterator[str]:
    """The names, texts and numbers inside a JSON value."""
    waiting: list[object] = [value]
    for _ in range(MOST_NODES):
        if not waiting:
            return
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += chain.from_iterable(each.items())
        elif isinstance(each, list):
            waiting += each
        elif each is not None and not isinstance(each, bool):
            yield str(each)


def _totals(value: dict[str, Any] | list[Any]) -> Iterator[float]:
    """The length of each list inside a JSON value, and the sums of its numbers."""
    waiting: list[dict[str, Any] | list[Any]] = [value]
    for _ in range(MOST_NODES):
        if not waiting:
            return
        each = waiting.pop()
        parts = list(each.values() if isinstance(each, dict) else each)
        waiting += [part for part in parts if isinstance(part, dict | list)]
        yield float(len(parts))
        columns: dict[str, list[float]] = {}
        for part in parts:
            for name, cell in part.items() if isinstance(part, dict) else [("", part)]:
                if isinstance(cell, Number) and math.isfinite(float(cell)):
                    columns.setdefault(name, []).append(float(cell))
        yield from (round(math.fsum(c), 2) for c in columns.values() if len(c) > 1)


@dataclass(frozen=True, slots=True)
class FactCheck:
    """A checked summary, and its values that the sources do not contain."""

    text: str
    findings: tuple[Value, ...]

    @property
    def names(self) -> list[str]:
        """The values, each once."""
        return list(dict.fromkeys(each.text for each in self.findings))

    @property
    def refusal(self) -> str:
        """Why the summary should be written again; empty when it is true."""
        if not self.findings:
            return ""
        more = len(self.names) - MOST_NAMED
        listed = ", ".join(self.names[:MOST_NAMED]) + (f" and {more} more" * (more > 0))
        return f"the conversation does not say: {listed}"

    @property
    def note(self) -> str:
        """The record's note on a summary with marks."""
        count = len(self.names)
        if not count:
            return ""
        listed = ", ".join(self.names[:MOST_NAMED])
        return (
            f"{count} value{'s' * (count > 1)} not found in the conversation: {listed}"
        )

    @property
    def marked(self) -> str:
        """The summary with a mark after each value that it made up."""
        return with_marks(self.text, {each.stop for each in self.findings})


def check_facts(story: str, sources: Sources) -> FactCheck:
    """Find the values of a summary that its sources do not hold."""
    read = story[:STORY_CHARACTERS]
    found = [each for each in _stated(read) if not is_marked(story, each.stop)]
    known = {each for each in found if _is_known(each, sources)}
    said = [(v.start, min(_numbers(v))) for v in found if v in known and _numbers(v)]
    return FactCheck(
        story,
        tuple(
            value
            for value in found
            if value not in known
            and sources.totals.isdisjoint(_numbers(value))
            and _numbers(value).isdisjoint(_computed(value, said, read))
        ),
    )


def _stated(text: str) -> list[Value]:
    """The values of a text and its quotes on lines of their own, by their ends.

    Of a quote that leaves something out, such as a secret, the longest part counts.
    """
    found = values(text)
    names = {each.stop for each in found if each.kind == "name"}
    for match in QUOTED.finditer(text):
        said, stop = match["text"], match.end("text") + 1
        key = name_key(max(_GAP.split(said), key=len))
        if stop not in names and key != name_key("") and not _MARKS.search(said):
            keys = frozenset({key})
            found.append(Value("name", said, match.start("text"), stop, keys))
    return sorted(found, key=lambda each: each.stop)


def _is_known(value: Value, sources: Sources) -> bool:
    if not value.keys.isdisjoint(USUAL) or value.is_count or sources.knows(value):
        return True
    listed = {part for part in value.parts if part.startswith("n:")}
    return (
        value.kind in NUMBERS
        and bool(listed)
        and all(part in COUNTS | USUAL or sources.states(part) for part in listed)
    )


def _computed(value: Value, said: Sequence[Place], story: str) -> set[float]:
    """The differences of the known numbers near a value, and sums of neighbours."""
    start = story.rfind("\n\n", 0, value.start) + 1
    stop = story.find("\n\n", value.stop)
    stop = stop if stop >= 0 else len(story)
    paragraph = [place for place in said if start <= place[0] < stop]
    near = sorted(paragraph, key=lambda place: abs(place[0] - value.start))[:MOST_ADDED]
    amounts = [amount for _, amount in sorted(near)]
    differences = {round(abs(a - b), 2) for a, b in combinations(amounts, 2)}
    sums = (
        total
        for first in range(len(amounts))
        for total in list(accumulate(amounts[first:]))[1:]
    )
    return differences | {round(total, 2) for total in sums}


def _numbers(value: Value) -> set[float]:
    """A number in each way in which it can be read, in cents at the finest."""
    if value.kind not in NUMBERS:
        return set()
    return {round(abs(float(k[2:])), 2) for k in value.keys if "/" not in k}


def is_marked(text: str, stop: int) -> bool:
    """True if a mark follows at an index."""
    return text.startswith(INVENTED, stop)


def without_marked(text: str) -> str:
    """The text without its marked values and their marks."""
    marks = list(re.finditer(re.escape(INVENTED), text))
    if not marks:
        return text
    starts = {value.stop: value.start for value in _stated(text)}
    kept, index = [], 0
    for mark in marks:
        word = max(text.rfind(sign, index, mark.start()) for sign in " \n") + 1
        kept.append(text[index : starts.get(mark.start(), max(index, word))])
        index = mark.end()
    return "".join([*kept, text[index:]])


def with_marks(text: str, stops: set[int]) -> str:
    """The text with a mark inserted at each index."""
    places = [0, *sorted(stops), len(text)]
    return INVENTED.join(text[a:b] for a, b in pairwise(places))
