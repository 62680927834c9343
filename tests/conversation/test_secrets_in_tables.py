"""Secrets in tables, headers and addresses are hidden, and other cells stay."""

import base64

import pytest
from cpu_time import CpuTime
from secret_forms import FORMS
from tables import every

from nbchat.conversation.secret_masking import HIDDEN, without_secrets


@every(("name", "text", "secret"), FORMS)
def test_a_secret_is_hidden_in_every_form(name, text, secret):
    shown, count = without_secrets(f"Here it is:\n\n{text}\n\nThanks.")
    assert count > 0, name
    if secret is not None:
        assert secret not in shown
    assert shown.startswith("Here it is:")
    assert shown.endswith("Thanks.")


def test_all_rows_of_a_table_are_read_and_other_columns_stay():
    rows = "\n".join(f"{n},ann{n},word{n},ok" for n in range(500))
    shown, count = without_secrets(f"id,user,password,state\n{rows}\n\nword1,x,y,z\n")
    assert count == 500
    assert "ann499" in shown
    assert shown.endswith("\n\nword1,x,y,z\n")


@every(
    "text",
    [
        "token,count\nhello,3\nworld,5\n",
        "| token | count |\n|---|---|\n| hello | 3 |\n",
        "I forgot my password, sorry\nfoo, bar1\n",
        "SELECT user, password, email\nFROM users, accounts, x2\n",
        "    user,\n    password,\n    host2,\n",
        "def login(user, password, host):\n    return user, password, host2\n",
        "password_length,users\n12,annb4\n",
        "| variable | |\n|---|---|\n| `OPENAI_API_KEY` | |\n| `GEMINI_API_KEY` | |\n",
        "user  password\nis the name of a book from 2019\n",
        "password,enabled\n,true\nnull,false\n",
        "mailto:ann99@example.com, Email:bob12@example.com",
        "FROM python:3.11-slim@sha256:abcdef",
        "npm:package1@4.17.21",
        "12:30:45 ann@example.com",
        "a|b|token|c\n1|2|3|4",
        "<tr><td>password</td><td></td></tr>",
        "xai-org/grok and pul-request and key-value",
    ],
)
def test_other_tables_and_texts_stay(text):
    assert without_secrets(text) == (text, 0)


FORMS_OF_A_KEY = {
    "base64": lambda key: base64.b64encode(f"ann:{key}".encode()).decode(),
    "base64 of URLs": lambda key: base64.urlsafe_b64encode(
        f"a{key}b".encode()
    ).decode(),
    "broken by a line": lambda key: f"{key[:9]}\n{key[9:]}",
    "broken and indented": lambda key: f"{key[:9]}\\\n    {key[9:]}",
    "base64 in lines": lambda key: base64.encodebytes((key * 9).encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS_OF_A_KEY)
def test_a_key_of_the_environment_is_found_in_base64_and_broken(form, monkeypatch):
    key = "correct horse battery staple".replace(" ", "-")
    monkeypatch.setenv("DESK_API_KEY", key)
    shown, count = without_secrets(f"see {FORMS_OF_A_KEY[form](key)} there")
    assert count >= 1
    assert HIDDEN in shown
    assert "battery" not in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        *("password=", "password,", "password\t", "| password |\n", "password\n"),
        *(
            "password  x\n",
            "user,password\nann,x1\n",
            "@",
            "a:b@",
            "a:bbbbbbbb@c.d ",
            "|",
        ),
        *("</td><td>", "password</td><td>", ":$6$", "login a password ", "  ", "\\"),
        *("a:1:b:c:", "secret: ", "pat", "SK", "8Q~", "-us"),
    ],
)
def test_a_text_made_to_be_slow_is_read_in_time(piece):
    text = piece * (100_000 // len(piece))
    began = CpuTime()
    without_secrets(text)
    assert began.spent() < (1 if piece == "password=" else 2)
