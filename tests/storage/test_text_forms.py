"""A text is found in every form in which it is kept, and nothing else is removed."""

import base64
import html
import json
import unicodedata
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from cpu_time import CpuTime
from tables import every

from nbchat.storage.text_forms import MARK, Remover

TEXT = "Pass-w\u00f6rd 4242 <x&\"y'>"

FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "upper case": str.upper,
    "lower case": str.lower,
    "title case": str.title,
    "URL": lambda text: quote(text, safe=""),
    "URL with slashes": quote,
    "form of a page": quote_plus,
    "URL, small hexadecimals": lambda text: quote(text, safe="").lower(),
    "HTML": html.escape,
    "HTML without quotes": lambda text: html.escape(text, quote=False),
    "HTML, numbers": lambda text: "".join(f"&#{ord(each)};" for each in text),
    "HTML, hexadecimals": lambda text: "".join(f"&#x{ord(each):X};" for each in text),
    "JSON": json.dumps,
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)),
    "JSON in JSON in JSON": lambda text: json.dumps(json.dumps(json.dumps(text))),
    "JSON in Unicode": lambda text: json.dumps(text, ensure_ascii=False),
    "NFD": lambda text: unicodedata.normalize("NFD", text),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64, one before": lambda text: base64.b64encode(f"a{text}".encode()).decode(),
    "base64, two around": lambda text: base64.b64encode(
        f"ab{text}cd".encode()
    ).decode(),
    "base64 of URLs": lambda text: base64.urlsafe_b64encode(
        f"??{text}".encode()
    ).decode(),
    "base64, lines": lambda text: base64.encodebytes((text * 5).encode()).decode(),
    "base64, UTF-16": lambda text: base64.b64encode(text.encode("utf-16-le")).decode(),
    "broken by a line": lambda text: f"{text[:6]}\n{text[6:]}",
    "broken in two places": lambda text: f"{text[:3]}\r\n  {text[3:9]}\n\t{text[9:]}",
    "each letter a line": "\n".join,
    "broken at its space": lambda text: text.replace(" ", "\n   "),
    "broken inside JSON": lambda text: json.dumps(f"{text[:6]}\n{text[6:]}"),
    "several spaces": lambda text: text.replace(" ", "   "),
    "signs that nobody sees": "\u200b".join,
    "soft hyphens": lambda text: f"{text[:4]}\u00ad{text[4:]}",
    "URL, broken": lambda text: f"{quote(text)[:9]}\n{quote(text)[9:]}",
    "upper case, broken": lambda text: f"{text.upper()[:9]}\n{text.upper()[9:]}",
}


@every("form", FORMS)
def test_every_form_of_a_text_is_removed_and_counted(form):
    remove = Remover(TEXT)
    cleaned = remove(f"before {FORMS[form](TEXT)} after")
    assert cleaned.startswith("before ")
    assert cleaned.endswith(" after")
    assert MARK in cleaned
    assert set(cleaned) <= {*f'before {MARK} after\\"\n'}
    assert remove.places >= 1


@every(
    ("text", "content"),
    [
        ("therapist", "the rapist"),
        ("4242", "42 42"),
        ("4242", "424"),
        ("able", "a blend"),
        ("able", "Zm9vYmFyYWJj"),
        ("key one", "keyone"),
        ("harbour", "harb our"),
    ],
)
def test_other_texts_stay(text, content):
    remove = Remover(text)
    assert remove(content) == content
    assert remove.places == 0


def test_each_place_is_counted_once():
    remove = Remover("secret-1")
    assert remove("secret-1 SECRET-1 sec\nret-1 secret-1") == " ".join([MARK] * 4)
    assert remove.places == 4


def test_each_long_line_of_a_text_is_removed_by_itself():
    assert Remover("first line 1\nsecond line 2")("SECOND LINE 2!") == f"{MARK}!"


@pytest.mark.slow
@pytest.mark.parametrize(
    "content",
    [
        "x" * 1_000_000,
        "\\" * 1_000_000,
        " \n" * 500_000,
        "secret-" * 150_000,
        "secre\n" * 150_000,
    ],
    ids=lambda content: repr(content[:8]),
)
def test_a_large_text_is_searched_in_linear_time(content):
    remove = Remover("secret-1")
    spent = CpuTime()
    remove(content)
    assert spent.spent() < 3
