"""Markdown as safe HTML, with coloured code and formulas, and the stylesheet for it.

Raw HTML is off in the parser, and its output passes an allow-list. Images become links,
because an injected prompt can leak a conversation through an image's URL. Formulas
become MathML.
"""

import re
import time
from collections.abc import Sequence
from functools import cache, lru_cache
from html import escape
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore, linkify
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.footnote import footnote_plugin
from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_by_name
from pygments.token import STANDARD_TYPES
from pygments.util import ClassNotFound

from nbchat.rendering import math
from nbchat.rendering.math import formulas_plugin
from nbchat.rendering.plain_text import displayable

HIGHLIGHT_LIMIT = 10_000
"""Characters of the longest code block that is coloured."""

HIGHLIGHT_SECONDS = 0.05
"""Of CPU time to colour a block; one that takes longer stays plain."""

LEXERS = {
    *("awk", "bash", "bat", "c", "clojure", "cmake", "cpp", "csharp", "css", "dart"),
    *("diff", "docker", "elixir", "erlang", "fortran", "go", "graphql", "groovy"),
    *("haskell", "html", "http", "java", "javascript", "jinja", "js", "json"),
    *("jsonnet", "jsx", "julia", "kotlin", "lua", "make", "markdown", "md", "mysql"),
    *("nginx", "objective-c", "octave", "perl", "php", "postgresql", "powershell"),
    *("protobuf", "python", "python2", "ruby", "rust", "scss", "splus", "sql"),
    *("sqlite3", "swift", "terraform", "tex", "toml", "tsx", "typescript", "vim"),
    *("xml", "yaml", "zig"),
}
"""Pygments' lexers that colour any 10,000 characters quickly; others are not used.

Some need seconds in one regular expression, and no other thread of the kernel runs
meanwhile. Shell sessions, ini files and MATLAB are among these."""

LINKED_LENGTH = 5_000
"""Characters of the longest paragraph in which bare addresses become links: the time
for it grows with the square of the length."""

LONGEST_ADDRESS = 2_048
"""Characters of a bare address that becomes a link."""

_SCHEME = re.compile(r"(?<![a-z0-9.+-])(?:https?|ftp)$", re.IGNORECASE)
"""The scheme before the `://` of an address."""

_SCHEME_LENGTH = len("https") + 1

LINK_SCHEMES = ("http://", "https://", "mailto:")

# Pairs for light and dark, each at least 4.5:1 on the panel's code background; the
# browser picks one by the panel's `color-scheme`.
_COLOURS = {
    "light-dark(#a3176f, #ff8fc7)": "k kc kd kn kp kr kt ow",
    "light-dark(#0f6b3a, #8ddb9f)": "s s1 s2 sa sb sc dl sd se sh si sx sr ss gi",
    "light-dark(#0550ae, #8ec5ff)": "m mb mf mh mi mo il",
    "light-dark(#5c3bb8, #cdb4ff)": "nf fm nc nn nd bp nb nt ne",
    "light-dark(#57606a, #a3abb5)": "c c1 ch cm cp cpf cs gu",
    "light-dark(#9a3412, #ffb38a)": "na no gd gr err",
}

CODE_BOX = (
    "margin:8px 0;padding:8px 12px;overflow:auto;border:1px solid rgba(128,128,128,0.4)"
    ";border-radius:6px;background-color:rgba(128,128,128,0.08)"
)
"""A code block's own style: pages that show a notebook drop its style sheets."""

CODE_STYLE = """
[data-jp-theme-light="true"] .nbc-cell { color-scheme: light; }
[data-jp-theme-light="false"] .nbc-cell { color-scheme: dark; }
"""

_COLOURED = {name for names in _COLOURS.values() for name in names.split()}

STYLESHEETS = ("base", "transcript", "collapsed", "banners", "markdown")
"""Files in `css/`, in the order of the cascade."""

_ATTRIBUTES = {
    "a": {"href"},
    "li": {"class"},
    "ol": {"start"},
    "pre": {"class", "data-language"},
    "span": {"class"},
    "td": {"style"},
    "th": {"style"},
    **{tag: set(math.ATTRIBUTES) for tag in math.TAGS},
}

_TAGS = {
    *("a", "blockquote", "br", "code", "em", "hr", "p", "pre", "s", "span", "strong"),
    "sup",
    *("h1", "h2", "h3", "h4", "h5", "h6", "li", "ol", "ul"),
    *("table", "tbody", "td", "th", "thead", "tr"),
    *math.TAGS,
}

_VALUES = {
    "class": {"nbc-code", "nbc-task", *_COLOURED},
    "style": {f"text-align:{side}" for side in ("left", "center", "right")},
}

_SHAPES = {
    "data-language": re.compile(r"[\w+#.-]{1,20}"),
    "start": re.compile(r"\d{1,9}"),
    **math.ATTRIBUTES,
}

FOOTNOTES = {
    "block_open": "<hr>\n<ol>\n",
    "open": "<li>",
    "anchor": "",
    "close": "</li>\n",
    "block_close": "</ol>\n",
}
"""The HTML around footnotes; no links, which would lead to another answer's."""

_BOXES = {"[ ] ": "\u2610", "[x] ": "\u2611"}


def markdown_html(text: str) -> str:
    """Render Markdown with tables, code and formulas as HTML that is safe to insert."""
    return _cleaned(_parser().render(displayable(text)))


def code_html(code: str, language: str) -> str:
    """Render code as a coloured block that is safe to insert."""
    return _cleaned(_highlighted(displayable(code), language, ""))


def markdown_cell_html(text: str) -> str:
    r"""Markdown for a cell's output, where the panel's stylesheet is not loaded.

    JupyterLab lets MathJax read a cell's HTML, and its `\href` takes any address.
    """
    style = f"<style>{code_style()}</style>" if "```" in text or "~~~" in text else ""
    inside = with_boxes(markdown_html(text))
    return f'<div class="nbc-cell mathjax_ignore">{style}{inside}</div>'


def with_boxes(html: str) -> str:
    """Safe HTML whose code blocks look like boxes without a stylesheet."""
    return html.replace(
        '<pre class="nbc-code"', f'<pre style="{CODE_BOX}" class="nbc-code"'
    )


def code_style() -> str:
    """CSS of coloured code outside the panel."""
    return CODE_STYLE + pygments_css()


def stylesheet() -> str:
    """CSS for conversations, in the panel and in exported pages."""
    folder = Path(__file__).parent / "css"
    rules = ((folder / f"{name}.css").read_text("utf-8") for name in STYLESHEETS)
    return "\n".join((*rules, pygments_css()))


@cache
def pygments_css() -> str:
    """CSS for coloured code, in light and dark."""
    rules = []
    for colour, names in _COLOURS.items():
        selectors = ", ".join(f".nbc-code .{name}" for name in names.split())
        rules.append(f"{selectors} {{ color: {colour}; }}")
    return "\n".join(rules) + "\n"


def _cleaned(html: str) -> str:
    """Remove all tags and attributes that the allow-lists do not name."""
    return nh3.clean(
        html,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        attribute_filter=_permitted,
        link_rel="noopener noreferrer",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


@cache
def _parser() -> MarkdownIt:
    options = {"html": False, "linkify": True, "highlight": _highlighted}
    parser = MarkdownIt("commonmark", options)
    parser.enable(["table", "strikethrough", "linkify"])
    if parser.linkify is not None:  # whole addresses only: `report.py` is no host
        parser.linkify.set({"fuzzy_link": False, "fuzzy_email": False})
    parser.inline.ruler.at("linkify", _link)
    parser.core.ruler.at("linkify", _link_texts)
    parser.core.ruler.push("tasks", _tasks)
    parser.use(formulas_plugin)
    parser.use(footnote_plugin, inline=False)
    parser.add_render_rule("image", _image_as_link)
    for name, html in FOOTNOTES.items():
        parser.add_render_rule(f"footnote_{name}", lambda *_, html=html: html)
    parser.add_render_rule("footnote_ref", _footnote_number)
    return parser


def _link(state: StateInline, silent: bool) -> bool:  # noqa: FBT001  # as rules are
    """Make a link of an address in a text that is not too long for it.

    As the rule of the package, which searches all text before each `://`.
    """
    finder, start = state.md.linkify, state.pos
    is_address = state.src.startswith("://", start) and not state.linkLevel
    scheme = _SCHEME.search(state.pending[-_SCHEME_LENGTH:]) if is_address else None
    if not scheme or len(state.src) > LINKED_LENGTH or finder is None:
        return False
    begin = start - len(scheme[0])
    found = finder.match_at_start(state.src[begin : begin + LONGEST_ADDRESS])
    address = found.url.rstrip("*") if found else ""
    target = state.md.normalizeLink(address)
    if not address or not state.md.validateLink(target):
        return False
    if not silent:
        state.pending = state.pending.removesuffix(scheme[0])
        opening = state.push("link_open", "a", 1)
        opening.attrs, opening.markup, opening.info = (
            {"href": target},
            "linkify",
            "auto",
        )
        state.push("text", "", 0).content = state.md.normalizeLinkText(address)
        closing = state.push("link_close", "a", -1)
        closing.markup, closing.info = "linkify", "auto"
    state.pos += len(address) - len(scheme[0])
    return True


def _link_texts(state: StateCore) -> None:
    """Make links of the other addresses, in texts that are not too long for it."""
    every = state.tokens
    state.tokens = [
        token
        for token in every
        if token.type == "inline" and len(token.content) <= LINKED_LENGTH
    ]
    linkify(state)
    state.tokens = every


def _tasks(state: StateCore) -> None:
    """Draw the boxes of a task list."""
    for item, _, inline in zip(
        state.tokens, state.tokens[1:], state.tokens[2:], strict=False
    ):
        if item.type == "list_item_open" and inline.type == "inline":
            for text in (inline.children or [])[:1]:
                box = _BOXES.get(text.content[:4].lower())
                if box:
                    text.content = f"{box} {text.content[4:]}"
                    item.attrSet("class", "nbc-task")


def _highlighted(code: str, language: str, _attributes: str) -> str:
    """Render a fenced block; markdown-it inserts text that starts with `<pre` as is."""
    lexer = _lexer(language.lower()) if len(code) <= HIGHLIGHT_LIMIT else None
    inside = (_coloured(code, lexer) if lexer else "") or escape(code)
    name = escape(language.lower())
    return f'<pre class="nbc-code" data-language="{name}"><code>{inside}</code></pre>'


def _coloured(code: str, lexer: Lexer) -> str:
    """Wrap only coloured tokens in spans: a span for each doubles the size of code.

    Empty where it takes too long.
    """
    named = []
    deadline = time.thread_time() + HIGHLIGHT_SECONDS
    for kind, text in lexer.get_tokens(code):
        if time.thread_time() > deadline:
            return ""
        name = STANDARD_TYPES.get(kind)
        named.append((name if name in _COLOURED else "", text))
    runs = groupby(named, key=itemgetter(0))
    joined = ((name, escape("".join(text for _, text in run))) for name, run in runs)
    return "".join(
        f'<span class="{name}">{text}</span>' if name else text for name, text in joined
    )


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    try:
        found = find_lexer_class_by_name(language)
    except ClassNotFound:
        return None
    return found(stripnl=False) if LEXERS & {*found.aliases} else None


def _image_as_link(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any
) -> str:
    token = tokens[index]
    address = str(token.attrs.get("src", ""))
    caption = renderer.renderInlineAsText(token.children or [], options, env)
    label = f"{caption or 'image'} (image at {_host(address)})"
    return f'<a href="{escape(address)}">{escape(label)}</a>'


def _footnote_number(
    _renderer: RendererHTML,
    tokens: Sequence[Token],
    index: int,
    _options: Any,
    _env: Any,
) -> str:
    return f"<sup>{int(tokens[index].meta['id']) + 1}</sup>"


def _host(address: str) -> str:
    try:
        return urlsplit(address).hostname or "no host"
    except ValueError:
        return "no host"


def _permitted(_tag: str, attribute: str, value: str) -> str | None:
    """The attribute's value, or None to drop it; nh3 calls this for each attribute."""
    if attribute == "href":
        is_allowed = value.lower().startswith(LINK_SCHEMES)
    elif attribute in _VALUES:
        is_allowed = value in _VALUES[attribute]
    elif attribute in _SHAPES:
        is_allowed = _SHAPES[attribute].fullmatch(value) is not None
    else:
        is_allowed = attribute in ("target", "rel")
    return value if is_allowed else None
