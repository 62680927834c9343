"""Where the pasted parts of a message are."""

import json

from tables import every

from nbchat.conversation.entries import Entry
from nbchat.conversation.pastes import (
    own_text,
    pasted_texts,
    prompt_entry,
    with_changed_text,
    with_hidden_secrets,
)
from nbchat.conversation.secret_masking import HIDDEN
from nbchat.providers.tokens import TokenCounter

MAIL = "Dear Ann,\nnever mention the refund again.\nTom"


def test_a_message_without_a_paste_equals_its_plain_tuple():
    assert prompt_entry("hello") == ("user", "hello", "", "", "")
    assert prompt_entry("hello", ["a text that is not in it"]).pasted == ()


def test_a_paste_is_known_wherever_it_is_in_the_message():
    entry = prompt_entry(f"Is this spam?\n\n{MAIL}\n\nThanks", [f"{MAIL}\n"])
    assert pasted_texts(entry) == [MAIL]
    assert own_text(entry) == "Is this spam?\n\n\n\nThanks"
    assert own_text(prompt_entry(MAIL, [MAIL])) == MAIL


def test_lines_of_windows_are_the_same_lines():
    assert pasted_texts(prompt_entry(MAIL, [MAIL.replace("\n", "\r\n")])) == [MAIL]


def test_what_is_left_of_a_paste_that_was_changed_stays_known():
    pasted = "Never call back. Always use the new account. Best wishes."
    text = "Check this: Always use the new account. Reply in German."
    assert pasted_texts(prompt_entry(text, [pasted])) == ["Always use the new account."]


@every(
    "marks",
    ["[[0]]", '["a"]', "[[3, 1]]", "[[-1, 2]]", "{}", "7", "[[1, 1.5]]", "null"],
)
def test_marks_that_cannot_be_are_ignored(marks):
    assert Entry("user", "text", tool_args=f'{{"pasted": {marks}}}').pasted == ()


def test_marks_that_overlap_count_once():
    marks = json.dumps({"pasted": [[0, 4], [2, 6], [6, 10**30]]})
    assert pasted_texts(Entry("user", "0123456789", tool_args=marks)) == [
        "0123",
        "6789",
    ]


def test_pasted_parts_move_with_a_text_that_is_removed_before_them():
    entry = prompt_entry(f"key 4242 4242\n{MAIL}", [MAIL])
    changed = with_changed_text(entry, lambda text: text.replace("4242 4242", "[x]"))
    assert changed.content == f"key [x]\n{MAIL}"
    assert pasted_texts(changed) == [MAIL]


def test_marks_cost_no_tokens_and_other_content_has_none():
    entry = prompt_entry(MAIL, [MAIL])
    assert TokenCounter().count_entry(entry) == TokenCounter().count_entry(
        Entry("user", MAIL)
    )
    assert entry.with_content("[excluded]") == Entry("user", "[excluded]")


@every(
    ("pasted", "shown"),
    [
        (MAIL, MAIL),
        (f"4711\n{MAIL}", f"{HIDDEN}\n{MAIL}"),
        (f"-secret-4711\n{MAIL}", f"{HIDDEN}\n{MAIL}"),
        ("password: my-secret", f"password: {HIDDEN}"),
        ("password: my-secret-4711\nDear", f"password: {HIDDEN}\nDear"),
    ],
)
def test_pasted_parts_move_with_secrets_that_are_hidden(pasted, shown):
    """A secret that is pasted in part is pasted."""
    entry = prompt_entry(f"The password: my-secret-4711\n{MAIL}", [pasted])
    hidden = with_hidden_secrets(entry)
    assert hidden.content == f"The password: {HIDDEN}\n{MAIL}"
    assert pasted_texts(hidden) == [shown]


def test_a_secret_that_was_pasted_in_two_parts_is_pasted_once():
    entry = Entry(
        "user", "password: abcd-4711 yes", tool_args='{"pasted": [[0, 13], [15, 23]]}'
    )
    assert pasted_texts(with_hidden_secrets(entry)) == [f"password: {HIDDEN} yes"]


def test_a_message_without_a_secret_stays_as_it_is():
    entry = prompt_entry(f"Is this spam?\n{MAIL}", [MAIL])
    assert with_hidden_secrets(entry) is entry
