"""What a message points at: found in words, and nowhere in code and addresses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbchat.chat.attachments.mentions import Mention, mentions


def found(text: str) -> list[tuple[str, str]]:
    return [(each.kind, each.name) for each in mentions(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What is in @df?", [("variable", "df")]),
        ("@df", [("variable", "df")]),
        ("compare (@a), @b.", [("variable", "a"), ("variable", "b")]),
        ("@größe", [("variable", "größe")]),
        ("@df's columns", [("variable", "df")]),
        ("see @cell, @cell:3 and @error", [("cell", ""), ("cell", "3"), ("error", "")]),
        ("@cell:three", [("cell", "three")]),
        ("read @file:data/a.csv.", [("file", "data/a.csv")]),
        ('read @file:"my notes.txt", now', [("file", "my notes.txt")]),
        ("@image:plot.png and @image:fig!", [("image", "plot.png"), ("image", "fig")]),
        ("@file: nothing", [("file", "")]),
        ("@a\n@b\n\nHow?", [("variable", "a"), ("variable", "b")]),
        ("@cells and @errors", [("variable", "cells"), ("variable", "errors")]),
    ],
)
def test_a_name_after_an_at_sign_is_a_mention(text: str, expected: list[object]):
    assert found(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "write to ann@example.org",
        "https://example.org/@ann",
        "npm install @scope/package",
        "git@github.com:a/b",
        "@cache()",
        "@cache\ndef f(): ...",
        "Like this:\n  @df\n  @error\n  async def f(): ...",
        "see `@df` and\n```python\n@df\n```\nthere",
        "```\n@df",
        "/pin look at @df",
        "@ df",
        "@1",
        "a@@b",
    ],
)
def test_addresses_decorators_code_and_commands_are_not_mentions(text: str):
    assert mentions(text) == []


def test_a_mention_keeps_its_text_as_typed():
    text = 'See @file:"a b.txt", @file:c.txt), @cell:3.'
    assert [each.text for each in mentions(text)] == [
        '@file:"a b.txt"',
        "@file:c.txt",
        "@cell:3",
    ]


def test_two_equal_mentions_are_one():
    assert found("@df and @df and @cell") == [("variable", "df"), ("cell", "")]


@pytest.mark.slow
@given(st.text(alphabet='@cell:filemage/. `\n"x\ud8003(', max_size=60))
def test_any_text_can_be_read(text: str):
    for mention in mentions(text):
        assert mention.text in text
        assert mention.text.startswith("@")


@pytest.mark.slow
def test_a_very_long_text_is_read_quickly():
    text = "@a\n" * 100_000 + "@" * 100_000 + "`" * 100_001
    assert mentions(text) == [Mention("variable", "a", "@a")]
