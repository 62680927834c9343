r"""Formulas in Markdown as MathML: `$x$`, `$$x$$`, `\(x\)` and `\[x\]`, never in code.

They are parsed before Markdown consumes their backslashes, stars and underscores.
Prices, shell variables, regular expressions and paths use the same delimiters, so the
text between them must also look like a formula. A formula that cannot be converted is
shown as its source.
"""

import re
from collections.abc import Sequence
from html import escape, unescape
from typing import Any, NoReturn
from xml.etree.ElementTree import Element  # only built here, never parsed

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

LATEX_LIMIT = 4_000
"""Characters of the longest formula that is converted, about 20 ms of work."""

BUDGET = 20_000
"""Characters of LaTeX that are converted in one text; later ones stay source."""

DEPTH_LIMIT = 60
"""Deepest nesting of elements; a continued fraction of ten levels has 35."""

GROWTH_LIMIT = 30
"""Most characters of MathML for one of LaTeX; ordinary formulas have 5 to 25."""

LENGTH = re.compile(r"-?(?:\d(?:\.\d{1,3})?|\.\d{1,3}|[1-9]\d)(?:em|ex|pt|px)|0")
"""Allowed widths and heights, up to 99 of a unit."""

TAGS = {
    *("math", "mfrac", "mi", "mn", "mo", "mover", "mpadded", "mphantom"),
    *("mroot", "mrow", "mspace", "msqrt", "mstyle"),
    *("menclose", "msub", "msubsup", "msup", "mtable", "mtd", "mtext", "mtr"),
    *("munder", "munderover"),
}

_WORDS = re.compile(r"[a-z-]{1,30}")
_SWITCH = re.compile(r"true|false")

ATTRIBUTES = {
    "accent": _SWITCH,
    "accentunder": _SWITCH,
    "columnalign": re.compile(r"left|right|center"),
    "depth": LENGTH,
    "display": re.compile(r"block|inline"),
    "displaystyle": _SWITCH,
    "fence": _SWITCH,
    "form": re.compile(r"prefix|infix|postfix"),
    "height": LENGTH,
    "linethickness": LENGTH,
    "lspace": LENGTH,
    "mathvariant": _WORDS,
    "maxsize": LENGTH,
    "minsize": LENGTH,
    "movablelimits": _SWITCH,
    "notation": _WORDS,
    "rspace": LENGTH,
    "scriptlevel": re.compile(r"[0-3]"),
    "stretchy": _SWITCH,
    "width": LENGTH,
}
"""Allowed attributes of elements, and the form of their values."""

# The converter's names for environments that it knows under another name.
_ENVIRONMENTS = {
    "aligned": "align*",
    "alignedat": "align*",
    "dcases": "cases",
    "equation": "split",
    "equation*": "split",
    "gather": "align*",
    "gather*": "align*",
    "gathered": "align*",
}
_ENVIRONMENT = re.compile(r"(\\(?:begin|end)\s*)\{([a-z]+\*?)\}")

_FORBIDDEN = re.compile(r"\\(?:class|href|style|unicode)(?![A-Za-z])")
_LABEL = re.compile(r"\\label\s*\{[^{}]*\}")
_PERCENT = re.compile(r"(?<!\\)((?:\\\\)*)%")
_ESCAPED = re.compile(r"\\.", re.DOTALL)

_CLOSERS = {"$$": "$$", "$": "$", r"\(": r"\)", r"\[": r"\]"}
_INTERRUPTS: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}

# Before a dollar: the start, space, an opening sign, stars of emphasis, or a letter of
# a script without spaces. Not the end of a word, a price or a regular expression.
_BEFORE_DOLLAR = re.compile(
    r"(?:^|[\s(\[{\"':,;=/<>~-]|(?:^|[\s(])[*_]{1,3}|[^\x00-\x7f])$"
)
_AFTER_DOLLAR = re.compile(r"(?![A-Za-z0-9_{($])|(?:th|s)\b")
_BEFORE_BRACKET = re.compile(r"[\w:\\]$", re.ASCII)

_COMMAND = re.compile(
    r"\\(?:text\w*|mbox|operatorname\*?|math\w+|begin|end)\s*\{[^{}]*\}|\\[A-Za-z]+"
)
_PROSE = re.compile(
    r"\s(?:and|are|at|for|from|in|is|not|of|or|than|that|the|to|was|with)\s"
)
_WORD = re.compile(r"[A-Za-z]{2,}")
_PHRASE = re.compile(r"[A-Za-z]{3,}")
_SIGN = re.compile(r"[\\^_=]")
_NESTED = re.compile(r"(?<!\\)\\[(\[]")
_DISPLAYED = re.compile(r"[\\^_=<>+]|^\s.*\s$", re.DOTALL)


def formulas_plugin(parser: MarkdownIt) -> None:
    """A markdown-it plugin: add the four kinds of formulas to a parser."""
    parser.inline.ruler.before("escape", "formula", _inline_formula)
    parser.block.ruler.before("fence", "formula_block", _block_formula, _INTERRUPTS)
    parser.add_render_rule("formula", _formula_html)
    parser.add_render_rule("formula_block", _block_html)


def mathml(latex: str, *, is_block: bool) -> str | None:
    """Convert LaTeX to a `math` element; None when it must stay text."""
    if len(latex) > LATEX_LIMIT or _FORBIDDEN.search(latex) or not _is_balanced(latex):
        return None
    try:
        html = _element_html(_converted(_normalized(latex), is_block=is_block))
    except Exception:  # noqa: BLE001  # the converter raises errors of many types
        return None
    return html if len(html) <= GROWTH_LIMIT * (len(latex) + 10) else None


def _inline_formula(state: StateInline, silent: bool) -> bool:  # noqa: FBT001  # markdown-it's signature
    opener = _opener(state.src, state.pos)
    end = _closing(state.src, state.pos, opener, state.posMax) if opener else -1
    if end < 0 or not _is_formula(state.src, state.pos, opener, end):
        return False
    if not silent:
        token = state.push("formula", "math", 0)
        token.markup = opener
        token.content = state.src[state.pos + len(opener) : end]
    state.pos = end + len(opener)
    return True


def _block_formula(state: StateBlock, start: int, stop: int, silent: bool) -> bool:  # noqa: FBT001  # as above
    begin = state.bMarks[start] + state.tShift[start]
    opener = _opener(state.src, begin)
    if opener not in ("$$", r"\["):
        return False
    end = _closing(state.src, begin, opener, len(state.src))
    last = start + state.src.count("\n", begin, max(begin, end))
    if end < 0 or last >= stop or not _is_whole(state, range(start, last + 1)):
        return False
    source = "\n".join(_line(state, line) for line in range(start, last + 1)).rstrip()
    latex, _, after = source.removeprefix(opener).rpartition(_CLOSERS[opener])
    if after not in ("", ".", ",", ";") or not _looks_like_formula(latex, opener):
        return False
    if not silent:
        token = state.push("formula_block", "math", 0)
        token.markup, token.content = opener, f"{latex.strip()}{after}"
        token.map = [start, last + 1]
        state.line = last + 1
    return True


def _opener(text: str, start: int) -> str:
    return next((each for each in _CLOSERS if text.startswith(each, start)), "")


def _closing(text: str, start: int, opener: str, stop: int) -> int:
    """Index of the delimiter that ends a formula; -1 without one within the limit."""
    closer, begin = _CLOSERS[opener], start + len(opener)
    stop = min(stop, begin + LATEX_LIMIT)
    end = text.find(closer, begin, stop)
    while end >= 0 and _is_escaped(text, end):
        end = text.find(closer, end + 1, stop)
    return end


def _is_escaped(text: str, index: int) -> bool:
    before = text[max(0, index - 100) : index]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _is_formula(text: str, start: int, opener: str, end: int) -> bool:
    before, after = text[max(0, start - 4) : start], end + len(opener)
    if opener == "$":
        if not _BEFORE_DOLLAR.search(before) or not _AFTER_DOLLAR.match(text, after):
            return False
    elif _BEFORE_BRACKET.search(before):
        return False
    return _looks_like_formula(text[start + len(opener) : end], opener)


def _looks_like_formula(latex: str, opener: str) -> bool:
    """True if the text between two delimiters can be a formula."""
    bare = _COMMAND.sub(" ", latex)
    if not latex.strip() or "`" in latex or _PROSE.search(bare):
        return False
    match opener:
        case "$":
            is_price = latex[0].isdigit() and _WORD.search(bare)
            return latex == latex.strip() and "\n" not in latex and not is_price
        case r"\(":
            is_phrase = _PHRASE.search(bare) and not _SIGN.search(latex)
            is_empty = not any(map(str.isalnum, latex))
            return not (is_empty or is_phrase or _NESTED.search(latex))
        case r"\[":
            return bool(_DISPLAYED.search(latex)) and not _NESTED.search(latex)
        case _:
            return True


def _is_whole(state: StateBlock, lines: range) -> bool:
    """True if lines belong to one block: none is blank or outside of the list item."""
    return all(
        not state.isEmpty(line) and state.sCount[line] >= state.blkIndent
        for line in lines
    )


def _line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def _formula_html(
    _renderer: RendererHTML,
    tokens: Sequence[Token],
    index: int,
    _options: Any,
    env: Any,
) -> str:
    token = tokens[index]
    return _converted_html(token, env) or escape(_source(token))


def _block_html(*arguments: Any) -> str:
    return f"<p>{_formula_html(*arguments)}</p>\n"


def _converted_html(token: Token, env: Any) -> str | None:
    """The formula as MathML, as long as the text has budget left."""
    spent = env["latex"] = env.get("latex", 0) + len(token.content)
    is_block = token.markup in ("$$", r"\[")
    return mathml(token.content, is_block=is_block) if spent <= BUDGET else None


def _source(token: Token) -> str:
    return f"{token.markup}{token.content}{_CLOSERS[token.markup]}"


class _Unsupported(ValueError):
    """The formula cannot be converted within the limits."""


def _is_balanced(latex: str) -> bool:
    """True if all braces are paired; the converter would accept unpaired ones."""
    depth = 0
    for sign in re.findall(r"[{}]", _ESCAPED.sub("", latex)):
        depth += 1 if sign == "{" else -1
        if depth < 0:
            return False
    return depth == 0


def _normalized(latex: str) -> str:
    """Replace environments that the converter does not know, and escape each `%`."""
    named = _ENVIRONMENT.sub(
        lambda found: f"{found[1]}{{{_ENVIRONMENTS.get(found[2], found[2])}}}", latex
    )
    return _PERCENT.sub(r"\1\\%", _LABEL.sub("", named))


def _converted(latex: str, *, is_block: bool) -> Element:
    # Late: it loads a table of 2,500 symbols, which takes a tenth of a second.
    from latex2mathml.converter import Converter  # noqa: PLC0415

    converter = Converter(display="block" if is_block else "inline")
    converter.macros = _NoMacros()
    return converter.convert_to_element(latex)


class _NoMacros(dict[str, tuple[list[str], int]]):
    """A table of macros that refuses definitions."""

    def __setitem__(self, name: str, _definition: object) -> NoReturn:
        raise _Unsupported(f"a formula may not define {name!r}")


def _element_html(element: Element, depth: int = 0) -> str:
    """Serialize an element with its children; all texts are escaped here."""
    if depth > DEPTH_LIMIT:
        raise _Unsupported("a formula is nested too deeply")
    inside = "".join(_element_html(child, depth + 1) for child in element)
    text = _text(element)
    if element.tag == "mrow" and not element.attrib and len(element) == 1:
        return inside  # one element needs no row around it
    attributes = "".join(
        f' {name}="{escape(value)}"'
        for name, value in element.attrib.items()
        if name in ATTRIBUTES and (name, value) != ("display", "inline")
    )
    return f"<{element.tag}{attributes}>{text}{inside}</{element.tag}>"


def _text(element: Element) -> str:
    text = element.text or ""
    is_unknown = element.tag == "mi" and text.startswith("\\") and len(text) > 1
    if is_unknown or (element.tag == "mi" and text == "&"):
        raise _Unsupported(f"{text!r} is an unknown command")
    return escape(unescape(text), quote=False)
