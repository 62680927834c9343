"""Find what a person wrote in a message, apart from what was pasted or quoted.

A text and its mask have the same length, so that what is found in the mask can be cut
out of the text word for word. In the mask code, quoted passages, logs, letters and
other people's lines are replaced by HIDDEN.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

HIDDEN = "\0"
"""In a mask, in place of each character that is not the person's own."""

READ_CHARACTERS = 20_000
"""Characters of a message that are read."""

LONGEST_MESSAGE, OPENING_CHARACTERS = 4_000, 600
"""Characters of its own from which a message is taken for a document, of which only the
first paragraph is read, and how much of that: two pages are more than people type."""

QUOTED_WORDS, QUOTED_CHARACTERS = 4, 12
"""Words of a passage in quotation marks by another author, and its characters in
scripts without spaces; shorter ones are titles and terms."""

_CODE = re.compile(r"(```|~~~).*?(?:\1|\Z)", re.DOTALL)
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
_ITEM = re.compile(r"[ \t]*(?:[-*•‣–—+]|\(?\d{1,2}[.)]|\(?[a-zA-Z][.)]|[①-⑳])\s*\S")

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
    r"^(?:from|to|subject|sent|cc|von|betreff|gesendet|objet|asunto|assunto|тема|"
    r"发件人|主题|差出人|件名)[ \t]?[:：][ \t]\S"
    r"|^-{2,} ?(?:original message|forwarded message|ursprüngliche nachricht)"
    r"|^begin forwarded message|(?<=\n)(?:dear|liebe[r]?|sehr geehrte[r]?) \w+",
    re.IGNORECASE | re.MULTILINE,
)
_LOG = re.compile(
    r"^[ \t]*(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:|\[?\d\d:\d\d(?::\d\d)?\]?[ \t]"
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


def passages(text: str, *, whole: bool = False) -> list[Passage]:
    """The sentences of a person's own in a message, word for word.

    A heading such as "Requirements:" and the list below it are one passage. Of a
    document only the opening is read, unless the `whole` is asked for.
    """
    text = text[:READ_CHARACTERS]
    mask = own_mask(text)
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


def own_mask(text: str) -> str:
    """The text, with HIDDEN for each character that was pasted or quoted."""
    text = text.replace("\u2019", "'").replace(HIDDEN, " ")
    for pattern in (_CODE, _ELEMENT, _BLOCKQUOTE):
        text = pattern.sub(_hidden, text)
    text = _SET_APART.sub(_hidden_block, text)
    text = _QUOTED.sub(_hidden_quote, text)
    for pasted in _PASTE.finditer(text):
        if not _opens_list(text, pasted.start()) and not _HIDDEN_NEXT.match(
            text, pasted.end()
        ):
            text = _hidden_after(text, pasted.end())
            break
    if letter := _LETTER.search(text):
        text = _hidden_after(text, letter.start())
    return _without_speakers(_LOG.sub(_hidden, text))


_HIDDEN_NEXT = re.compile(rf"\s*[\"'\u201c\u201e\u00ab\u300c\u300e]?{HIDDEN}")
"""What is introduced is hidden already, so that the rest is the person's own."""

_VISIBLE = re.compile(r"[^\n]")


def _opens_list(text: str, start: int) -> bool:
    line = text[start:].partition("\n")[0]
    return bool(_HEADING.search(line))


def _hidden(found: re.Match[str]) -> str:
    return _VISIBLE.sub(HIDDEN, found[0])


def _hidden_block(found: re.Match[str]) -> str:
    begin, end = found.start(2) - found.start(), found.end(2) - found.start()
    return found[0][:begin] + _VISIBLE.sub(HIDDEN, found[2]) + found[0][end:]


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
