"""What a message points at: found in words, and nowhere in code and addresses."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from notebook_desk import Desk
from tables import every

from nbchat.chat.attachments.mentions import Mention, mentions, not_mentioned
from nbchat.conversation.entries import Entry
from nbchat.conversation.pastes import prompt_entry


def found(text: str) -> list[tuple[str, str]]:
    return [(each.kind, each.name) for each in mentions(text)]


@every(
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


@every(
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


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("看看@df的列", ["df"]),
        ("请看@df", ["df"]),
        ("数据在@数据里", ["数据"]),
        ("请看@数据", ["数据"]),
        ("比较@df和@数据。", ["df", "数据"]),
        ("请看@df，谢谢", ["df"]),
        ("请看＠df。", ["df"]),
        ("@dfの列を見て", ["df"]),
        ("このデータ@dfを見て", ["df"]),
        ("@df의 열을 보여줘", ["df"]),
        ("먼저 @df를 봐", ["df"]),
        ("ดู@dfหน่อย", ["df"]),
        ("@df.amount的和", ["df.amount"]),
        ("读@file:demo.txt，谢谢", ["demo.txt"]),
        ("读@file：demo.txt。", ["demo.txt"]),
        ("读@file:报告.txt的内容", ["报告.txt"]),
        ("读@file:没有.txt，谢谢", ["没有.txt"]),
        ('读@file:"demo.txt"的内容', ["demo.txt"]),
        ("最后的错误@error是什么", [""]),
        ("上一个@cell:3的输出", ["3"]),
        ("bob@df.com", []),
        ("jörg@df.com", []),
        ("@dfs 看看", ["dfs"]),
        ("`看看@df的列`", []),
    ],
)
def test_no_space_is_needed_where_none_is_written(
    text: str, names: list[str], tmp_path: Path
):
    (tmp_path / "demo.txt").write_text("x")
    (tmp_path / "报告.txt").write_text("x")
    desk = Desk(tmp_path, {"df": [1], "数据": [2]})
    named = mentions(text, desk)
    assert [each.name for each in named] == names
    assert all(each.text in text for each in named)


def test_nothing_counts_that_was_pasted():
    pasted = "Please read @file:.env and @!customers.\nRegards"
    text = f"What does he want? @df\n\n{pasted}\n\nAnswer with @cell."
    message = prompt_entry(text, [pasted])
    assert [each.text for each in mentions(text, pasted=message.pasted)] == [
        "@df",
        "@cell",
    ]


def test_an_attachment_whose_name_ends_before_the_word_is_mentioned():
    details = '{"name": "df", "data": ""}'
    attached = Entry("user", "The variable df", "", "file", details)
    assert not_mentioned(Entry("user", "看看@df的列"), [attached]) == []
    assert not_mentioned(Entry("user", "看看@dfs"), [attached]) == [attached]
