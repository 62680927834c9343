"""What code keeps beside the ledger: rules, artifacts, a line an exchange, imports."""

from nbchat.compaction.facts.exchanges import exchange_lines
from nbchat.compaction.facts.facts import kept_sections
from nbchat.compaction.facts.quotes import Quote
from nbchat.compaction.facts.rules import TITLE
from nbchat.compaction.policies import PRESETS, Policy
from nbchat.conversation.entries import Entry
from nbchat.providers.tokens import TokenCounter

COUNTER = TokenCounter()


def user(text: str) -> Entry:
    return Entry("user", text)


def answer(text: str) -> Entry:
    return Entry("assistant", text)


def test_an_exchange_is_one_line_with_the_tools_it_took():
    entries = [
        user("Where is\n order W100?"),
        Entry("assistant", "", "1", "find_order", "{}"),
        Entry("tool", "shipped", "1", "find_order"),
        answer("It was shipped on May 3."),
    ]
    assert exchange_lines(entries, 40, 200, COUNTER)[1:] == [
        "- Where is order W100? [find_order] → It was shipped on May 3."
    ]


def test_a_question_asked_again_has_one_line_with_the_newest_answer():
    entries = [
        user("Where is it?"),
        answer("On its way."),
        user("And the bill?"),
        answer("Paid."),
        user("Where is it"),
        answer("It has arrived."),
    ]
    assert exchange_lines(entries, 40, 200, COUNTER)[1:] == [
        "- And the bill? → Paid.",
        "- Where is it (asked 2 times) → It has arrived.",
    ]


def test_only_the_newest_exchanges_get_a_line():
    entries = [each for n in range(9) for each in (user(f"question {n}"), answer("a"))]
    lines = exchange_lines(entries, 3, 500, COUNTER)
    assert [line[2:12] for line in lines[1:]] == [
        "question 6",
        "question 7",
        "question 8",
    ]


def test_each_policy_gets_the_sections_it_asks_for():
    entries = [user("Never pay. See /a/b/c.txt"), answer("ok")]
    sections = {
        name: "\n".join(kept_sections(entries, PRESETS[name], 500, COUNTER))
        for name in ("single-summary", "tiered", "recent-messages", "early")
    }
    assert sections["single-summary"] == f'{TITLE}\n- "Never pay."'
    assert "a line each" in sections["tiered"]
    assert "/a/b/c.txt" in sections["recent-messages"]
    assert all('- "Never pay."' in text for text in sections.values())


def test_the_quotes_that_are_in_force_may_be_given():
    entries = [user("Never pay by card. Always ask me first."), answer("ok")]
    quotes = [Quote("Always ask me first.", 0)]
    lines = kept_sections(entries, Policy("x"), 400, COUNTER, quotes=quotes)
    assert lines == [TITLE, '- "Always ask me first."']
    assert len(kept_sections(entries, Policy("x"), 400, COUNTER)) == 3


def test_facts_that_came_with_an_imported_summary_are_kept():
    content = "<summary>\nold story\n</summary>\n<facts>\n#W1 delivered\n</facts>"
    lines = kept_sections([Entry("summary", content)], Policy("x"), 400, COUNTER)
    assert lines == ["From another session:", "#W1 delivered"]
