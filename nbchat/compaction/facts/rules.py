"""What users asked to be respected, word for word: sentences that say must or never.

Found by a few words that rules are made of; in other languages than those below a
person pins a rule. Nothing is reworded, so nothing is softened.
"""

import re
from collections.abc import Iterator, Sequence

from nbchat.compaction.fitting import within
from nbchat.history import Entry
from nbchat.tokens import TokenCounter

TITLE = "What the user asked to be respected, word for word:"

LONGEST, SHORTEST = 400, 8
"""Characters of a sentence that is a rule; longer ones are documents."""

READ_CHARACTERS = 20_000
"""Of one message, those in which rules are looked for."""

_RULE = re.compile(
    r"\b(?:must(?:n['\u2019]t| not)?|make sure|at (?:most|least)|no more than"
    r"|no less than|under no circumstances|by no means|without (?:asking|my)"
    r"|is forbidden|not allowed|is required|require that|from now on|keep in mind"
    r"|budget (?:of|is)|limit(?:ed)? (?:to|is)|deadline|only (?:if|when|after)"
    r"|should (?:not|never|always)|may not|niemals|auf keinen Fall|höchstens"
    r"|mindestens|nur wenn|ab jetzt|darf nicht|dürfen nicht|muss|müssen|jamais"
    r"|ne [^.]{1,20}\bpas|il faut|uniquement|nunca|debe|no debes|solo si|como máximo)\b"
    r"|(?:^|[,;:\u2013\u2014-] ?|\b(?:please|but|and|so|to|you) )"
    r"(?:do not|don['\u2019]t|never(?! mind)|always|avoid|only|keep|use only|stick to"
    r"|immer|nie|siempre|toujours)\b"
    r"|\b(?:requirement|constraint)s?:",
    re.IGNORECASE,
)
_ABOUT_ONESELF = re.compile(
    r"\b(?:I|we) (?:\w+ ){0,3}?(?:do(?:n['\u2019]t| not)|ca(?:n['\u2019]t|nnot)|never"
    r"|always|only|must)\b|^(?:sorry|thanks|thank you)\b",
    re.IGNORECASE,
)
"""What tells how things are with the speaker, and asks for nothing."""

_SENTENCE_END = re.compile(r"(?<=[!.?])\s+|(?<=[\u3002\uff01\uff1f])|\n+")


def rule_lines(
    entries: Sequence[Entry], budget_tokens: int, counter: TokenCounter
) -> list[str]:
    """The rules under their title, in the order they were given; the newest win room.

    Empty when no user gave one.
    """
    found = list(dict.fromkeys(_rules(entries)))
    room = budget_tokens - counter.count(TITLE)
    lines = [f"- {rule}" for rule in found]
    kept = within(reversed(lines), room, lambda line: counter.count(line) + 1)
    return [TITLE, *reversed(kept)] if kept else []


def _rules(entries: Sequence[Entry]) -> Iterator[str]:
    for entry in entries:
        if entry.role == "user" and not entry.tool_name:
            yield from rules_in(entry.content[:READ_CHARACTERS])


def rules_in(text: str) -> Iterator[str]:
    """The sentences of a text that state a rule, as they stand."""
    for sentence in map(str.strip, _SENTENCE_END.split(text)):
        if SHORTEST <= len(sentence) <= LONGEST and _is_rule(sentence):
            yield sentence


def _is_rule(sentence: str) -> bool:
    if sentence.endswith(("?", "\uff1f")) or _ABOUT_ONESELF.search(sentence):
        return False
    return _RULE.search(sentence) is not None
