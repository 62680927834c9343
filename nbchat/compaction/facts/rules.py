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
    r"\b(?:must(?:n['\u2019]t| not)?|never|always|do not|don['\u2019]t|cannot"
    r"|should not|shouldn['\u2019]t|may not|only (?:if|when|use|the|with|in|after|ever)"
    r"|at (?:most|least)|no more than|no less than|make sure|under no circumstances"
    r"|without (?:asking|my)|is forbidden|not allowed|is required|require that"
    r"|keep in mind|from now on|avoid|budget of|limit(?:ed)? to|deadline|by no means"
    r"|niemals|nie|immer|muss|müssen|darf nicht|dürfen nicht|auf keinen Fall|höchstens"
    r"|mindestens|nur wenn|ab jetzt|jamais|toujours|ne [^.]{1,20}\bpas|il faut|doit"
    r"|uniquement|nunca|siempre|debe|no debes|solo si|como máximo)\b",
    re.IGNORECASE,
)
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
        is_rule = SHORTEST <= len(sentence) <= LONGEST and _RULE.search(sentence)
        if is_rule and not sentence.endswith(("?", "\uff1f")):
            yield sentence
