"""Every value of a text is found whole, and in any writing is the same one."""

import pytest
from cpu_time import CpuTime
from generated_values import Case, inserted, templated

from nbchat.conversation.values import ValueIndex, values

pytestmark = pytest.mark.usefixtures("garbage_kept")


def texts(text: str) -> list[str]:
    return [value.text for value in values(text)]


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("$60,024,740", "amount"),
        ("-$1,299.00", "amount"),
        ("1.299,00 €", "amount"),
        ("1\u202f299,50\u00a0€", "amount"),
        ("CHF 1'299.50", "amount"),
        ("$1 299", "amount"),
        ("¥１，２００", "amount"),
        ("12.5 %", "amount"),
        ("1,250,400.50", "number"),
        ("1.250.400,50", "number"),
        ("12,34,567.00", "number"),
        ("1_000_000", "number"),
        ("1.5e-10", "number"),
        ("15GB", "number"),
        ("5/16", "number"),
        ("٤٥٦", "number"),
        ("DE89 3704 0044", "id"),
        ("GB29 NWBK 6016 1331 9268 19", "id"),
        ("4421 4864 3324 7447", "id"),
        ("+1 555 123 4567", "id"),
        ("#W123", "id"),
        ("INC0012345", "id"),
        ("T-17", "id"),
        ("v3.11.4-rc1", "id"),
        ("f3a9c21d0be4ff", "id"),
        ("550e8400-e29b-41d4-a716-446655440000", "id"),
        ("ann@example.com", "id"),
        ("2026-11-29T10:00Z", "date"),
        ("2026-11-29 10:00:30.5", "date"),
        ("16.05.2024", "date"),
        ("May 16, 2024", "date"),
        ("16th of May", "date"),
        ("2024年5月16日", "date"),
        ("2:30 pm", "date"),
        ("./scripts/build.sh", "path"),
        ("/data/x.csv", "path"),
        (r"C:\data", "path"),
        ("src/a/b.py", "path"),
        ("sales.csv", "path"),
        ("https://example.com/a?b=1", "path"),
        ('df["Growth Rate"]', "name"),
    ],
)
def test_a_value_in_any_form_is_one_value(written: str, kind: str):
    for text in (written, f"It is {written}, then.", f"| x | {written} |"):
        assert [(value.kind, value.text) for value in values(text)] == [(kind, written)]
        (value,) = values(text)
        assert text[value.start : value.stop] == written


@pytest.mark.parametrize("quoted", ['"Open"', "'Open'", "`Open`", "“Open”", "«Open»"])
def test_a_name_in_quotes_is_a_value_without_them(quoted: str):
    (value,) = values(f"the column {quoted} is")
    assert (value.kind, value.text) == ("name", "Open")
    assert f"the column {quoted} is"[value.start : value.stop] == quoted


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1,2,3", ["1", "2", "3"]),
        ("10, 20", ["10", "20"]),
        ("option 1 299", ["1", "299"]),
        ("10-20", ["10", "20"]),
        ("T1-T5 and W1/W2", ["T1", "T5", "W1", "W2"]),
        ("W1,80.50,2024-05-16", ["W1", "80.50", "2024-05-16"]),
        ("EUR 5 USD 6", ["EUR 5", "USD 6"]),
        ("total:80", ["80"]),
        ("try 5,289 then", ["5,289"]),
        ('"W123"', ["W123"]),
        ('"I paid $500 for W12 on that day"', ["$500", "W12"]),
        ("1. First\n21) Last", []),
        ("don't and/or won't; e.g. df.head", []),
    ],
)
def test_what_is_several_values_or_none_is_not_joined(text: str, found: list[str]):
    assert texts(text) == found


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("$1,299.00", "1.299,00 €"),
        ("1 299 ₽", "1299"),
        ("$1.5k", "1500"),
        ("12,5", "12.5"),
        ("12.5 %", "0.125"),
        ("1e-5", "0.00001"),
        ("２５", "25"),
        ("2024-05-16", "May 16, 2024"),
        ("16.05.2024", "5/16/2024"),
        ("2:30 pm", "14:30"),
        ("SO-107", "so_107"),
        ("DE89 3704 0044", "DE8937040044"),
        ("(555) 123-4567", "5551234567"),
        (r"C:\data", "c:/data"),
        ('df["Growth Rate"]', "`growth rate`"),
    ],
)
def test_two_writings_are_the_same_value(first: str, second: str):
    (one,), (other,) = values(first), values(second)
    assert not one.keys.isdisjoint(other.keys)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1299", "1298"),
        ("-50", "50"),
        ("3.11.4", "3.1.14"),
        ("2024-05-16", "2025-05-16"),
    ],
)
def test_different_values_are_not_the_same(first: str, second: str):
    (one,), (other,) = values(first), values(second)
    assert one.keys.isdisjoint(other.keys)


def test_a_text_states_a_value_as_a_word_or_in_another_writing():
    (amount,) = values("$1,299")
    assert ValueIndex("it was 1299.00 then").has(amount)
    assert not ValueIndex("it was 11,299").has(amount)
    assert not ValueIndex("it was $60,024,740").has(values("$60")[0])
    assert ValueIndex("Region,Open,Close").has(values("`Open`")[0])
    assert not ValueIndex("reopened").has(values("`Open`")[0])


def amounts_cut(case: Case) -> list[str]:
    """Values that are a part of the amount that was written."""
    start = case.text.index(case.written)
    stop = start + len(case.written)
    return [
        value.text
        for value in values(case.text)
        if case.is_amount
        and start <= value.start
        and value.stop <= stop
        and value.text != case.written
    ]


@pytest.mark.parametrize("generate", [templated, inserted])
@pytest.mark.parametrize("seed", range(3))
def test_values_of_generated_sentences_are_kept_whole(generate, seed: int):
    cases = list(generate(1_000, seed))
    whole = [
        {case.written, f"-{case.written}"} & set(texts(case.text)) for case in cases
    ]
    assert sum(map(bool, whole)) >= 0.98 * len(cases)
    assert [cut for case in cases for cut in amounts_cut(case)] == []


SIZE = 50_000
HOSTILE = {
    "nested": "[",
    "digits": "9",
    "commas": "1,",
    "dots": "1.2",
    "dashes": "a1-",
    "groups": "1 000 ",
    "apostrophes": "1'000",
    "words": "a-",
    "attributes": "a.",
    "items": 'a["b',
    "quotes": "\"a'b`c«",
    "slashes": "/a",
    "backslashes": "\\a",
    "addresses": "a@b.c",
    "schemes": "a://",
    "months": "may ",
    "accounts": "DE89 3704 ",
    "phones": "+1 22 ",
    "colons": "1:1/1,1-",
    "hashes": "ab12",
    "surrogates": "\udcff1 \ud83d",
    "files": "a.cs",
}


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_the_time_grows_with_the_length_of_a_hostile_text(piece: str):
    began = CpuTime()
    values(piece * (SIZE // len(piece)))
    assert began.spent() < 2
