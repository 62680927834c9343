"""Sentences in the plain form in which rules are looked for, and forms to compare with.

A form is a regular expression; those of many languages become one pattern.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator

HIDDEN = "\0"
"""In a mask, in place of each character that is not the person's own."""

SPOKEN_IN_LATIN = (
    "english",
    "german",
    "french",
    "spanish",
    "portuguese",
    "italian",
)

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


def plain(sentence: str) -> str:
    """A sentence in lower case, with plain apostrophes, without hidden characters."""
    text = unicodedata.normalize("NFC", sentence.replace("\u2019", "'"))
    return text.lower().replace(HIDDEN, "")


def words_of(text: str) -> set[str]:
    """The words of a plain text."""
    return set(_WORD.findall(text))


_STOP_LIST = (
    "message messages proposal suggestion mistake void applies a about after again "
    "against all also always am an and any anymore are as at be been before but by "
    "can could decision decide decided did do does don't earlier else even ever "
    "everything final first for forget from go going good had has have he her here "
    "his how i i'd i'll i'm i've idea if ignore in instead instruction instructions "
    "into is it its it's just keep let let's like longer make may me mind more most "
    "must my need never no not nothing now of off ok okay on one only option or "
    "original other our out over own plan plans please previous rather really rule "
    "rules said same scrap scratch she should so some still stick stuff such take than "
    "thanks that that's the their them then there these they thing things think "
    "this those though time to too under until up us use used using very wait want "
    "was we we'd we'll we're we've well went were what when where which while who "
    "will with without would yes yet you you'd you're your actually drop cancel "
    "thought second changed allowed fine apply der die das den dem ein eine einen "
    "und oder nicht kein keine ich wir du sie es ist sind war mit von auf für zu im "
    "am bitte nur nie immer doch lieber statt jetzt mehr regel vergiss nehmen le la "
    "les un une des de du et ou est pas ne je tu il nous vous on à au pour avec "
    "dans que qui plus finalement oublie règle el los las y o es no del en con por "
    "para mi me te se lo que regla olvida mejor os as uma e em não com meu você "
    "regra esqueça и в на не я мы ты вы он она это что с по за из для но а правило "
    "забудь eso esto isso isto ça cela"
)
"""Words that say nothing of what a sentence is about."""
_STOP_WORDS = frozenset(_STOP_LIST.split())
_STEM = 6
"""Letters of a word that are compared, so that endings do not matter."""

_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff]+")


def content_of(said: str) -> set[str]:
    """What a plain sentence is about: stems of words, pairs of letters in Chinese."""
    words = {word for word in words_of(said) if len(word) > 1} - _STOP_WORDS
    numbers = set(re.findall(r"\d[\d.,]*", said))
    runs = _UNSPACED.findall(said)
    pairs = {run[at : at + 2] for run in runs for at in range(len(run) - 1)}
    spaced = {word[:_STEM] for word in words if not _UNSPACED.search(word)}
    return spaced | numbers | pairs


def any_of(forms: Iterable[str]) -> re.Pattern[str]:
    """One pattern; what alternatives begin with is tried once for all of them."""
    groups: dict[str, list[str]] = {}
    for each in (alternative for form in forms for alternative in _split(form)):
        opening = next((o for o in (r"\b", "^") if each.startswith(o)), "")
        groups.setdefault(opening, []).append(each.removeprefix(opening))
    joined = (f"{opening}(?:{'|'.join(g)})" for opening, g in groups.items())
    return re.compile("|".join(joined) or r"(?!)")


def _split(form: str) -> Iterator[str]:
    """The alternatives of a form, at the bars that are in no brackets."""
    depth, begin = 0, 0
    for found in _SYNTAX.finditer(form):
        if found[0] == "|" and not depth:
            yield form[begin : found.start()]
            begin = found.end()
        depth += {"(": 1, ")": -1}.get(found[0], 0)
    yield form[begin:]


_SYNTAX = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()|]", re.DOTALL)
"""What is escaped, a set of characters, or a sign that has a meaning."""
