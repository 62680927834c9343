"""Secrets are found by what they are, quickly, and nothing else is hidden."""

import json
import re
import sysconfig
from pathlib import Path

import pytest
from cpu_time import CpuTime
from tables import every

from nbchat.conversation.secret_masking import (
    _BY_STEM,
    HIDDEN,
    is_random,
    secret_spans,
    without_secrets,
)

RANDOM = "aB3dE5fG7hI9jK1lM3nO5pQ7rS9t"


@every(
    ("text", "secret"),
    [
        ("OPENAI_API_KEY = 'sk-proj-abcdefghijklmnop1234'", "abcdefghijkl"),
        ("client = Client('sk" + "-ant-api03-0123456789abcdef')", "api03"),
        ("password: hunter2", "hunter2"),
        ("{'db_password': 'hunter2', 'n': 1}", "hunter2"),
        ("{'Authorization': 'Bearer abc.def-ghi'}", "abc.def"),
        ("curl -H 'x-api-key: hunter2hunter2'", "hunter2"),
        ("postgres://ann:hunter2@db/orders", "hunter2"),
        ("pin = 4711", "4711"),
        ("{'pw': 'hunter2'}", "hunter2"),
        ("{'bearer': 'hunter2'}", "hunter2"),
        ("Set-Cookie: sid=hunter2; Path=/", "hunter2"),
        ("Cookie: sid=hunter2; theme=dark", "hunter2"),
        ("{'cookie': 'sid=hunter2; theme=dark', 'n': 1}", "hunter2"),
        ('{"cookie": "hunter2hunter2"}', "hunter2"),
        ("{'pat': 'hunter2hunter2'}", "hunter2"),
        ("pat=hunter2hunter2", "hunter2"),
        ("{'auth': 'hunter2hunter2'}", "hunter2"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIA"),
        ("ghp_0123456789abcdefghij", "0123456789"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "eyJhbGci"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
            "MIIE",
        ),
        (f"x = '{RANDOM}'", RANDOM),
    ],
)
def test_a_secret_is_hidden(text, secret):
    shown, count = without_secrets(text)
    assert secret not in shown
    assert count == 1
    assert HIDDEN in shown


@every(
    "text",
    [
        "{'key': 'orders', 'primary_key': 12, 'token_count': 1200}",
        "api_key = os.environ['OPENAI_API_KEY']",
        "password = getpass()",
        "tokens = tokenizer(text, max_token=4096)",
        "d41d8cd98f00b204e9800998ecf8427e 550e8400-e29b-41d4-a716-446655440000",
        "https://example.org:8080/a?b=c",
        "if key == secret: pass",
        "{'cookie': 'chocolate', 'pat': 'Patricia', 'auth': 'required'}",
        "Cookie: oats and nuts, 250 g",
        "cookie = make_cookie2(request)",
        "pat == hunter2hunter2",
    ],
)
def test_what_is_no_secret_stays(text):
    assert without_secrets(text) == (text, 0)


@pytest.mark.slow
def test_no_name_in_pythons_own_library_looks_random():
    folder = Path(sysconfig.get_paths()["stdlib"])
    texts = (file.read_text() for file in sorted(folder.glob("[a-h]*.py")))
    words = [word for text in texts for word in re.findall(r"[\w+/-]{24,128}", text)]
    assert len(words) > 300
    assert not list(filter(is_random, words))


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        *("a", "://", "password=", "Authorization: ", "token_", "eyJ", "://a:", "'"),
        *("cookie:a=", "cookie=", "cookie: a=bbbb; ", "pat=a"),
        *(
            "seed phrase is word ",
            "mnemonic is abcd efgh ",
            "password is a ",
            "curl -u a ",
        ),
        *("login -p ", "echo x | ", "net use a ", "setup key x ", "password' value="),
        *("backup codes: 1a2b ", "1a2b-3c4d ", "define('a"),
        *("jdbc:oracle:a:b/", "recovery codes:\n", "::add-mask::"),
    ],
)
def test_a_text_made_to_be_slow_is_read_in_time(piece):
    text = piece * (100_000 // len(piece))
    began = CpuTime()
    without_secrets(text)
    assert began.spent() < 2


def texts(*, with_secret: bool) -> list[tuple[str, str]]:
    file = Path(__file__).parents[1] / "data" / "secret_texts.jsonl"
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    every = [(line["text"], line.get("secret", "")) for line in lines]
    plain = [(text.replace("¦", ""), secret.replace("¦", "")) for text, secret in every]
    return [(text, secret) for text, secret in plain if bool(secret) == with_secret]


def test_secrets_of_everyday_texts_are_hidden():
    every = texts(with_secret=True)
    assert all(secret in text for text, secret in every)
    found = [text for text, secret in every if secret in without_secrets(text)[0]]
    assert found == []


def test_texts_that_only_look_like_some_with_secrets_stay():
    every = texts(with_secret=False)
    assert len(every) > 200
    assert [text for text, _ in every if without_secrets(text) != (text, 0)] == []


def test_a_secret_is_found_after_a_letter_whose_small_form_is_longer():
    text = f"{'İ' * 40} password: hunter2 and more"
    assert without_secrets(text)[0] == text.replace("hunter2", HIDDEN)


def test_what_patterns_begin_with_is_found_wherever_it_is():
    """The beginning of one hides no other, as it would where one begins another."""
    pairs = [(a, b) for a in _BY_STEM for b in _BY_STEM if a != b]
    assert not [(a, b) for a, b in pairs if b.startswith(a)]


@pytest.mark.parametrize("text", ["pi_3MtwBwLkdIwHu7ix28a3tqPa", "cus_NffrFeUfNV2Hib"])
def test_a_random_id_with_its_kind_before_it_is_no_secret(text: str):
    assert without_secrets(f"refund {text} now")[1] == 0
    assert without_secrets(f"refund sk_live_{text[4:]} now")[1] == 1


def test_secrets_that_overlap_are_one_and_those_beside_each_other_are_two():
    text = f"Authorization: Bearer sk-ant-{RANDOM}"
    assert secret_spans(text) == [(22, len(text))]
    assert without_secrets("password=hunter2 pin=4711") == (
        f"password={HIDDEN} pin={HIDDEN}",
        2,
    )


def test_a_key_of_the_environment_is_hidden_everywhere(monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", "plainwords")
    assert without_secrets("plainwords, plainwords") == (f"{HIDDEN}, {HIDDEN}", 2)
    assert without_secrets("plainwordsplainwords") == (f"{HIDDEN}{HIDDEN}", 2)
    assert without_secrets("pw = 'a plainwords b'; x = 1") == (
        f"pw = {HIDDEN}; x = 1",
        1,
    )


def test_the_folder_of_a_shell_is_shown(monkeypatch, tmp_path):
    monkeypatch.setenv("PWD", str(tmp_path))
    path = f'df = pd.read_csv("{tmp_path}/sales.csv")'
    assert without_secrets(path) == (path, 0)
    monkeypatch.setenv("DB_PASSWORD", "/plain/words")
    assert without_secrets("at /plain/words") == (f"at {HIDDEN}", 1)


def test_a_key_in_quotes_leaves_the_quotes():
    text = f"OPENAI_API_KEY = '{HIDDEN}'"
    assert without_secrets(text.replace(HIDDEN, f"sk-{RANDOM}")) == (text, 1)


def test_what_is_hidden_is_not_hidden_again():
    for text in ("password = 'hunter2'", "password: hunter2", f"key = 'sk-{RANDOM}'"):
        shown, _ = without_secrets(text)
        assert without_secrets(shown) == (shown, 0)
        quoted = shown.replace(HIDDEN, f"'{HIDDEN}'")
        assert without_secrets(quoted) == (quoted, 0)
