"""The middle tier: a line for each exchange that says the answer."""

import pytest

from nbchat.agent.agent import Agent
from nbchat.compaction.facts.exchanges import EXCHANGES_TITLE, exchange_lines, gist
from nbchat.compaction.summary_format import summary_facts
from nbchat.conversation.entries import Entry
from nbchat.providers.tokens import TokenCounter
from nbchat.testing import ScriptedProvider, calls, says

COUNTER = TokenCounter()


def compensation(number: int) -> tuple[Entry, Entry]:
    asked = (
        f"Question {number}: what is the total compensation of executive no. {number}?"
    )
    filler = "As the proxy statement explains at some length, boards decide on pay. "
    said = f"{filler}The total was ${1_000_000 + number:,} in 2023. {filler * 3}"
    return Entry("user", asked), Entry("assistant", said)


@pytest.mark.parametrize("budget", [4_000, 1_700, 1_300, 300])
def test_every_line_says_which_question_it_was_and_its_answer(budget: int):
    entries = [entry for number in range(40) for entry in compensation(number)]
    lines = [x for x in exchange_lines(entries, 40, budget, COUNTER) if x[:2] == "- "]
    assert lines
    newest = range(40 - len(lines), 40)
    for number, line in zip(newest, lines, strict=True):
        assert f"{number}?" in line
        assert f"${1_000_000 + number:,}" in line
    assert budget == 300 or len(lines) == 40


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("Yes.", "Yes."),
        ("Gladly! I looked it up for you. It is 42 pounds.", "It is 42 pounds."),
        ("That depends on many things. Oh, well, who knows.", "That depends on many…"),
        ("Gladly, as you asked. Very much it is, like this.", "Very much it is, like…"),
        ("# Result\n\n- **Paid** by Ann Lee\n- nothing else", "Paid** by Ann Lee"),
        (
            "ご確認しました。合計は4200円です。以上でよろしいでしょうか。",
            "合計は4200円です。",
        ),
    ],
)
def test_the_sentence_with_new_values_is_what_is_kept(answer: str, said: str):
    assert gist(answer, "How much is it?", 22) == said


def test_of_a_long_sentence_the_part_with_its_values_is_kept():
    long = "Considering " + "all of the many " * 9 + "things the sum is 4711 euros."
    assert gist(long, "How much?", 40) == "…the sum is 4711 euros."


def test_what_the_question_names_is_no_answer():
    answer = "Order W1 and item A5 are what you asked about. It was sent on May 5."
    assert gist(answer, "Where is item A5 of Order W1?", 30) == "It was sent on May 5."


def test_the_number_of_an_item_is_no_answer():
    answer = "Three kinds of cells: 1. A code cell holds Python. 2. A raw cell is kept."
    assert "Python" in gist(answer, "What is a cell?", 60)


LONG = "It is explained at length, with a picture and with a word of advice. " * 4
ASKED = (
    "Why does the parser break?",
    "How large is a widget?",
    "Who wrote the kernel?",
)


def facts_beside(story: str, *, first: tuple = ()) -> list[str]:
    """The facts of a talk about ASKED that a model summarized by a story."""
    answers = [says(f"{LONG}{number}") for number in range(len(ASKED))]
    model = ScriptedProvider(*first, *answers, says(f"<summary>{story}</summary>"))
    agent = Agent(model, tools=[look_up] if first else [])
    for question in ASKED:
        agent.ask(question)
    list(agent.compact(keep=0))
    return summary_facts(agent.session.history[0].content)


def look_up(name: str) -> str:
    """Look something up."""
    return f"{name} is there"


def test_beside_a_poor_summary_of_a_talk_a_line_says_what_else_was_asked():
    lines = "\n".join(facts_beside("They asked why the parser breaks."))
    assert "parser" not in lines
    assert "- How large is a widget? → " in lines
    assert "- Who wrote the kernel? → " in lines


def test_what_a_summary_mentions_is_not_said_again():
    story = (
        "They asked why the parser breaks, how large a widget is, who wrote the kernel."
    )
    assert EXCHANGES_TITLE not in facts_beside(story)


def test_where_tools_were_called_the_rows_keep_their_space():
    lines = facts_beside("They talked.", first=(calls("look_up", name="W-100"),))
    assert EXCHANGES_TITLE not in lines


def test_what_is_said_after_a_colon_is_no_name():
    story = "They asked why the parser breaks."
    answers = [says(f"Analysis: This shows the Fourier form. {LONG}")] * 3
    agent = Agent(ScriptedProvider(*answers, says(f"<summary>{story}</summary>")))
    for question in ASKED:
        agent.ask(question)
    list(agent.compact(keep=0))
    named = "\n".join(summary_facts(agent.session.history[0].content)).splitlines()
    assert "Fourier" in named[named.index("Also named:") + 1]
    assert "This" not in named[named.index("Also named:") + 1]
