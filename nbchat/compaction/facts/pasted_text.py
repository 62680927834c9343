"""Find what a person wrote in a message, apart from what was pasted or quoted.

A text and its mask have the same length, so that what is found in the mask can be cut
out of the text word for word. In the mask code, quoted passages, logs, letters and
other people's lines are replaced by HIDDEN.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from nbchat.compaction.facts.authorship import without_unintroduced
from nbchat.compaction.facts.rule_model import rule_score
from nbchat.compaction.facts.sentence_forms import HIDDEN, plain
from nbchat.compaction.facts.unmarked_quotes import (
    asks,
    is_closing,
    is_interrupted,
    points_back,
    shown_from,
)
from nbchat.conversation.entries import Span

READ_CHARACTERS = 20_000
"""Characters of a message that are read."""

CACHED_MASKS = 200
"""Messages whose masks are kept: a compaction reads each new one for its rules and for
what is open."""

LONGEST_MESSAGE, OPENING_CHARACTERS = 4_000, 600
"""Characters of its own from which a message is taken for a document, of which only the
first paragraph is read, and how much of that: two pages are more than people type."""

SHORT_QUESTION = 120
"""Characters of a question about the block above it."""

QUOTED_WORDS, QUOTED_CHARACTERS = 4, 12
"""Words of a passage in quotation marks by another author, and its characters in
scripts without spaces; shorter ones are titles and terms."""

_CODE = re.compile(r"(```|~~~).*?(?:\1|\Z)", re.DOTALL)
_COMMENT = re.compile(
    r"/\*.{0,2000}?\*/|<!--.{0,2000}?-->|^[ \t]*//[^\n]*", re.DOTALL | re.MULTILINE
)
_ROWS = re.compile(
    r"^(?=[^\n]{3})\w+(?:[,;\t][\w ]*\w)*[,;\t]\w+[ \t]*\n"
    r"(?:[^\n]*[,;\t][^\n]*(?:\n|\Z))+",
    re.MULTILINE,
)
"""Rows of a table under names without spaces between them: `id,comment`."""
_BRACKETED = re.compile(
    r"^[ \t]*\[([^\]\n]{2,40})\][ \t]*\n(.*?)^[ \t]*\[[^\]\n]{2,40}\][ \t]*$",
    re.DOTALL | re.MULTILINE,
)
"""A block between two lines in brackets."""
_SIGNED = re.compile(
    r"^(?:[ \t]*|[^\n]*\n\s*\n)((?:dear|hi|hello|hallo|liebe[rs]?"
    r"|sehr geehrte\w*|bonjour|cher\w*|madame|monsieur|estimad[oa]s?|hola"
    r"|prezad[oa]s?|olá|gentile|caro|cara"
    r"|уважаем\w+)\b[^\n]{0,40},[ \t]*\n.*?\n[ \t]*(?:yours|best|kind|warm|sincerely"
    r"|cheers|many thanks|regards|mit freundlichen|viele grüße|liebe grüße|cordialement"
    r"|bien à vous|un saludo|saludos|atenciosamente|cordiali|distinti|с уважением)\b"
    r"[^\n]{0,30}(?:\n[^\n]{1,60})?)(?=\n|\Z)",
    re.DOTALL | re.IGNORECASE,
)
"""A letter from its salutation to its signature."""
_ELEMENT = re.compile(r"<([A-Za-z][\w-]{0,40})(?: [^<>\n]{0,200})?>.*?</\1>", re.DOTALL)
_QUOTED = re.compile(
    r"\"[^\"\n]{2,2000}\"|\u201c[^\u201d]{2,2000}\u201d|\u201e[^\u201c\u201d]{2,2000}"
    r"[\u201c\u201d]|\u00ab[^\u00bb]{2,2000}\u00bb|\u300c[^\u300d]{2,2000}\u300d"
    r"|\u300e[^\u300f]{2,2000}\u300f|(?<![^\s(])'[^'\n]{12,2000}'(?!\w)"
    r"|(?<=[\s(])\"(?!\s)(?:[^\"\n]|\n(?!\s*\n)){2,600}(?<!\s)\"(?!\w)"
)
_LIST_NOUNS = (
    r"rules?|requirements?|constraints?|preferences|guidelines|conditions|conventions"
    r"|restrictions|limits|must[- ]haves?|do(?:'?s|s) and don'?t'?s|dos|don'?ts"
    r"|non-negotiables|ground rules|boundaries|criteria|decisions|policies|instructions"
    r"|keep in mind|regeln|anforderungen|vorgaben|bedingungen|einschränkungen|wünsche"
    r"|exigences|contraintes|règles|consignes|conditions|préférences|requisitos"
    r"|restricciones|reglas|condiciones|normas|restrições|regras|condições"
    r"|requisiti|vincoli|regole|требования|правила|ограничения|условия|пожелания"
    r"|المتطلبات|القواعد|الشروط|القيود|आवश्यकताएँ|नियम|शर्तें"
)
_CJK_NOUNS = "要求|约束|规则|限制|条件|偏好|需求|要件|ルール|制約|決まり|規則|注意"
_HEADING = re.compile(
    rf"^(?:[#*\s]*)[^\n:：]{{0,60}}?(?:\b(?:{_LIST_NOUNS})|{_CJK_NOUNS})"
    r"[^\n:：]{0,40}[:：]\**\s*$",
    re.IGNORECASE,
)
_HEADING_LINE = re.compile(_HEADING.pattern, re.IGNORECASE | re.MULTILINE)
_RULES = re.compile(rf"\b(?:{_LIST_NOUNS})\b|{_CJK_NOUNS}", re.IGNORECASE)
_ITEM = re.compile(r"[ \t]*(?:[-*•‣–—+・·]|\(?\d{1,2}[.)]|\(?[a-zA-Z][.)]|[①-⑳])\s*\S")

_MATERIAL = (
    r"e-?mails?|mails?|messages?|letters?|logs?|output|errors?|traceback|stack ?trace"
    r"|transcripts?|texts?|articles?|documents?|contracts?|polic(?:y|ies)|pages?|posts?"
    r"|notes|minutes|response|reply|answer|code|snippet|readme|terms|reviews?|comments?"
    r"|threads?|chat|conversation|quote|paragraph|passage|abstract|story|poem|lyrics"
    r"|description|ticket|issue|prompt|template|draft|file|speech|manual|docs?"
    r"|nachricht|brief|protokoll|ausgabe|fehler|artikel|dokument|vertrag|absatz"
    r"|courriel|lettre|sortie|erreur|texte|contrat|correo|mensaje|carta|salida|texto"
    r"|contrato|mensagem|saída|erro|письмо|сообщение|текст|журнал|договор|статья"
    r"|البريد|الرسالة|النص|المقال|ईमेल|संदेश|पाठ|लेख"
)
_TASKS = (
    r"translate|summari[sz]e|rewrite|rephrase|proofread|correct|fix|explain|review"
    r"|analy[sz]e|check|improve|paraphrase|classify|shorten|edit|interpret|evaluate"
    r"|what does|what is meant|übersetze?|fasse|korrigiere|erkläre|traduis|traduisez"
    r"|résume|corrige|explique|traduce|resume|traduza|traduz|resuma|corrija|переведи"
    r"|перескажи|исправь|объясни|ترجم|لخص|صحح|अनुवाद"
)
_CUES = (
    r"here(?:'s| is| are|by)?|below|following|this is|these are|attached|pasted?"
    r"|forwarded|received|got|sent|says|see|read|look at|consider|given|quoting"
    r"|hier (?:ist|sind|kommt|die|der|das)|folgende\w*|voici|ci-dessous|aquí|siguiente"
    r"|aqui|seguinte|вот|ниже|إليك|هذا|यह|नीचे"
)
_AUTHORITY = (
    r"(?:legal|compliance|security|management|finance|the (?:client|team|board))\b"
)
"""Whose demands a person passes on as their own."""

_POLITE = r"(?:(?:please|now|then|and|ok|okay|can you|could you|bitte|por favor),? )*"
_PASTE = re.compile(
    rf"^[^\n:：]{{0,60}}?\b(?:{_CUES})\b[^\n:：]{{0,60}}?\b(?:{_MATERIAL})\b"
    rf"[^\n:：]{{0,50}}[:：]"
    rf"|^[^\n:：]{{0,80}}\b(?:{_MATERIAL})\b[^\n:：]{{0,20}}[:：][ \t]*$"
    rf"|^(?:以下|下面|这是|这封|次の|この)[^\n:：]{{0,30}}[:：]"
    rf"|^{_POLITE}(?:{_TASKS})\b[^\n:：]{{0,60}}[:：]"
    rf"|^[^\n:：]{{0,12}}(?:翻译|总结|翻訳|要約|訳して)[^\n:：]{{0,30}}[:：]"
    rf"|^(?!{_AUTHORITY})[^\n:：]{{0,60}}(?<!i )(?<!it's )(?<!just )\b"
    rf"(?:wrote|writes|said|says|schrieb|écrit|escribió|escreveu"
    rf"|написал\w?|كتب)\s?[:：]",
    re.IGNORECASE | re.MULTILINE,
)
_ASKED_OF = re.compile(
    r"\A[^\n]{0,160}\b(?:this|these|the|following|diese\w*|de[rs]|cet?t?e?|est[ea]) "
    rf"(?:\w+ )?(?:{_MATERIAL})\b[^\n]{{0,80}}\n[ \t]*\n(?=[\s\S]{{300}})",
    re.IGNORECASE,
)
"""An opening line about a text, before one that is too long to be a remark."""
_LETTER = re.compile(
    r"^(?:from|to|subject|sent|cc|return-path|reply-to|message-id|delivered-to|requester"
    r"|reporter|assignee|von|betreff|gesendet|objet|asunto|assunto|тема|"
    r"发件人|主题|差出人|件名)[ \t]?[:：][ \t]\S"
    r"|^-{2,} ?(?:original message|forwarded message|ursprüngliche nachricht)"
    r"|^begin forwarded message|(?<=\n)(?:dear|liebe[r]?|sehr geehrte[r]?) \w+",
    re.IGNORECASE | re.MULTILINE,
)
_LOG = re.compile(
    r"^[ \t]*(?:\[?\d{4}[-/]\d\d[-/]\d\d,?[T ]\d\d:|\[?\d\d:\d\d(?::\d\d)?\]?[ \t]"
    r"|\[?\d{1,2}[./]\d{1,2}[./]\d{2,4},? \d{1,2}:\d\d"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d "
    r"|E {2,3}\S|[A-Z][a-z]+\w*(?:Error|Warning|Exception): "
    r"|[\w./\\-]+\.[a-z]{1,4}:\d+:"
    r"|(?:[\w.-]{2,20}:|npm|pnpm|yarn) (?:WARN|ERR!|ERROR|DEBUG|FATAL)\b"
    r"|\[?(?:INFO|DEBUG|WARN(?:ING)?|ERROR|TRACE|FATAL|CRITICAL)\b(?!: [a-z])"
    r"|Traceback |File \"|at \w+[.(]|\$ |\+\+\+ |--- |@@ |[{}]|\[[{\"\d]|</?\w|#!"
    r"|(?:def|class) \w+[(:]|import [\w.]+(?:$| as )|from [\w.]+ import "
    r"|(?:const|let|var) \w+ ?=|function \w+\()[^\n]*",
    re.MULTILINE,
)
_SET_APART = re.compile(
    r"\A[^\n]{0,60}\n\s*(?:([-=*_~#])\1{2,})[ \t]*\n(.*?)\n[ \t]*\1{3,}[ \t]*$",
    re.DOTALL | re.MULTILINE,
)
"""A block between two lines of dashes, after at most a short line."""
_CONTEXT = re.compile(
    r"^(context|passage|kontext|contexte|contexto|q)[ \t]*[:：](.*?)"
    r"^(?:question|frage|pregunta|pergunta|q|a)[ \t]*[:：]",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
"""The text of a prompt that asks a question about it."""
_FAQ = re.compile(
    r"^[ \t]*(?:\*\*)?[qf][:.)][^\n]*\n\s*(?:\*\*)?[ar][:.)][ \t]*\S[^\n]*",
    re.MULTILINE | re.IGNORECASE,
)
"""A question with its answer."""
_PARAGRAPH = re.compile(r"[^\n]+(?:\n[^\n]+)*")
_PUBLISHED = re.compile(
    r"\u00a9|\(c\) \d{4}|[\u2605\u2606\u2b50]{3}|\b(?:all rights reserved"
    r"|alle rechte vorbehalten|tous droits réservés|todos los derechos reservados"
    r"|cookie settings|accept all|found this helpful|share on|\d+ comments"
    r"|powered by \w+|unsubscribe|posted (?:by|on) \w+|sent from my \w+"
    r"|\d+ (?:upvotes|likes|retweets|replies)|\d+ ?[hd] ago)\b"
    r"|^\S+(?: \S+)?,? \d{1,2}:\d\d(?: ?[ap]m)?$"
    r"|^\d{1,2}:\d\d ?[ap]m [^\n]{1,30}$"
    r"|^\w+(?: \w+)?(?: [|\u203a\u00bb] \w+(?: \w+)?){2,}$",
    re.MULTILINE | re.IGNORECASE,
)
"""A sentence or line of a text that was sent or published: a notice of rights, stars, a
menu, or who wrote when."""
_NOT_SPOKEN = re.compile(
    r"\A\s*<!--|\bnotes? (?:to|for) (?:all )?(?:\w+ )?(?:llms|bots|ais|assistants"
    r"|agents|models|crawlers)\b",
    re.IGNORECASE,
)
"""What no person says to a model: a comment of a page before all else, or a note to all
models that read it."""
_PART = re.compile(r"\n|(?<=[.!?])\s+")
_TABLE = re.compile(
    r"^[ \t]*\|[^\n]*\|[ \t]*(?:\n[ \t]*\|[^\n]*\|[ \t]*)+$", re.MULTILINE
)
_INDENTED = re.compile(
    r"(?<=\n\n)(?:(?: {4}|\t)(?![ \t]*(?:[-*•+]|\d+[.)])\s)[^\n]*(?:\n|\Z))+",
    re.MULTILINE,
)
"""A block of code, as Markdown indents it."""
_BLOCKQUOTE = re.compile(r"^[ \t]*>[^\n]*", re.MULTILINE)
_LABEL = re.compile(
    r"^[ \t]*(?:\*\*)?(@?[^\W\d_][\w.'-]{0,20}(?: [^\W\d_][\w.'-]{0,20}){0,2})"
    r"(?: ?[\[(][^\])\n]{1,20}[\])])?(?:\*\*)?[ \t]?[:：](?:\*\*)?[ \t]+\S[^\n]*",
    re.MULTILINE,
)
_ROLES_WORDS = (
    "user assistant system human ai bot agent customer client support operator "
    "teacher student interviewer tool function developer model chatgpt claude gpt "
    "him her them boss manager"
)
_ROLES = frozenset(_ROLES_WORDS.split())
_TOPICS_WORDS = (
    "rule rules style tone language format formatting length budget deadline "
    "naming units testing tests note notes nb important critical warning "
    "attention reminder remember requirement requirements constraint constraints "
    "preference preferences decision decisions final update correction change "
    "scope security privacy audience output ps also please yes ok okay one goal "
    "limit limits diet must hard absolute constraint: condition conditions "
    "context time size price cost platform version tools regel regeln wichtig "
    "hinweis stil sprache ton budget frist entscheidung règle règles style langue "
    "ton important délai décision regla reglas estilo idioma tono importante "
    "plazo decisión presupuesto regra regras tom prazo decisão orçamento правило "
    "правила важно стиль язык бюджет срок решение"
)
_TOPICS = frozenset(_TOPICS_WORDS.split())


class Passage(NamedTuple):
    """A sentence, or a heading with its list, and its mask."""

    text: str
    mask: str
    is_list: bool = False


def passages(
    text: str, pasted: Sequence[Span] = (), *, whole: bool = False
) -> list[Passage]:
    """The sentences of a person's own in a message, word for word.

    `pasted` are parts that are known to be pasted; others are recognised.

    A heading such as "Requirements:" and the list below it are one passage. Of a
    document only the opening is read, unless the `whole` is asked for.
    """
    text = text[:READ_CHARACTERS]
    mask = own_mask(text, pasted)
    if not whole and len(mask) - mask.count(HIDDEN) > LONGEST_MESSAGE:
        mask = mask.partition("\n\n")[0][:OPENING_CHARACTERS]
    trimmed = ((*_trimmed(mask, *span), is_list) for *span, is_list in _spans(mask))
    return [
        Passage(text[start:stop], mask[start:stop], is_list)
        for start, stop, is_list in trimmed
        if start < stop
    ]


def _trimmed(mask: str, start: int, stop: int) -> tuple[int, int]:
    """A span without spaces and hidden characters at its ends."""
    while start < stop and (mask[start].isspace() or mask[start] == HIDDEN):
        start += 1
    while start < stop and (mask[stop - 1].isspace() or mask[stop - 1] == HIDDEN):
        stop -= 1
    return start, stop


def without_shown_text(text: str) -> str:
    """The message up to a long text that its opening line asks about."""
    asked = _ASKED_OF.search(text)
    return text[: asked.end()] if asked else text


def own_mask(text: str, pasted: Sequence[Span] = ()) -> str:
    """The text, with HIDDEN for each character that was pasted or quoted."""
    return _own_mask(text, tuple(pasted))


@lru_cache(CACHED_MASKS)
def _own_mask(text: str, pasted: tuple[Span, ...]) -> str:
    text = text.replace("\u2019", "'").replace(HIDDEN, " ")
    for start, stop in pasted:
        text = text[:start] + _VISIBLE.sub(HIDDEN, text[start:stop]) + text[stop:]
    text = _PARAGRAPH.sub(_hidden_page, _CODE.sub(_hidden, text))
    for pattern in (_COMMENT, _ELEMENT, _BLOCKQUOTE, _FAQ):
        text = pattern.sub(_hidden, text)
    for pattern in (_TABLE, _ROWS, _INDENTED):
        text = pattern.sub(_hidden_unless_listed, text)
    for pattern in (_SET_APART, _BRACKETED, _CONTEXT):
        text = pattern.sub(_hidden_block, text)
    text = _SIGNED.sub(_hidden_letter, text)
    text = _QUOTED.sub(_hidden_quote, text)
    text = _without_shown(text)
    if letter := _LETTER.search(text):
        text = _hidden_after(text, letter.start())
    text = _without_speakers(_LOG.sub(_hidden, text))
    return text if pasted else without_unintroduced(text)


def _without_shown(text: str) -> str:
    """The text without what a line introduces, or the last one points back to."""
    if found := _introduction(text):
        line, start = found
        closing = None if asks(line) else _closing(text, start)
        stop = len(text) if closing is None else closing
        return text[:start] + _VISIBLE.sub(HIDDEN, text[start:stop]) + text[stop:]
    last = text.rstrip().rfind("\n\n")
    first = text.find("\n\n")
    if first < last and _is_sandwich(text[:first], text[last:].strip()):
        return text[:first] + _VISIBLE.sub(HIDDEN, text[first:last]) + text[last:]
    if last > 0 and not _HEADING_LINE.search(text) and points_back(text[last:].strip()):
        return _VISIBLE.sub(HIDDEN, text[:last]) + text[last:]
    return text


def _is_sandwich(opening: str, closing: str) -> bool:
    """Whether what is between is the object of a question, or within a sentence.

    A line that ends with a colon, a block, and a question are about the block; so is a
    sentence that stops before a block and continues after it.
    """
    if _HEADING.search(opening) or len(opening) > OPENING_CHARACTERS:
        return False
    asks_after = opening.endswith((":", "\uff1a")) and _is_short_question(closing)
    return asks_after or (is_interrupted(opening) and closing[:1].islower())


def _is_short_question(paragraph: str) -> bool:
    is_question = paragraph.rstrip().endswith(("?", "\uff1f", "\u061f"))
    return is_question and len(paragraph) <= SHORT_QUESTION


def _introduction(text: str) -> tuple[str, int] | None:
    """The first line that introduces a text, and where the text begins."""
    for found in _LINE.finditer(text):
        line, after = found[0], text[found.end() : found.end() + 2]
        if HIDDEN in line or _HEADING.search(line) or _ITEM.match(line):
            continue
        start = _introduced(text, found, is_apart=after == "\n\n" or not found.start())
        if start is not None and not _HIDDEN_NEXT.match(text, start):
            return line, start
    return None


def _introduced(text: str, line: re.Match[str], *, is_apart: bool) -> int | None:
    if pasted := _PASTE.match(text, line.start(), line.end()):
        return pasted.end()
    start = shown_from(line[0], is_apart=is_apart)
    return None if start is None else line.start() + start


def _closing(text: str, start: int) -> int | None:
    """Where the last paragraph begins, if it asks about a text before it."""
    last = text.rstrip().rfind("\n\n")
    is_after_text = last > start and text[start:last].strip()
    return last if is_after_text and is_closing(text[last:].strip()) else None


_HIDDEN_NEXT = re.compile(rf"\s*[\"'\u201c\u201e\u00ab\u300c\u300e]?{HIDDEN}")
"""What is introduced is hidden already, so that the rest is the person's own."""

_VISIBLE = re.compile(r"[^\n]")
_LINE = re.compile(r"[^\n]*\S[^\n]*")


def _hidden(found: re.Match[str]) -> str:
    return _VISIBLE.sub(HIDDEN, found[0])


def _hidden_unless_listed(found: re.Match[str]) -> str:
    """A block without its text, if its first line names no rules."""
    first = found[0].lstrip().partition("\n")[0]
    return found[0] if _RULES.search(first) else _hidden(found)


def _hidden_page(found: re.Match[str]) -> str:
    is_page = _NOT_SPOKEN.search(found[0]) or _is_published(found[0])
    return _hidden(found) if is_page else found[0]


def _is_published(paragraph: str) -> bool:
    """Whether a part of a paragraph, and not all of it, shows that it was published.

    A rule about such a thing ("Never share on social media") shows nothing.
    """
    parts = _PART.split(paragraph.strip())
    marks = (part for part in parts if _PUBLISHED.search(part))
    return len(parts) > 1 and any(rule_score(plain(part)) <= 0 for part in marks)


def _hidden_block(found: re.Match[str]) -> str:
    begin, end = found.start(2) - found.start(), found.end(2) - found.start()
    return found[0][:begin] + _VISIBLE.sub(HIDDEN, found[2]) + found[0][end:]


def _hidden_letter(found: re.Match[str]) -> str:
    begin = found.start(1) - found.start()
    return found[0][:begin] + _VISIBLE.sub(HIDDEN, found[1])


def _hidden_quote(found: re.Match[str]) -> str:
    quoted = found[0]
    words = len(quoted.split())
    has_spaces = ord(max(quoted)) < ord("\u2e80")
    is_long = words >= QUOTED_WORDS if has_spaces else len(quoted) > QUOTED_CHARACTERS
    return quoted[0] + HIDDEN * (len(quoted) - 2) + quoted[-1] if is_long else quoted


def _hidden_after(text: str, start: int) -> str:
    return text[:start] + _VISIBLE.sub(HIDDEN, text[start:])


def _without_speakers(text: str) -> str:
    """The text without lines that begin with the name of a speaker."""
    labels = Counter(found[1].casefold() for found in _LABEL.finditer(text))
    return _LABEL.sub(partial(_unless_spoken, labels), text)


def _unless_spoken(labels: Counter[str], found: re.Match[str]) -> str:
    """The line, hidden where its label is a role, is repeated, or is one of names."""
    label = found[1].removeprefix("@")
    words = label.casefold().split()
    if labels[found[1].casefold()] > 1 or words[0] in _ROLES:
        return _hidden(found)
    is_name = label.istitle() and not _TOPICS.intersection(words)
    return _hidden(found) if is_name and len(labels) > 1 else found[0]


_SENTENCE = re.compile(
    r"(?:[^.!?\n\u3002\uff01\uff1f\u0964\u061f]"
    r"|[.!?](?![\s\"')\]\u201d\u00bb]|$))+"  # 3.5, e.g., main.py
    r"(?:[.!?]+[\"')\]\u201d\u00bb]*|[\u3002\uff01\uff1f\u0964\u061f]+[\u300d\u300f]*"
    r"|$|(?=\n))",
    re.MULTILINE,
)


def _spans(mask: str) -> Iterator[tuple[int, int, bool]]:
    """The start and end of each sentence, and of each list with its heading."""
    lines = [(line.start(), line.end()) for line in re.finditer(r"[^\n]+", mask)]
    number = 0
    while number < len(lines):
        start, stop = lines[number]
        last = number
        if _HEADING.search(mask[start:stop]):
            while last + 1 < len(lines) and _ITEM.match(mask, *lines[last + 1]):
                last += 1
        if last > number:
            yield start, lines[last][1], True
        else:
            yield from ((*each.span(), False) for each in _sentences(mask, start, stop))
        number = last + 1


def _sentences(mask: str, start: int, stop: int) -> Iterator[re.Match[str]]:
    return _SENTENCE.finditer(mask, start, stop)
