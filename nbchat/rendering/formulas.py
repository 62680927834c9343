r"""Where formulas stand in Markdown: `$x$`, `$$x$$`, `\(x\)`, `\[x\]`, never in code.

They are found before Markdown takes their backslashes, stars and underscores. Prices,
shell variables, regular expressions and paths use the same signs, so what stands
between them must also look like a formula; if it does and cannot be drawn, its source
is shown.
"""

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from nbchat.rendering.mathml import LATEX_LIMIT, mathml

BUDGET = 20_000
"""Characters of LaTeX that are drawn in one text; all after them stay source."""

_CLOSERS = {"$$": "$$", "$": "$", r"\(": r"\)", r"\[": r"\]"}
_INTERRUPTS: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}

# Before a dollar: nothing, space, an opening sign, stars of emphasis, a letter of a
# script that is written without spaces. Not what ends a word, a price or a regex.
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
    """Teach a parser the four ways to write a formula."""
    parser.inline.ruler.before("escape", "formula", _inline_formula)
    parser.block.ruler.before("fence", "formula_block", _block_formula, _INTERRUPTS)
    parser.add_render_rule("formula", _formula_html)
    parser.add_render_rule("formula_block", _block_html)


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
    if after not in ("", ".", ",", ";") or not _looks_right(latex, opener):
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
    """Where the formula ends that begins at `start`; -1 when it is none or too long."""
    closer, begin = _CLOSERS[opener], start + len(opener)
    stop = min(stop, begin + LATEX_LIMIT)
    end = text.find(closer, begin, stop)
    while end >= 0 and _is_escaped(text, end):
        end = text.find(closer, end + 1, stop)
    return end


def _is_escaped(text: str, place: int) -> bool:
    before = text[max(0, place - 100) : place]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _is_formula(text: str, start: int, opener: str, end: int) -> bool:
    before, after = text[max(0, start - 4) : start], end + len(opener)
    if opener == "$":
        if not _BEFORE_DOLLAR.search(before) or not _AFTER_DOLLAR.match(text, after):
            return False
    elif _BEFORE_BRACKET.search(before):
        return False
    return _looks_right(text[start + len(opener) : end], opener)


def _looks_right(latex: str, opener: str) -> bool:
    """Whether this can be a formula, seen by itself."""
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
    """Whether these lines belong to one block: none blank, none outside of the list."""
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
    return _drawn(token, env) or escape(_source(token))


def _block_html(*place: Any) -> str:
    return f"<p>{_formula_html(*place)}</p>\n"


def _drawn(token: Token, env: Any) -> str | None:
    """The formula as MathML, while the text has budget left."""
    spent = env["latex"] = env.get("latex", 0) + len(token.content)
    is_block = token.markup in ("$$", r"\[")
    return mathml(token.content, is_block=is_block) if spent <= BUDGET else None


def _source(token: Token) -> str:
    return f"{token.markup}{token.content}{_CLOSERS[token.markup]}"
