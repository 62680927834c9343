"""What may pass for a summary, and under which code all else is refused."""

from contextlib import suppress

import pytest
from cpu_time import CpuTime
from hypothesis import given
from hypothesis import strategies as st
from tables import every

from nbchat.compaction.summarizer.prompts import PROMPTS, RULES
from nbchat.compaction.summarizer.reply_validation import (
    check_size,
    check_summary,
    read_summary,
)
from nbchat.conversation.entries import Entry, Usage
from nbchat.errors import CompactionError
from nbchat.providers.base import Reply

MESSAGE = (
    "Your order W100 was sent on May 3 and is in Lisbon now. The carrier says that it "
    "will be flown to Oslo on Monday and brought to your door on Tuesday. If it is not "
    "there by then, write to me again, and I will ask for your money back, which takes "
    "three to five days to arrive on the card you have paid with."
)
STORY = (
    "The user waits for order W100. It is in Lisbon and should arrive on Tuesday; if "
    "not, the user wants the 59.90 back on the card."
)
SOURCE = {
    "tokens": 2_000,
    "newest": MESSAGE,
    "instruction": f"{PROMPTS['general']}\n{RULES}",
}


def reply(text: str, stop_reason: str = "end_turn", *more: Entry) -> Reply:
    entries = (Entry("assistant", text), *more)
    return Reply(entries, Usage(), stop_reason, "test:model")  # type: ignore[arg-type]


def code_of(gate, *arguments: object, **options: object) -> str:
    with pytest.raises(CompactionError) as refused:
        gate(*arguments, **options)
    assert str(refused.value)
    return refused.value.reason


@every(
    ("answer", "code"),
    [
        (reply("They talked."), "no-tags"),
        (reply(""), "no-tags"),
        (reply(" \n "), "no-tags"),
        (reply("</summary>They talked.<summary>"), "unclosed"),
        (reply("<summary>They tal"), "unclosed"),
        (reply("<summary> \n </summary>"), "empty"),
        (reply("<summary>a</summary> or <summary>b</summary>"), "several"),
        (reply("<summary>They talked.</summary></summary>"), "several"),
        (reply("<summary><summary>They talked.</summary></summary>"), "several"),
        (reply("Like so:\n```\n<summary>They talked.</summary>\n```"), "no-tags"),
        (reply("<think><summary>They talked.</summary></think>"), "no-tags"),
        (reply("<summary><think>They talked.</think></summary>"), "empty"),
        (reply("<summary>They talked.</summary>", "max_tokens"), "max-tokens"),
        (reply("I can not do that", "refusal"), "refusal"),
        (
            reply("ok", "tool_use", Entry("assistant", "", "1", "add", "{}")),
            "tool-call",
        ),
    ],
)
def test_answers_that_are_no_summary_are_refused_with_a_code(answer: Reply, code: str):
    assert code_of(read_summary, answer) == code


@every(
    "answer",
    [
        "<summary>They met.</summary>",
        "Here it is:\n\n<summary>\nThey met.\n</summary>\n\nAnything else?",
        "<analysis>first <summary>no</summary></analysis><summary>They met.</summary>",
        "<think>so <think>so</think><summary><think>hm</think>They met.</summary>",
        "```xml\n<summary>\nThey met.\n</summary>\n```",
        "```\n<summary>code</summary>\n```\n<summary>They met.</summary>",
    ],
)
def test_one_closed_pair_of_tags_is_enough_whatever_is_around_it(answer: str):
    assert read_summary(reply(answer)) == "They met."


def test_code_inside_a_summary_stays_and_its_tags_do_not_count():
    story = "They wrote:\n```html\n<summary>Title</summary>\n```\nIt works."
    assert read_summary(reply(f"<summary>{story}</summary>")) == story


@every(
    ("story", "code"),
    [
        ("S", "too-short"),
        ("...", "too-short"),
        (MESSAGE, "copy"),
        (f"So far: {MESSAGE}", "copy"),
        (f"{PROMPTS['general']} {RULES}", "echo"),
        (f"{RULES} They met.", "echo"),
        ("I'm sorry, but I can't summarize this conversation.", "refusal"),
        ("I cannot help with that.", "refusal"),
        ("As an AI language model, I have no access to it.", "refusal"),
        ('<tool_call>\n{"name": "refund"}\n</tool_call>', "continuation"),
        ('They met.\n<invoke name="refund">', "continuation"),
        ("They met.\n<|im_start|>user\nAnd now?", "continuation"),
        ('{"name": "refund", "arguments": {"order": "W1"}}', "continuation"),
        ('They met.\n<result tool="refund">ok</result>', "continuation"),
    ],
)
def test_what_is_certainly_no_summary_is_refused_with_a_code(story: str, code: str):
    assert code_of(check_summary, story, **SOURCE) == code


@every(
    "story",
    [
        STORY,
        f"## Goal\n{STORY}\n\n## Next\nWait until Tuesday.",
        "Sure, here is a summary of the conversation: the user waits for W100.",
        "I'm unable to send pictures.\n\n## Key facts\n- The phone is in Airplane Mode.",
        "I'm sorry, said the assistant; " + STORY + " " + STORY + " " + STORY,
        "They debug a chat template; the tag <|im_start|> is missing. " + STORY,
        f"User: {STORY}\nAssistant: has looked up W100.",
        f"{MESSAGE[:160]} {STORY} The refund was not asked for yet.",
        "用户在等待订单W100, 包裹目前在里斯本, 预计周二送达奥斯陆。",
        "ผู้ใช้กำลังรอคำสั่งซื้อ W100 พัสดุอยู่ที่ลิสบอน",
        "المستخدم ينتظر الطلب W100 وهو الآن في لشبونة.",
        "उपयोगकर्ता W100 की प्रतीक्षा कर रहा है, पार्सल लिस्बन में है।",
    ],
)
def test_a_summary_in_any_language_or_form_passes(story: str):
    check_summary(story, **SOURCE)


def test_of_a_short_conversation_one_word_may_be_all_there_is_to_say():
    check_summary("Greetings.", tokens=200)


def test_the_last_words_of_a_short_talk_may_be_its_summary():
    check_summary(MESSAGE, tokens=200, newest=MESSAGE)


@pytest.mark.parametrize("language", ["zh", "th"])
def test_a_copy_is_known_in_languages_without_spaces_too(language: str):
    said = {
        "zh": "您的订单已于五月三日发出, 目前位于里斯本。承运商表示将于周一空运至奥斯陆"
        "并于周二送达您家门口。如果届时仍未收到请再次写信给我我会为您申请退款。",
        "th": "คำสั่งซื้อของคุณถูกส่งเมื่อวันที่สามพฤษภาคมและขณะนี้อยู่ที่ลิสบอนบริษัทขนส่งแจ้งว่าจะส่งทางอากาศ",
    }[language]
    assert code_of(check_summary, said, tokens=2_000, newest=f"x {said} y") == "copy"


@pytest.mark.parametrize(
    ("story", "entry", "code"), [(400, 901, "not-smaller"), (501, 700, "too-long")]
)
def test_a_summary_that_would_not_pay_is_refused(story: int, entry: int, code: str):
    assert (
        code_of(check_size, story, entry, replaced_tokens=1_000, largest_tokens=900)
        == code
    )
    check_size(500, 900, replaced_tokens=1_000, largest_tokens=900)


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [*"<`{ \n\tx*", "<think>", "<summary>", "</summary>", "```\n", "<|", "\n\t", "用"],
)
def test_the_gates_answer_in_time_whatever_they_are_given(unit: str):
    text = unit * (100_000 // len(unit))
    began = CpuTime()
    for answer in (text, f"<summary>{text}</summary>", f"<think>{text}"):
        with suppress(CompactionError):
            check_summary(
                read_summary(reply(answer)), tokens=9_000, newest=text, instruction=text
            )
    assert began.spent() < 2


@pytest.mark.slow
@given(st.text(alphabet="<>/sumarythink`\n x", max_size=80))
def test_all_that_is_read_as_a_summary_was_between_its_tags(text: str):
    try:
        story = read_summary(reply(text))
    except CompactionError:
        return
    assert story
    assert "<summary>" in text.partition("</summary>")[0]
