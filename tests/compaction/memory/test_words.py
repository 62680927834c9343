import pytest

from nbchat.compaction.memory.words import Words, last_line
from nbchat.conversation.entries import Entry
from nbchat.conversation.pastes import prompt_entry

MUCH = 100_000


def count(text: str) -> int:
    return len(text.split())


def words_of(*entries: Entry) -> Words:
    words = Words()
    for position, entry in enumerate(entries):
        words.read(entry, position)
    return words


def user(text: str) -> Entry:
    return Entry("user", text)


def assistant(text: str) -> Entry:
    return Entry("assistant", text)


def texts(words: Words, budget: int = MUCH, **options: object) -> list[str]:
    return [line.text for line in words.lines(budget, count, **options)]


def test_every_message_of_the_person_is_kept_word_for_word():
    words = words_of(user("Use the median."), user("North counts as East.\nSince May."))
    assert texts(words) == [
        "- Use the median.",
        "- North counts as East.\n  Since May.",
    ]


def test_before_a_short_message_is_the_last_line_of_the_assistants_one():
    words = words_of(
        user("Load it."),
        assistant("There are 14 rows without a region.\n\nShall I drop them?\n\n---"),
        user("Yes"),
        user("and say which"),
    )
    assert texts(words)[1:] == [
        "- (assistant: Shall I drop them?) Yes",
        "- and say which",
    ]


def test_a_long_message_has_no_question_before_it():
    words = words_of(assistant("Shall I?"), user("word " * 40))
    assert "Shall I?" not in texts(words)[0]


def test_messages_of_nbchat_and_results_are_no_words():
    by_nbchat = Entry("user", "answer again", tool_args='{"by": "nbchat"}')
    result = Entry("tool", "42", "c1", "run_cell")
    assert texts(words_of(by_nbchat, result, user(" "))) == []


def test_a_pasted_part_is_shown_by_its_beginning_and_its_position():
    log = "2026-11-29 start of the log " + "x" * 1_000
    words = words_of(user("Hi."), prompt_entry(f"Why?\n{log}\nThanks", [log]))
    (_, line) = texts(words)
    assert line.startswith("- Why?\n  [pasted, 1,028 characters: 2026-11-29 start of")
    assert line.endswith("; 1]\n  Thanks")
    assert len(line) < 300


def test_a_message_that_was_pasted_whole_is_kept_as_it_is():
    ticket = "My card 4711 was declined. " * 12
    assert texts(words_of(prompt_entry(ticket, [ticket]))) == [f"- {ticket.strip()}"]


def test_a_document_is_shown_by_its_beginning_and_its_end():
    words = words_of(user(f"Begin {'word ' * 1_000}and answer in French."))
    (line,) = texts(words)
    assert line.startswith("- Begin word")
    assert " [... 1,005 words; 0] " in line
    assert line.endswith("and answer in French.")
    assert len(line.split()) < 420


def test_an_attachment_is_shown_by_its_caption_and_its_number():
    picture = Entry("user", "fig", "", "image", '{"media_type": "image/png"}')
    assert texts(words_of(user("Look:"), picture)) == ["- Look:", "- [image 1: fig]"]


def test_where_not_all_fit_long_messages_are_cut_before_any_is_left_out():
    words = words_of(user("first " * 60), user("short"), user("last " * 60))
    lines = texts(words, budget=90)
    assert [line.split()[1] for line in lines] == ["first", "short", "last"]
    assert "[... 60 words; 0]" in lines[0]


def test_where_even_that_is_too_much_the_first_and_the_newest_stay():
    words = words_of(*(user(f"message {n}") for n in range(100)))
    lines = texts(words, budget=40)
    assert lines[0] == "- message 0"
    assert lines[-1] == "- message 99"
    assert len(lines) == 10


def test_a_dropped_rule_is_marked_where_it_is_said():
    words = words_of(user("Always answer in German."))
    (line,) = texts(words, dropped=["Always answer in German."])
    assert line == "- Always answer in German. (The user says: no longer a rule.)"


def test_each_line_knows_its_message():
    words = words_of(user("one"), assistant("two"), user("three"))
    assert [line.position for line in words.lines(MUCH, count)] == [0, 2]


@pytest.mark.parametrize("text", ["", "\n\n", "---", "🙂"])
def test_a_text_without_words_has_no_last_line(text: str):
    assert last_line(text) == ""


def test_the_last_line_begins_with_a_whole_word_where_it_has_spaces():
    assert last_line("number " * 40).startswith("number ")
    assert last_line("看" * 300) == "看" * 200


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Which year?\n```python\nprint(1)\n```", "Which year?"),
        ("```python\nprint(1)\n```\nShall I run it?\n", "Shall I run it?"),
        ("```python\nprint(1)\n```", ""),
        ("I'd sum it up.\n```python\nprint(1", "I'd sum it up."),
    ],
)
def test_the_last_line_is_no_code(text: str, line: str):
    assert last_line(text) == line


def test_the_last_line_is_bounded():
    assert last_line("word " * 1_000) == " ".join(["word"] * 40)
