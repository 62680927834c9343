"""A secret is hidden in a whole message, so that no part of it is quoted bare."""

import json
import tracemalloc

import pytest
from tables import every

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.memory.memory import MaskedEntries, masked
from nbchat.compaction.policies import PRESETS
from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.pastes import prompt_entry
from nbchat.conversation.secret_masking import HIDDEN
from nbchat.conversation.session import Session
from nbchat.testing import ScriptedProvider, says

pytestmark = pytest.mark.usefixtures("garbage_kept")

POLICIES = [name for name in PRESETS if name != "off"]

LINES = [
    "MIIEowIBAAKCAQEAx7Kq2mVb9Zt",
    "pQ4sT8uW1yE5rI3oL6kJ0hG2fD",
    "zXcVbNm4321LkJhGfDsA9876qW",
]
KEY = "\n".join(
    ["-----BEGIN RSA PRIVATE KEY-----", *LINES, "-----END RSA PRIVATE KEY-----"]
)
WORD = "Tr0ub4dor-XY77"
TALK = [
    Entry("user", "Where is order W0000002?"),
    Entry("assistant", "It is on its way to you in Hamburg. " * 400),
]


def compaction_of(*entries: Entry, policy: str) -> Compaction:
    session = Session([*TALK, *TALK, *entries, Entry("assistant", "All right.")])
    told = says("<summary>They talked about two orders.</summary>")
    provider = ScriptedProvider(*[told] * 4, window=64_000)
    engine = CompactionEngine(policy=policy)
    list(Agent(provider, engine=engine, session=session).compact(keep=0))
    return session.compactions[-1]


def answered(text: str) -> list[Entry]:
    return [Entry("user", "Tell me about W0000001."), Entry("assistant", text)]


def returned(text: str) -> list[Entry]:
    return [
        Entry("user", "Look it up."),
        Entry("assistant", "", "c7", "get_order", '{"order_id": "W0000001"}'),
        Entry("tool", text, "c7", "get_order"),
        Entry("assistant", "Found."),
    ]


def in_arguments(text: str) -> list[Entry]:
    asked = json.dumps({"order_id": "W0000001", "note": text})
    return [
        Entry("user", "Note it down."),
        Entry("assistant", "", "c7", "update_order", asked),
        Entry("tool", "done", "c7", "update_order"),
    ]


def in_json(text: str) -> list[Entry]:
    return returned(json.dumps({"order_id": "W0000001", "note": text}))


def pasted(text: str) -> list[Entry]:
    return [prompt_entry(f"Look at this:\n{text}\nWhat is wrong?", [text])]


def said(text: str) -> list[Entry]:
    return [Entry("user", text)]


PLACES = [said, pasted, answered, returned, in_json, in_arguments]

TEXTS = {
    "a password in a sentence": f"The database password: {WORD} belongs to W0000001.",
    "a password below its name": f"It is for W0000001.\npassword:\n{WORD}\nUse it.",
    "a rule with a password": f"Never give the password:\n{WORD}\nto others of W0000001.",
    "a password in quotes": f'Set this for W0000001: "password": "{WORD}".',
    "a private key": f"Deploy W0000001 with this key:\n{KEY}\nIs that enough?",
    "a password far down": "About the order W0000001. " * 300
    + f"password:\n{WORD}\nUse it for W0000001, please?",
    "a key where a line is cut": "x" * 138 + " sk-ant-api03-a1B2c3D4a1B2c3D4 W0000001",
}


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["single-summary", "tiered", "extractive"])
@pytest.mark.parametrize("place", PLACES)
def test_no_part_of_a_secret_is_quoted(policy, place):
    for name, text in TEXTS.items():
        record = compaction_of(*place(text), policy=policy)
        shown = f"{record.summary}\n{record.facts}\n{record.memory}\n{record.rules}"
        assert "W000000" in shown, name
        for part in (WORD, "a1B2c3D4", *LINES):
            assert part not in shown, name


@every("policy", POLICIES)
def test_a_word_that_was_a_password_once_stays_elsewhere(policy):
    talk = [
        *said("The password: Hamburg4711 is for W0000001."),
        *answered("I wrote to Hamburg4711 about W0000001."),
    ]
    record = compaction_of(*talk, policy=policy)
    assert "Hamburg4711" in record.summary
    assert "password: Hamburg4711" not in record.summary


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("place", [answered, said, pasted])
def test_the_words_for_a_hidden_value_are_no_value(policy, place):
    key = "sk-ant-api03-a1B2c3D4a1B2c3D4"
    record = compaction_of(*place(f'Use "{key}" for "W0000001".'), policy=policy)
    assert "W0000001" in record.summary
    assert key not in f"{record.summary}{record.memory}"
    assert all(HIDDEN not in fact.value for fact in record.facts)


def test_fields_of_results_and_arguments_stay():
    found = {"id": "T1", "n": 1.50, "token": "hunter2hunter2", "tags": ["a", None]}
    result = Entry("tool", json.dumps(found), "c", "get")
    call = Entry("assistant", "", "c", "get", '{"key":  "AKIAIOSFODNN7EXAMPLE"}')
    assert masked(result) is result
    assert masked(call) is call


def test_texts_in_arguments_and_in_a_summary_of_another_session_are_masked():
    asked = json.dumps({"path": ".env", "content": f"A=1\npassword:\n{WORD}"})
    call = masked(Entry("assistant", "", "c", "write_file", asked))
    assert call.arguments == {"path": ".env", "content": f"A=1\npassword:\n{HIDDEN}"}
    summary = masked(Entry("summary", f"<summary>\npassword:\n{WORD}\n</summary>"))
    assert summary.content == f"<summary>\npassword:\n{HIDDEN}\n</summary>"


def test_only_a_text_that_has_a_secret_changes_in_a_result():
    note = json.dumps({"id": 1.50, "note": f"password:\n{WORD}"})
    text = masked(Entry("tool", note, "c", "get")).content
    assert json.loads(text) == {"id": 1.50, "note": f"password:\n{HIDDEN}"}
    assert "1.5" in text


def test_attachments_and_what_a_provider_signed_stay():
    image = Entry("user", f"password: {WORD}", tool_name="image", tool_args="{}")
    thought = Entry("thinking", f"password: {WORD}", "", "openai", "{}")
    assert [masked(image), masked(thought)] == [image, thought]


def test_an_entry_is_masked_once():
    entries = MaskedEntries()
    (first,) = entries.of(said(f"password: {WORD}"))
    (second,) = entries.of(said(f"password: {WORD}"))
    assert first is second
    assert first.content == f"password: {HIDDEN}"


@pytest.mark.slow
def test_summaries_of_earlier_compactions_are_not_kept_in_memory():
    entries = MaskedEntries()
    tracemalloc.start()
    try:
        for number in range(50):
            summary = Entry("summary", f"{number} " + "It went on. " * 3_000)
            entries.of([summary])
        del summary
        assert tracemalloc.get_traced_memory()[0] < 500_000
    finally:
        tracemalloc.stop()


def test_json_of_any_depth_is_masked():
    for depth in (10, 400, 900, 5_000):
        deep = "[" * depth + '"the password is hunter2 today"' + "]" * depth
        found = masked(Entry("tool", deep, "1", "read"))
        assert "hunter2" not in found.content
