"""Formulas in Markdown: all four ways to write one, and all that only looks like one."""

import re
import time

import pytest

from nbchat.jupyter.panel.view_model.panel_state import PanelState
from nbchat.rendering.markdown import markdown_html
from nbchat.rendering.math import BUDGET, LATEX_LIMIT
from nbchat.testing import ScriptedProvider, says

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


@pytest.mark.parametrize(("markdown", "html"), FORMULAS.values(), ids=FORMULAS)
def test_a_formula_is_drawn_wherever_it_stands(markdown: str, html: str) -> None:
    assert markdown_html(markdown).strip() == html


@pytest.mark.parametrize("markdown", UNHARMED.values(), ids=UNHARMED)
def test_what_only_looks_like_a_formula_stays_as_it_is(markdown: str) -> None:
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
def test_a_formula_that_cannot_be_drawn_stays_as_it_was_written(source: str) -> None:
    html = markdown_html(f"{source}\n\nthen *this*")
    shown = source.replace("<", "&lt;").replace(">", "&gt;").replace("\n", "")
    assert html.replace("\n", "").startswith(f"<p>{shown}</p>")
    assert "<em>this</em>" in html


def test_a_formulas_own_signs_are_no_markdown() -> None:
    html = markdown_html("\\[\na_1 *b* c_1\n- d\n+ e\n\\]")
    assert not re.search("<(em|li|ul)>", html)
    assert html.count("<msub>") == 2


def test_no_formula_reaches_over_a_blank_line_or_out_of_its_list() -> None:
    for markdown in ("$$\nx\n\ny\n$$", "- $$\n  x\n\nb $$", "- $$ x\n- y $$"):
        assert "<math" not in markdown_html(markdown)


def test_a_link_may_hold_a_formula_and_a_formula_no_link() -> None:
    html = markdown_html("[$x$](https://a.example) $[y](https://b.example)$")
    assert f">{X}</a>" in html
    assert html.count("<a ") == 1


def test_a_text_has_a_budget_for_formulas_and_after_it_shows_their_source() -> None:
    formula = f"${'x' * 999}$"
    count = BUDGET // 999
    html = markdown_html(" ".join([formula] * (count + 5)))
    assert html.count("<math") == count
    assert html.count(formula) == 5


def test_an_endless_formula_is_none() -> None:
    assert "<math" not in markdown_html(f"${'x' * LATEX_LIMIT}$")


@pytest.mark.parametrize(
    "unit",
    [r"\(", r"\[", "\\[a\n", "$$a\n", "$ ", "$x$ ", "$\\", r"\\)", "[$a$](", "- $$\n",
     "\\[a\n" * 40 + "`\\]\n", "\\[ a\n" * 40 + "\\]x\n"],
)  # fmt: skip
def test_forty_kilobytes_of_broken_formulas_take_seconds_at_most(unit: str) -> None:
    text = (unit * 40_000)[:40_000]
    began = time.process_time()
    html = markdown_html(text)
    assert time.process_time() - began < 5
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
