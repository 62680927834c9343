"""Hide secrets in a text that is sent or kept: keys, passwords, tokens, logins.

A value is judged by what it is, not by a word in some name: the keys of this machine's
environment, the known forms of keys, logins in addresses, headers, what is assigned to
a password, and random-looking strings. `primary_key` and `token_count` are not secrets.
"""

import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache

from nbchat.conversation.entries import Span

HIDDEN = "<hidden: may be a secret>"

LEAST_LENGTH = 8
"""Characters of a key in the environment; shorter values are words, too."""

LEAST_ENTROPY = 4.2
"""Bits per character of a random string of 24 or more of 64 characters; identifiers and
paths of Python's own library have less, as a test shows."""

_NAMES = r"""(?:password|passwd|passphrase|pwd|pw|bearer|secret|credentials?|pin
  |(?:api|access|secret|private|account|auth|encryption)[-_ ]?key
  |(?:openai|anthropic|gemini|google|azure|aws)[-_ ]?key
  |token|client[-_]?secret|(?:set|session|auth)[-_ ]?cookie)(?:[-_]?\d+)?"""

_FORMS = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    r"\b(?:sk|pk|rk)[-_][\w-]{16,}",  # OpenAI, Anthropic, Stripe
    r"\b(?:gh[opsur]_|github_pat_|glpat-|xox[abeoprs]-|hf_|npm_|pypi-|dop_v1_)[\w-]{16,}",
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    r"\bAIza[\w-]{35}",
    r"\bya29\.[\w-]{20,}",
    r"\bSG\.[\w-]{16,}\.[\w-]{16,}",
    r"\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*",  # a JSON web token
)
_FORM = re.compile("|".join(_FORMS), re.DOTALL)

_LOGIN = re.compile(r"(?<=://)([^\s/:@'\"]{0,100}):([^\s/'\"]{1,200})(?=@[\w.\[-])")

_HEADER = re.compile(
    r"""((?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token|digest)\s+)?
    |\bbearer\s+|x-api-key["']?\s*[:=]\s*["']?)(?!\s|bearer\b|basic\b|token\b)
    ([^\s"',;<>]{6,4000})""",
    re.IGNORECASE | re.VERBOSE,
)

_ASSIGNED = re.compile(
    rf"""((?<![a-z0-9]){_NAMES}["']?\]?\s*(?::\s*str\s*)?(?:=(?!=)|:)\s*[frbu]{{0,2}})
    (?:(["'])(?P<quoted>(?:(?!\2)[^\n]){{3,500}})\2
    |(?P<bare>(?![\d.]+\s*[,)\]}}])[^\s"'()\[\]{{}},;<>]{{4,500}})(?=[\s,;)\]}}]|$))""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)

_COOKIE = re.compile(
    r"""((?<![\w-])cookies?["']?\s*(?:=(?!=)|:)\s*["']?)
    ((?:[\w.-]{1,80}=[^\s;"',<>]{4,4000}(?:;[ ]?(?=[\w.-]+=))?){1,50})""",
    re.IGNORECASE | re.VERBOSE,
)
"""The header `Cookie: sid=...`; `cookie: chocolate` is a word."""

_ACCESS = re.compile(
    r"""((?<![\w-])(?:cookies?|pat|auth)["']?\s*(?:=(?!=)|:)\s*["']?)
    (?=[\w.~+/-]{0,100}[a-z])(?=[\w.~+/-]{0,100}\d)([\w.~+/-]{8,500}={0,2})(?![\w(\[=])""",
    re.IGNORECASE | re.VERBOSE,
)
"""Names that are words, too: the value is no word, but letters and digits."""

_TOKEN = re.compile(r"(?<![\w+/=-])[\w+/-]{24,128}={0,2}(?![\w+/=-])")

_ID = re.compile(r"(?!sk|pk|rk)[a-z]{2,8}_[A-Za-z0-9]{8,32}")
"""A random id with its kind before it, such as Stripe's `pi_3MtwBw...`."""

_NAME = re.compile(rf"(?:.*[^a-zA-Z])?{_NAMES}", re.IGNORECASE | re.VERBOSE)

_CODE = re.compile(
    r"(?:os|self|config|settings|env|getpass|None|True|False|pass|return|raise|str|int|bytes)\b.*"
)
"""What is assigned where a program reads a secret, and is none itself."""


def without_secrets(text: str) -> tuple[str, int]:
    """The text with every secret replaced, and how many there were."""
    spans = secret_spans(text)
    return with_hidden(text, spans), len(spans)


def with_hidden(text: str, spans: Iterable[Span]) -> str:
    """The text with `HIDDEN` in place of each of the spans."""
    parts, end = list[str](), 0
    for start, stop in spans:
        parts += text[end:start], HIDDEN
        end = stop
    return "".join([*parts, text[end:]])


def secret_spans(text: str) -> list[Span]:
    """Where secrets are in a text, in order; what overlaps is one secret."""
    spans = [span for value in _environment() for span in _places(text, value)]
    spans += (found.span() for found in _FORM.finditer(text))
    for pattern in (_LOGIN, _HEADER, _COOKIE, _ACCESS):
        spans += (found.span(2) for found in pattern.finditer(text))
    known = set(spans)
    for found in _ASSIGNED.finditer(text):
        value = found["quoted"] or found["bare"]
        is_code = found["quoted"] is None and _CODE.fullmatch(value)
        is_hidden = value == HIDDEN or found.span("quoted") in known
        if not (is_code or is_hidden):
            spans.append((found.end(1), found.end()))
    tokens = _TOKEN.finditer(text)
    spans += (found.span() for found in tokens if is_random(found[0]))
    return _merged(spans)


def _places(text: str, value: str) -> Iterator[Span]:
    start = text.find(value)
    while start >= 0:
        yield start, start + len(value)
        start = text.find(value, start + len(value))


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, stop in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        else:
            merged.append((start, stop))
    return merged


@lru_cache(1_000)
def is_secret_name(name: str) -> bool:
    """Whether a text of this name is a secret: `api_key`, `db_password`, not `key`."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return _NAME.fullmatch(words) is not None


def is_random(text: str) -> bool:
    """Whether a text looks like a key: as random as base64, with all kinds of letters.

    Hashes and UUIDs, which are hexadecimal, do not, nor ids such as `pi_3MtwBw...`.
    """
    if _ID.fullmatch(text):
        return False
    kinds = (str.islower, str.isupper, str.isdigit)
    if any(sum(map(kind, text)) < 3 for kind in kinds):  # noqa: PLR2004
        return False
    shares = (n / len(text) for n in Counter(text).values())
    return -sum(share * math.log2(share) for share in shares) >= LEAST_ENTROPY


def _environment() -> list[str]:
    """The secrets of this machine's environment, the longest first."""
    values = {v.strip() for n, v in os.environ.items() if is_secret_name(n)}
    return sorted((v for v in values if len(v) >= LEAST_LENGTH), key=len, reverse=True)
