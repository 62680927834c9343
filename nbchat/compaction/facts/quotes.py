"""A sentence of a person, word for word, with the line that introduced it."""

import re
from dataclasses import dataclass

from nbchat.compaction.facts.rule_patterns import Kind
from nbchat.compaction.summary_format import GAP, quote_line

LONGEST, LONGEST_LIST, SHORTEST = 400, 2_000, 4
"""Characters of a sentence and of a list that are kept; longer sentences are documents,
and shorter ones say nothing in any script."""

LONGEST_LEAD = 100
"""Characters of an opening line that is quoted with a rule."""

_INTRODUCING = ("?", ":", "\uff1f", "\uff1a", "\u061f")
_POINTS_ON = re.compile(
    r"\b(?:this|these|below|following|here|diese\w*|hier|folgende\w*|ceci|voici"
    r"|est[eoa]s?|isto|это|ниже)\b|[这此下以]|この|これ|هذا|यह",
    re.IGNORECASE,
)
"""In an opening sentence before an empty line."""
_TWO_SENTENCES = re.compile(r"[.!?\u3002\uff01\uff1f]\s*\S")


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence of a person, or a list with its heading, word for word."""

    text: str
    index: int
    """Of its message in the transcript."""
    kind: Kind = "rule"
    lead: str = ""
    """The message's opening line, where that may introduce another person's words."""

    @property
    def line(self) -> str:
        """The quote as a line of its own, with its lead."""
        return quote_line(f"{self.lead}{GAP}{self.text}" if self.lead else self.text)


def opening_line(content: str, text: str) -> str:
    """The opening line of a message that may introduce the text of another person.

    "Is this spam?" and a pasted mail, or "Is this fine?" and an own rule, look alike to
    code. A quote that says what it followed lets the reader judge.
    """
    opening, _, rest = content.strip()[: LONGEST + LONGEST_LEAD].partition("\n")
    before, is_in_opening, _ = opening.partition(text)
    lead = before.strip()
    introduces = lead.endswith(_INTRODUCING) or (
        not is_in_opening
        and rest.startswith("\n")
        and _POINTS_ON.search(lead) is not None
        and not _TWO_SENTENCES.search(lead)
    )
    is_own = not lead or text.startswith(lead)  # a heading with its list
    return lead if introduces and not is_own and len(lead) <= LONGEST_LEAD else ""
