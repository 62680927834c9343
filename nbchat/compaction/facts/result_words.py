"""Read a result in words: it confirms an action, denies it, or says neither.

A text is read clause by clause. An action is done where a clause says so, in the tool's
own verb, a related one or a word such as "done", and nothing in the text says that it
was refused, waits, or was done only in part. What failed before ("the first attempt
timed out") says nothing of the end. Everything else is not judged.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nbchat.compaction.facts.outcome_words import (
    BENIGN,
    COMPLETE,
    DENIALS,
    DOUBTS,
    FUTURE,
    HINTS,
    NOW,
    OWN_PARTICIPLES,
    PASSIVE,
    PAST,
    REQUESTS,
    completed,
)
from nbchat.compaction.facts.tool_names import (
    creates,
    fold,
    has_stem_of,
    is_end,
    is_related,
    is_start,
    own_forms,
    positive_forms,
    related_forms,
    tool_words,
    verb_of,
)
from nbchat.compaction.pruning.failure_lines import failed_lines

Said = Literal["confirmed", "denied", "open", ""]
"""What words say of an action; empty where they say nothing of it."""

REPEATED = "\ufffc"
"""In place of an argument that a result repeats: its words are not the result's."""

LONGEST_LINE, OPENING, ENDING = 2_000, 400, 200
"""Characters of a line that is looked at, and of the opening and the ending in which a
result says in words what happened."""

MOST_LINES = 200
"""Lines at each end that are looked at."""

LEAST_REPEATED, MOST_OTHER_WORDS = 2, 2
"""Arguments that a result repeats if it is about them, and words beside the arguments
in a result that only repeats them."""

_CODE = re.compile(r"\s*(?:\d+ *[\t|:\u2192]|[+@-]{1,3}(?:\s|$))")
"""Lines of a file or a diff, which a tool shows after an edit."""

_SENTENCE = re.compile(
    r"(?<=[.!?;\u3002\uff01\uff1f])(?:\s|(?<=[\u3002\uff01\uff1f]))|\n"
)
_CLAUSE = re.compile(
    r"[,\uff0c\u3001\u060c]\s*(?:(?:but|and|then|so)\s)?|\s(?:but|however|then|so|including)\s"
)
_WORD = re.compile(r"[^\W\d_]+(?:'\w+)?")
_NO_MORE = re.compile(
    r"\bno longer\b|\b(?:won't|can't|cannot|will not|not) [^.]*\bany ?more\b"
)
_CODE_WORD = re.compile(r"(?=\S*\d)[\w#/:.-]{2,60}")
_REFERENCE = re.compile(
    r"\b(?:pnr|ref(?:erence)?|confirmation|reservation|booking|order|ticket|receipt"
    r"|tracking|transaction|invoice|\w+nummer|(?:numero|codigo|code|n[o\u00b0]) de \w+"
    r"|dossier|localizador|protocolo|codice|(?:номер|код) \w+)(?: (?:number|no\.?|code"
    r"|id))?[:#]? {0,2}#?(?=[\w-]*\d)\w[\w-]{2,}|(?:番号|订单号|编号|번호"
    r"|رقم \w+)[:\uff1a ]{0,2}[\w-]*\d"
)
"""A new number that a result gives, such as of a booking."""

_DONE_SIGNS = re.compile(
    r"^http(?:/[\d.]+)? 20[0134]|^20[014] [a-z]|\b250 2\.\d\.\d\b"
    r"|exit(?:ed)?(?: with)?(?: code| status)?[:= ]+0\b|^(?:create|drop|alter|truncate"
    r"|grant|revoke|comment|vacuum|commit)"
    r"(?: [a-z]+){0,2}$|^insert 0 [1-9]|^(?:update|delete|insert|merge|copy) [1-9]\d*$"
    r"|\b[1-9]\d{0,8} (?:rows?|records?|documents?) (?:affected|\w+ed)\b"
    r"|\b[0-9a-f]{7,40}\.\.\.?[0-9a-f]{7,40} +\S+ -> \S+|\* \[new (?:branch|tag)\]"
    r"|^\[\S+(?: \(root-commit\))? [0-9a-f]{7,40}\]|\bactive \(running\)|\b(?:wrote"
    r"|written:?|saved) [1-9]\d*(?: ?[kmg]?b\b| bytes| lines| characters)"
    r"|\b(?:saved|written|exported|wrote)(?: it)? (?:as|to) \S+\.\w+"
    r"|\b[1-9]\d* (?:bytes|lines|characters) (?:written|saved)"
    r"|^ *\+\d+[ /,]{1,3}[-\u2212]\d+\b|^\S+ (?:created|configured|deleted|scaled"
    r"|restarted|labeled|annotated|patched)$|^[a-z]+ed '[^']+'$|^'[^']+' -> '[^']+'$"
    r"|^switched to a new branch|\bdigest: sha256:[0-9a-f]+|(?<![\d.])100 ?%",
    re.MULTILINE,
)
"""How HTTP, mail, shells, databases, git and kubectl say that they did something."""

_UNDONE_SIGNS = re.compile(
    r"\bhttp(?:/[\d.]+)?(?: status)?:? [45]\d\d\b|^[45]\d\d [a-z]"
    r"|! \[(?:remote )?rejected\]|^rollback$|\bexit code: [1-9]|\b5\d\d 5\.\d\.\d\b",
    re.MULTILINE,
)
"""How they say that they did not."""

_OPEN_SIGNS = re.compile(
    r"^http(?:/[\d.]+)? 202|^202 accepted|^(?:update|delete|insert 0|copy) 0$"
    r"|everything up-to-date|^\s*ok 0\b|\bno (?:documents?|entr(?:y|ies)|files?|items?"
    r"|match(?:es)?|recipients?|records?|results?|rows?)\b",
    re.MULTILINE,
)

_ZERO = re.compile(
    r"(?<![\w.:/\ufffc-])(?:0|zero)(?: of \d+)?"
    r" (?!errors?|warnings?|problems?|issues?|failures?|seconds?)[a-z]"
)
_SOME = re.compile(
    r"\b[1-9]\d{0,8} (?!failed|skipped|rejected|ignored)(?:\w+ )?\w+ed\b|\b(?!failed"
    r"|skipped|rejected|ignored)\w+ed:? [1-9]\d{0,8}\b"
)
"""Counts of nothing and of something that was done."""

_SHARE = re.compile(
    r"(?<![\w./-])(?<!\bon )(?<!\bfor )(?<!\bby )(?<!\bil )(?<!\ble )(?<!\bel )"
    r"(?<!para )(?<!\bam )(\d{1,9}) ?(?:/|(?:out )?of|von|sur|de|из)"
    r" ?(?:the )?(\d{1,9})(?![\w./-])"
)
"""A part and a whole, `4 of 6` or `64/64`; after a preposition `10/12` is a date."""

_ADJECTIVES = re.compile(
    "abert|abiert|apert|cerrad|fechad|ferme|geoffnet|occup|ocupad|закрыт|занят|открыт"
)
"""Beginnings of participles that mostly tell a state: open, closed, occupied."""

_IN_A_STATE = re.compile(r"\bestan? \w+d[oa]s?\b")
"""A participle that tells a state in Spanish."""


@dataclass(frozen=True, slots=True)
class _Clause:
    """What a clause says."""

    is_denied: bool
    is_open: bool
    is_promised: bool
    """Whether it says that the action will be done."""
    is_asking: bool
    """Whether it has a word of a request or a limit."""
    is_past: bool
    is_hinted: bool
    """Whether it asks for something, or tells a condition, the future, an exception."""
    is_own: bool
    """Whether it confirms in the tool's own verb."""
    is_sure: bool
    """Whether it does, or says that all is done."""
    is_told: bool
    """Whether it confirms in any words."""
    has_digits: bool


def said_in_words(tool: str, text: str) -> Said:
    """What a result in words says of an action, arguments replaced by `REPEATED`."""
    looked_at = f"{text[:OPENING]}\n{text[OPENING:][-ENDING:]}"
    clean = BENIGN.sub(" ", fold(looked_at))
    is_wrong = bool(failed_lines(text.splitlines())) or begins_with_error(text)
    if is_wrong and not PAST.search(clean):
        return "denied"
    parts = (
        part for part in _SENTENCE.split(_without_benign(looked_at)) if part.strip()
    )
    sentences = [_clauses(tool, part) for part in parts]
    clauses = [clause for sentence in sentences for clause in sentence]
    is_sure = any(each.is_sure for each in clauses) or bool(_DONE_SIGNS.search(clean))
    if _is_denied(sentences) or _UNDONE_SIGNS.search(clean):
        return "open" if is_sure else "denied"
    is_doubted = any(each.is_open and not each.is_past for each in clauses)
    is_promised = any(e.is_promised for e in clauses) and not any(
        e.is_own for e in clauses
    )
    if is_doubted or is_promised or _is_asking(sentences) or _is_open(clean):
        return "open"
    is_told = is_sure or any(map(_is_told, sentences)) or _is_whole(clean)
    if is_told or any(says(tool, text) for says in _SAYS_OF_ALL):
        return "confirmed"
    return "denied" if is_wrong else ""


def begins_with_error(content: str) -> bool:
    """Whether a result begins like a report of an error."""
    start = content[:LONGEST_LINE].lstrip("[< \n").lower()
    return start.startswith(("error", "failed", "failure"))


def own_words(text: str, asked: Sequence[str]) -> str:
    """What a result says beside the arguments that it repeats."""
    lines = [line for line in text.splitlines() if not _CODE.match(line)]
    if len(lines) > 2 * MOST_LINES:
        lines = [*lines[:MOST_LINES], *lines[-MOST_LINES:]]
    text = "\n".join(line[:LONGEST_LINE] for line in lines)
    values = "|".join(map(re.escape, sorted(asked, key=len, reverse=True)))
    whole = rf"(?<![A-Za-z0-9])(?:{values})(?![A-Za-z0-9])"
    return re.sub(whole, REPEATED, text) if values else text


def _without_benign(text: str) -> str:
    """A text in small letters without denials of something bad."""
    lowered = text.lower().replace("\u2019", "'")
    folded = fold(text)
    if len(folded) != len(lowered):
        return BENIGN.sub(" ", folded)
    for found in reversed(list(BENIGN.finditer(folded))):
        lowered = f"{lowered[: found.start()]} {lowered[found.end() :]}"
    return lowered


def _clauses(tool: str, sentence: str) -> list[_Clause]:
    return [_clause(tool, each) for each in _CLAUSE.split(sentence) if each.strip()]


def _clause(tool: str, text: str) -> _Clause:
    folded = fold(text)
    words = _WORD.findall(folded)
    own = own_forms(tool)
    other = _WORD.sub(lambda e: _other_than_own(tool, e[0]), folded)
    is_denied = bool(DENIALS.search(other))
    is_hinted = bool(HINTS.search(other))
    is_ended = _is_ended(tool, folded, words)
    is_plain = is_ended or not (is_denied or is_hinted or text.rstrip().endswith("?"))
    forms = _told(text)
    is_own = any(e in own and _is_past(e, folded, tool) for e in words)
    is_own = is_own or _is_own_form(tool, text) or _is_switched(tool, words)
    is_sure = is_own or bool(COMPLETE.search(folded))
    is_going = "running" in words and is_start(tool)
    is_other = not related_forms(tool).isdisjoint(words) or bool(forms)
    is_like = is_other or is_going or is_ended or _is_news(tool, folded)
    return _Clause(
        is_denied and not is_ended,
        bool(DOUBTS.search(other)),
        is_own and bool(FUTURE.search(folded)),
        bool(REQUESTS.search(other)),
        bool(PAST.search(folded)),
        is_hinted and not is_ended,
        is_own and is_plain,
        is_sure and is_plain,
        (is_sure or is_like) and is_plain,
        any(map(str.isdigit, text)),
    )


def _is_news(tool: str, clause: str) -> bool:
    """Whether a clause in English tells what the tool did in another verb.

    A state is new where it is the one that was asked for, or where the tool changes
    values. Another verb than the tool's own says that something else happened, unless
    the tool's is not known.
    """
    if found := NOW.search(clause):
        is_changed = is_related(tool, "update") and not any(map(str.isdigit, clause))
        state = clause[found.end() :]
        things = tool_words(tool)[1:]
        is_wanted = REPEATED in state or any(e in things for e in _WORD.findall(state))
        return is_changed or (is_wanted and not is_end(tool))
    return not verb_of(tool) and PASSIVE.search(clause) is not None


def _is_past(word: str, clause: str, tool: str) -> bool:
    """Whether a word is a participle here, where the verb has no form of its own."""
    if word not in tool_words(tool):
        return True
    before = rf"\b(?:is|are|was|were|been|now) (?:\w+ly )?{word}\b"
    form = rf"{before}|\b{word}(?:[.:!]| to\b| for\b|$)"
    return re.search(form, clause) is not None


def _is_ended(tool: str, clause: str, words: Sequence[str]) -> bool:
    """Whether a clause says that what the tool ends is no more."""
    is_over = is_end(tool) and tool_words(tool)[0] not in words
    return is_over and _NO_MORE.search(clause) is not None


def _is_switched(tool: str, words: Sequence[str]) -> bool:
    """Whether words end with "on" or "off", as the tool turns something."""
    states = {"on", "off"}.intersection(tool_words(tool))
    states |= {"on"} if is_related(tool, "enable") else set()
    states |= {"off"} if is_related(tool, "disable") else set()
    return words[-1:] != [] and words[-1] in states


def _other_than_own(tool: str, word: str) -> str:
    """A word, but not one that the tool's name explains, as `locked` of a lock."""
    is_going = word == "running" and is_start(tool)
    is_known = word in related_forms(tool) or word in tool_words(tool) or is_going
    return REPEATED if is_known or _is_own_form(tool, word) else word


def _is_denied(sentences: Sequence[Sequence[_Clause]]) -> bool:
    """Whether a result says in the end that the action was not done.

    What is denied before something that was done in the end is past. After a sentence
    in the tool's own verb another one may deny something else, such as a fee.
    """
    clauses = [(at, each) for at, sentence in enumerate(sentences) for each in sentence]
    told = [place for place, (_, each) in enumerate(clauses) if each.is_told]
    is_past = any(each.is_past for _, each in clauses)
    last = told[-1] if told and is_past else 0
    first = min((at for at, each in clauses if each.is_own), default=len(sentences))
    return any(
        each.is_denied and not each.is_past and (at <= first or each.has_digits)
        for at, each in clauses[last:]
    )


def _is_asking(sentences: Sequence[Sequence[_Clause]]) -> bool:
    """Whether a result asks for something, and no other sentence says it is done."""
    asking = [any(each.is_asking for each in sentence) for sentence in sentences]
    is_own = any(
        each.is_own
        for sentence, asks in zip(sentences, asking, strict=True)
        for each in sentence
        if not asks
    )
    return any(asking) and not is_own


def _is_told(sentence: Sequence[_Clause]) -> bool:
    """Whether a sentence confirms in any words, and hints at nothing else."""
    is_hinted = any(each.is_hinted for each in sentence)
    return any(each.is_told for each in sentence) and not is_hinted


def _is_reference(tool: str, text: str) -> bool:
    """Whether a result is the number of what was created, or gives one."""
    text = text.strip()
    is_url = text.startswith(("https://", "http://")) and len(text.split()) == 1
    is_code = bool(_CODE_WORD.fullmatch(text)) and any(map(str.isalpha, text))
    is_one = is_code or (is_url and creates(tool))
    is_new = creates(tool) or is_related(tool, "pay", "book", "submit")
    return is_one or (is_new and bool(_REFERENCE.search(fold(text))))


def _tells_of_all(tool: str, text: str) -> bool:
    """Whether a result says in any verb that what was asked for is done.

    It repeats the arguments, or says nothing else, as `T1: saved`.
    """
    words = _WORD.findall(text.lower())
    is_about = text.count(REPEATED) >= LEAST_REPEATED or len(words) <= MOST_OTHER_WORDS
    is_passive = PASSIVE.search(fold(text)) is not None
    is_done = is_passive or not positive_forms(tool).isdisjoint(words)
    return is_about and is_done and not HINTS.search(fold(text))


def _only_repeats(tool: str, text: str) -> bool:
    """Whether a result says little but what was asked for, as `T3: priority high`.

    Another word beside a single value, as in "seat 4 is taken", says what it is like.
    """
    plain = _CODE_WORD.sub(" ", text.lower().replace(REPEATED, " "))
    others = set(_WORD.findall(plain)).difference(tool_words(tool))
    least = LEAST_REPEATED if others else 1
    return text.count(REPEATED) >= least and len(others) <= MOST_OTHER_WORDS


_SAYS_OF_ALL = (_is_reference, _tells_of_all, _only_repeats)


def _is_open(text: str) -> bool:
    """Whether counts or conventions say that not all was done."""
    is_nothing = bool(_ZERO.search(text)) and not _SOME.search(text)
    return is_nothing or bool(_OPEN_SIGNS.search(text)) or _is_part(text)


def _shares(text: str) -> list[tuple[int, int]]:
    return [(int(part), int(whole)) for part, whole in _SHARE.findall(text)]


def _is_part(text: str) -> bool:
    """Whether the last count of a part is not the whole."""
    shares = _shares(text)
    return bool(shares) and shares[-1][0] < shares[-1][1]


def _is_whole(text: str) -> bool:
    shares = _shares(text)
    return bool(shares) and shares[-1][0] == shares[-1][1] > 0


def _told(clause: str) -> list[str]:
    """Those words that say that something was done, not in which state it is."""
    if _IN_A_STATE.search(fold(clause)):
        return []
    words = completed(clause)
    return [word for word in words if not _ADJECTIVES.match(fold(word))]


def _is_own_form(tool: str, clause: str) -> bool:
    """Whether a clause has a tool's own verb in the form of what is done."""
    forms = [*completed(clause), *OWN_PARTICIPLES.findall(clause)]
    forms = [form for form in forms if form not in tool_words(tool)]
    return any(has_stem_of(tool, form) for form in forms)
