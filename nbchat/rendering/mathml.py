r"""LaTeX as MathML, which browsers draw; None for what cannot be drawn whole.

What a formula may do is bounded: no macros (ten of them can stand for a gigabyte), no
unknown command, no `\href` or `\style`, and neither depth nor size without end. The
result still goes through the allow-list in `markdown.py`.
"""

import re
from html import escape, unescape
from typing import NoReturn
from xml.etree.ElementTree import Element  # only built here, never parsed

LATEX_LIMIT = 4_000
"""Characters of one formula, about 20 ms of work."""

DEPTH_LIMIT = 60
"""Elements inside each other; a continued fraction of ten levels has 35."""

GROWTH_LIMIT = 30
"""Characters of MathML for one of LaTeX; ordinary formulas have 5 to 25."""

LENGTH = re.compile(r"-?(?:\d(?:\.\d{1,3})?|\.\d{1,3}|[1-9]\d)(?:em|ex|pt|px)|0")
"""Widths and heights that a formula may ask for, up to 99 of a unit."""

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
"""What may stand on an element of a formula, and the form of its value."""

# The converter's names of environments that answers use under other names.
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


class _Unfit(ValueError):
    """The formula cannot be drawn, or not within the bounds."""


def mathml(latex: str, *, is_block: bool) -> str | None:
    """A formula as a `math` element; None when it is to stay text."""
    if len(latex) > LATEX_LIMIT or _FORBIDDEN.search(latex) or not _is_balanced(latex):
        return None
    try:
        html = _element_html(_converted(_known(latex), is_block=is_block))
    except Exception:  # noqa: BLE001  # the converter raises whatever it stumbles over
        return None
    return html if len(html) <= GROWTH_LIMIT * (len(latex) + 10) else None


def _is_balanced(latex: str) -> bool:
    """Whether every brace has its partner; the converter forgives what TeX does not."""
    depth = 0
    for sign in re.findall(r"[{}]", _ESCAPED.sub("", latex)):
        depth += 1 if sign == "{" else -1
        if depth < 0:
            return False
    return depth == 0


def _known(latex: str) -> str:
    """The same in words that the converter knows, and with each `%` to be seen."""
    named = _ENVIRONMENT.sub(
        lambda found: f"{found[1]}{{{_ENVIRONMENTS.get(found[2], found[2])}}}", latex
    )
    return _PERCENT.sub(r"\1\\%", _LABEL.sub("", named))


def _converted(latex: str, *, is_block: bool) -> Element:
    # Late: it reads a table of 2,500 symbols, a tenth of a second at the first formula.
    from latex2mathml.converter import Converter  # noqa: PLC0415

    converter = Converter(display="block" if is_block else "inline")
    converter.macros = _NoMacros()
    return converter.convert_to_element(latex)


class _NoMacros(dict[str, tuple[list[str], int]]):
    """Definitions that cannot be made."""

    def __setitem__(self, name: str, _definition: object) -> NoReturn:
        raise _Unfit(f"a formula may not define {name!r}")


def _element_html(element: Element, depth: int = 0) -> str:
    """An element with all it holds; its texts are escaped here, whatever they hold."""
    if depth > DEPTH_LIMIT:
        raise _Unfit("a formula is too deep")
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
        raise _Unfit(f"{text!r} cannot be drawn")
    return escape(unescape(text), quote=False)
