"""Formulas: all four ways to write one, text that only looks like one, and MathML."""

import re

import pytest
from cpu_time import CpuTime
from tables import every

from nbchat.jupyter.panel.panel_state import PanelState
from nbchat.rendering.markdown import markdown_html
from nbchat.rendering.math import (
    BUDGET,
    DEPTH_LIMIT,
    GROWTH_LIMIT,
    LATEX_LIMIT,
    mathml,
)
from nbchat.testing import ScriptedProvider, says

pytestmark = pytest.mark.usefixtures("garbage_kept")

X = "<math><mi>x</mi></math>"
BLOCK_X = '<math display="block"><mi>x</mi></math>'

FORMULAS = {
    "in the text": ("so $x$ is", f"<p>so {X} is</p>"),
    "in round brackets": (r"so \(x\) is", f"<p>so {X} is</p>"),
    "in square brackets": (r"so \[ x \] is", f"<p>so {BLOCK_X} is</p>"),
    "in two dollars": ("so $$x$$ is", f"<p>so {BLOCK_X} is</p>"),
    "a block": ("$$\nx\n$$", f"<p>{BLOCK_X}</p>"),
    "a block in brackets": ("\\[\nx\n\\]", f"<p>{BLOCK_X}</p>"),
    "a block on one line": ("$$x$$", f"<p>{BLOCK_X}</p>"),
    "a block after a paragraph": (
        "a\n$$\nx\n$$\nb",
        f"<p>a</p>\n<p>{BLOCK_X}</p>\n<p>b</p>",
    ),
    "a block in a quote": (
        "> $$\n> x\n> $$",
        f"<blockquote>\n<p>{BLOCK_X}</p>\n</blockquote>",
    ),
    "a block in a list": (
        "- \\[\n  x\n  \\]",
        f"<ul>\n<li>\n<p>{BLOCK_X}</p>\n</li>\n</ul>",
    ),
    "strong": ("**$x$**", f"<p><strong>{X}</strong></p>"),
    "in a heading": ("# $x$", f"<h1>{X}</h1>"),
    "in a sentence in Chinese": ("设$x$为", f"<p>设{X}为</p>"),
    "a count": ("the $x$th", f"<p>the {X}th</p>"),
    "after a bracket that stays open": (r"\(a \(x\)", f"<p>(a {X}</p>"),
    "before a stop": (r"\(x\), $x$.", f"<p>{X}, {X}.</p>"),
}

UNHARMED = {
    "code": "`$x$` and `\\(x\\)`",
    "a fence": "```bash\necho $HOME$PATH \\[x\\] $$\n```",
    "indented code": "    $$\n    x\n    $$",
    "prices": "$5 and $10, $1,000 or $2,000; US$5/US$10; $5-$10; $5/month or 50$",
    "prices around words": "$5 (not 6$) and from $3 to 4$",
    "shell variables": "$HOME/$USER, ${A}${B}, $(a)$(b), $$ and $$, $1 $2, $PATH:$HOME",
    "regular expressions": r"^\d+$ and ^a+$|^b+$, (a)$|(b)$, foo$|bar$",
    "paths": r"C:\Users\me and D:\(x\)",
    "what Perl and PHP say": "$a->b($c); s/$a/$b/; $.get($('#x'))",
    "dollars around code": "$x, use `cut -d$` here",
    "one dollar": "a $ b $ c",
    "escaped dollars": r"\$x\$",
    "nothing between": "$$ $$ and $$$$",
}

ESCAPES = {
    r"\(see below\)": "(see below)",
    r"\[1\] and \[a-z\]": "[1] and [a-z]",
    r"\(.+\)": "(.+)",
    r"a\(x\)": "a(x)",
}


@every(("markdown", "html"), FORMULAS.values())
def test_a_formula_becomes_mathml_wherever_it_occurs(markdown: str, html: str) -> None:
    assert markdown_html(markdown).strip() == html


@every("markdown", UNHARMED.values())
def test_text_that_only_looks_like_a_formula_stays_text(markdown: str) -> None:
    html = markdown_html(markdown)
    assert "<math" not in html
    assert html.count("$") == markdown.count("$")


@pytest.mark.parametrize(("markdown", "text"), ESCAPES.items())
def test_brackets_around_words_are_brackets(markdown: str, text: str) -> None:
    assert markdown_html(markdown) == f"<p>{text}</p>\n"


@pytest.mark.parametrize(
    "source",
    [r"$\foo{x}_a*b*$", r"\(\d{3}\)", r"$\frac{1}{2$", "$$\n\\unknown{<b>}\n$$"],
)
def test_a_formula_that_cannot_be_converted_shows_its_source(source: str) -> None:
    html = markdown_html(f"{source}\n\nthen *this*")
    shown = source.replace("<", "&lt;").replace(">", "&gt;").replace("\n", "")
    assert html.replace("\n", "").startswith(f"<p>{shown}</p>")
    assert "<em>this</em>" in html


def test_characters_of_a_formula_are_no_markdown() -> None:
    html = markdown_html("\\[\na_1 *b* c_1\n- d\n+ e\n\\]")
    assert not re.search("<(em|li|ul)>", html)
    assert html.count("<msub>") == 2


def test_no_formula_reaches_over_a_blank_line_or_out_of_its_list() -> None:
    for markdown in ("$$\nx\n\ny\n$$", "- $$\n  x\n\nb $$", "- $$ x\n- y $$"):
        assert "<math" not in markdown_html(markdown)


def test_a_link_may_contain_a_formula_and_a_formula_no_link() -> None:
    html = markdown_html("[$x$](https://a.example) $[y](https://b.example)$")
    assert f">{X}</a>" in html
    assert html.count("<a ") == 1


@pytest.mark.slow
def test_a_text_has_a_budget_for_formulas_and_after_it_shows_their_source() -> None:
    formula = f"${'x' * 999}$"
    count = BUDGET // 999
    html = markdown_html(" ".join([formula] * (count + 5)))
    assert html.count("<math") == count
    assert html.count(formula) == 5


def test_a_formula_without_an_end_is_text() -> None:
    assert "<math" not in markdown_html(f"${'x' * LATEX_LIMIT}$")


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [r"\(", r"\[", "\\[a\n", "$$a\n", "$ ", "$x$ ", "$\\", r"\\)", "[$a$](", "- $$\n",
     "\\[a\n" * 40 + "`\\]\n", "\\[ a\n" * 40 + "\\]x\n"],
)  # fmt: skip
def test_forty_kilobytes_of_broken_formulas_take_seconds_at_most(unit: str) -> None:
    text = (unit * 40_000)[:40_000]
    began = CpuTime()
    html = markdown_html(text)
    assert began.spent() < 5
    assert len(html) < 10 * len(text)


def test_while_it_streams_a_formula_is_text_until_its_block_ends() -> None:
    from nbchat.agent.agent import Agent
    from nbchat.conversation.events import TextDelta

    state = PanelState()
    for piece in ("Let ", "$x$", " be\n"):
        state.fold(TextDelta(piece))
    assert state.snapshot()["live"]["assistant"] == {
        "html": "",
        "text": "Let $x$ be\n",
    }
    state.fold(TextDelta("\nthen"))
    live = state.snapshot()["live"]["assistant"]
    assert live == {"html": f"<p>Let {X} be</p>\n", "text": "then"}
    agent = Agent(ScriptedProvider(says("Let $x$ be")))
    for event in agent.run("go"):
        state.fold(event)
    assert X in state.snapshot()["items"][-1]["html"]


LAUGHS = "".join(
    rf"\def\{name}{{" + rf"\{into}" * 10 + "}"
    for name, into in zip("abcdefgh", "bcdefghi", strict=True)
)

REFUSED = {
    "an unknown command": r"\foo{x}",
    "a regular expression": r"\d{3}",
    "an unknown environment": r"\begin{tikzcd} A & B \end{tikzcd}",
    "an open brace": r"\frac{1}{2",
    "a brace too many": r"x}{y",
    "an argument that is missing": r"\frac",
    "left without right": r"\left( x",
    "two subscripts": "a_1_2",
    "a link": r"\href{javascript:alert(1)}{x}",
    "a style": r"\style{background:url(https://evil.example)}{x}",
    "a class": r"\class{nbc-send}{x}",
    "a character by its number": r"\unicode{x3c}",
    "a macro": r"\newcommand{\a}{x}\a",
    "a macro in TeX's own words": r"\def\a{x}\a",
    "an operator of one's own": r"\DeclareMathOperator{\a}{x}\a",
    "an environment of one's own": r"\newenvironment{a}{x}{y}\begin{a}z\end{a}",
    "ten macros that stand for a hundred million letters": rf"{LAUGHS}\a",
    "too much": "x" * (LATEX_LIMIT + 1),
    "too deep": r"\sqrt{" * (DEPTH_LIMIT + 1) + "x" + "}" * (DEPTH_LIMIT + 1),
    "deeper than Python goes": "{" * 1_900 + "x" + "}" * 1_900,
    "what grows too much": r"\TeX" * 500,
}


@pytest.mark.slow
@pytest.mark.parametrize("latex", REFUSED.values(), ids=REFUSED)
def test_unsupported_formulas_are_refused_at_once(latex: str) -> None:
    mathml("x", is_block=False)
    began = CpuTime()
    assert mathml(latex, is_block=False) is None
    assert began.spent() < 1


@every(
    ("latex", "html"),
    [
        ("x^2", "<msup><mi>x</mi><mn>2</mn></msup>"),
        (r"\frac{a}{b}", "<mfrac><mi>a</mi><mi>b</mi></mfrac>"),
        (r"\mathbb{R}", "<mi>\N{DOUBLE-STRUCK CAPITAL R}</mi>"),
        ("a<b", "<mrow><mi>a</mi><mo>&lt;</mo><mi>b</mi></mrow>"),
        (r"\boxed{x}", '<menclose notation="box"><mi>x</mi></menclose>'),
        ("50%", "<mrow><mn>50</mn><mi>%</mi></mrow>"),
        (r"x\label{eq:1}", "<mi>x</mi>"),
        (r"\text{<b>&amp;</b>}", "<mtext>&lt;b&gt;&amp;&lt;/b&gt;</mtext>"),
    ],
)
def test_a_formula_becomes_elements(latex: str, html: str) -> None:
    assert mathml(latex, is_block=False) == f"<math>{html}</math>"


@every("name", ["aligned", "align*", "gathered", "cases", "dcases", "pmatrix", "split"])
def test_rows_and_columns_are_a_table(name: str) -> None:
    html = mathml(rf"\begin{{{name}}} a & b \\ c & d \end{{{name}}}", is_block=True)
    assert html
    assert html.count("<mtr>") == 2
    assert '<math display="block">' in html


def test_sums_of_a_block_have_their_limits_above_and_below() -> None:
    assert "<munderover>" in (mathml(r"\sum_{i=1}^n i", is_block=True) or "")


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["x", "[", "|", r"\sum_a^b", "x_", r"\text{a}", "&"])
def test_the_longest_formula_takes_little_time_and_space(unit: str) -> None:
    latex = (unit * LATEX_LIMIT)[:LATEX_LIMIT]
    mathml("x", is_block=False)
    began = CpuTime()
    html = mathml(latex, is_block=True) or ""
    assert began.spent() < 2
    assert len(html) <= GROWTH_LIMIT * (LATEX_LIMIT + 10)
