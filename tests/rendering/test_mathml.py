"""LaTeX as MathML: what can be drawn is drawn, within bounds; the rest is refused."""

import time

import pytest

from nbchat.rendering.math import DEPTH_LIMIT, GROWTH_LIMIT, LATEX_LIMIT, mathml

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


@pytest.mark.parametrize("latex", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_drawn_whole_is_refused_at_once(latex: str) -> None:
    mathml("x", is_block=False)
    began = time.process_time()
    assert mathml(latex, is_block=False) is None
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
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
def test_a_formula_is_drawn_by_elements(latex: str, html: str) -> None:
    assert mathml(latex, is_block=False) == f"<math>{html}</math>"


@pytest.mark.parametrize(
    "name", ["aligned", "align*", "gathered", "cases", "dcases", "pmatrix", "split"]
)
def test_rows_and_columns_are_a_table(name: str) -> None:
    html = mathml(rf"\begin{{{name}}} a & b \\ c & d \end{{{name}}}", is_block=True)
    assert html
    assert html.count("<mtr>") == 2
    assert '<math display="block">' in html


def test_sums_of_a_block_have_their_limits_above_and_below() -> None:
    assert "<munderover>" in (mathml(r"\sum_{i=1}^n i", is_block=True) or "")


@pytest.mark.parametrize("unit", ["x", "[", "|", r"\sum_a^b", "x_", r"\text{a}", "&"])
def test_the_longest_formula_takes_little_time_and_room(unit: str) -> None:
    latex = (unit * LATEX_LIMIT)[:LATEX_LIMIT]
    mathml("x", is_block=False)
    began = time.process_time()
    html = mathml(latex, is_block=True) or ""
    assert time.process_time() - began < 2
    assert len(html) <= GROWTH_LIMIT * (LATEX_LIMIT + 10)
