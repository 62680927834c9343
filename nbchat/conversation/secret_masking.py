"""Hide secrets in a text that is sent or kept: keys, passwords, tokens, logins.

A value is judged by what it is, not by a word in some name: the keys of this machine's
environment, the known forms of keys, logins in addresses, headers, what is assigned to
a password, and random-looking strings. `primary_key` and `token_count` are not secrets.

In tables a secret is below a column's name or beside a name in a row: in CSV, TSV and
text with semicolons, tables of Markdown, of `psql` and `mysql`, frames as pandas prints
them, and HTML.
"""

import math
import os
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from nbchat.conversation.entries import Span

HIDDEN = "<hidden: may be a secret>"

LEAST_LENGTH = 8
"""Characters of a key in the environment; shorter values are words, too."""

LEAST_IN_CELL = 3
"""Characters of a secret in a table."""

MOST_HARMLESS = 10_000
"""Hashes of texts that are kept."""

USUAL_NAMES = 1_000
"""Names in a text from which each is compared with those before."""

LONGEST_LOGIN = 170
"""Characters of a user and a password before the `@` of a host."""

BEFORE, AFTER = 40, 1_000
"""Characters around a name that decide whether a secret is there."""

TOKEN_LENGTH = 24
"""Characters of a random string."""

LEAST_ENTROPY = 4.2
"""Bits per character of a random string of 24 or more of 64 characters; identifiers and
paths of Python's own library have less, as a test shows."""

_STRONG = r"""pass(?:word|wort|wd|phrase|code)|kennwort|contraseñas?|senha|wachtwoord
  |mot[ ]de[ ]passe|lösenord|adgangskode|salasana|hasło|heslo|şifre|jelszó|пароль
  |密码|密碼|パスワード|비밀번호|暗証番号"""
"""Words that are part of a name in any place: `PGPASSWORD`, `userPassword`."""

_KEY = r"""(?:api|access|secret|private|account|auth|encryption|subscription|signing)
  [-_ ]?key"""

_TOKENS = r"(?:(?:auth|access|refresh|api|bot|session)[-_ ]?)?token"

_NAMES = rf"""(?:{_STRONG}|pwd|pw|bearer|secret|credentials?|pin|{_KEY}
  |(?:openai|anthropic|gemini|google|azure|aws)[-_ ]?key
  |{_TOKENS}|client[-_]?secret
  |(?:set|session|auth)[-_ ]?cookie)(?:[-_]?\d+)?"""

_START = r"(?:(?<![a-z0-9])|(?-i:(?<=[a-z])(?=[A-Z])))"
"""Where a word begins, as in `db_secret` and `clientSecret`."""

_FORM = re.compile(
    r"""-----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY(?:[ ]BLOCK)?-----.*?
      (?:-----END[ ][A-Z ]*PRIVATE[ ]KEY(?:[ ]BLOCK)?-----|\Z)
    |\b(?:sk|pk|rk)[-_][\w-]{16,}  # OpenAI, Anthropic, Stripe
    |\b(?:gh[opsur]_|github_pat_|glpat-|xox[abeoprs]-|xapp-|hf_|npm_|pypi-|dop_v1_|whsec_
      |GOCSPX-|dckr_pat_|shp(?:at|ss|ca)_|gsk_|hvs\.|nvapi-|AGE-SECRET-KEY-1)[\w-]{16,}
    |\b(?:gl(?:rt|dt|ptt|soat|cbt|ft)-|do[or]_v1_|dckr_oat_|shppa_|hvb\.|AT[AC]TT3|ATBB
      |xkeysib-|rubygems_|NRAK-|PMAK-|sbp_|sb_secret_|pul-|lsv2_(?:pt|sk)_|r8_|sntry[su]_
      |pscale_(?:tkn|pw|oauth)_|gl(?:sa|c)_|figd_|lin_api_|ntn_|dp\.(?:pt|st|ct)\.|nfp_
      |HRKU-|xai-|pplx-|sq0(?:atp|csp)-|tskey-)(?=[A-Za-z_-]{0,30}\d)[\w-]{16,}={0,2}
    |\bABSK[\w+/]{60,200}={0,2}  # Amazon Bedrock
    |\b1//0[\w-]{30,}  # a refresh token of Google
    |\bdapi[0-9a-f]{32}(?:-\d)?\b  # Databricks
    |\bkey-[0-9a-zA-Z]{32}\b  # Mailgun
    |:(\$(?:2[abxy]|apr1|argon2\w{1,2}|[1567y]|gy|scrypt)\$[^\s:"']{8,300})  # a hash
    |\$(?:2[abxy]\$\d\d|argon2\w{1,2}\$v=\d+|[156]|y)\$[^\s:"']{20,300}
    |:(\{S?SHA\d*\}[\w+/]{20,100}={0,2})
    |\b(?:AKIA|ASIA)[0-9A-Z]{16}\b
    |\bAIza[\w-]{35}
    |\bya29\.[\w-]{20,}
    |\bSG\.[\w-]{16,}\.[\w-]{16,}
    |\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*  # a JSON web token
    |slack\.com/services/([\w/]{20,})
    |/api/webhooks/(\d{10,}/[\w-]{20,})  # Discord
    |(?<=\d{8}):(AA[\w-]{33})  # Telegram""",
    re.DOTALL | re.VERBOSE,
)
"""The known forms of keys, and of hashes of passwords in files of accounts."""

_PUTTY = re.compile(r"Private-Lines:\s*\d+\s+([\w+/=\s]{20,8000}?)\s+Private-MAC")

_LOGIN_WITHOUT_SCHEME = re.compile(
    r"""(?<![\w.+/:@-])(?!(?:mailto|e-?mail|to|from|cc|bcc|user|contact|sip|acct|by|author
      |reply-to|sender|maintainer|xmpp|https?|ssh|git)\b)[a-z][\w.+-]{0,63}
    :(?=[^\s:/@"'<>]{0,99}[^\W\d_])([^\s:/@"'<>]{6,100})
    @(?!sha\d)(?:localhost|(?:\d{1,3}\.){3}\d|[a-z][\w-]{0,62}[.:/])""",
    re.IGNORECASE | re.VERBOSE,
)
"""`ann:password@host`, where no scheme says that it is an address."""

_PGPASS = re.compile(
    r":(?:\d{2,5}|\*):(?![0-9a-f]{1,4}:)[\w*-]{1,63}:[\w*.@-]{1,63}:"
    r"(?=[^\s:]{0,99}[A-Za-z])([^\s:]{3,100})(?=\s|\Z)"
)
"""A line of the file .pgpass: host, port, database, user and password."""

_SQL = re.compile(
    r"""(?:\bIDENTIFIED\s+BY\s+(?:PASSWORD\s+)?|\bPASSWORD\s+)["']([^"'\n]{3,200})["']""",
    re.IGNORECASE,
)
"""`CREATE USER ann IDENTIFIED BY '...'`."""

_NETRC = re.compile(r"\blogin\s+\S{1,100}\s+password\s+(\S{3,100})", re.IGNORECASE)

_CELL_NAME = re.compile(
    rf"""(?:{_STRONG}|{_START}(?:{_NAMES}))["'*_`]{{0,4}}[ ]*
    (?=[,;\t|\n\r]|(?<=[ ][ ])|\Z)""",
    re.IGNORECASE | re.VERBOSE,
)
"""A name that ends a cell of a table."""

_CERTAIN = re.compile(
    rf"(?:.*[^a-zA-Z])?(?:{_STRONG}|{_KEY}|pwd|client[-_ ]?secret)\d*",
    re.IGNORECASE | re.VERBOSE,
)
"""Names whose values are secrets, whatever they look like."""

_LOGIN = re.compile(
    r"""://[^\s/:@'"]{0,100}:([^\s/'"]{1,200})(?=@[\w.\[-])
    |jdbc:oracle:\w+:[^\s/@'"]{1,100}/([^\s/@'"]{1,200})(?=@)""",
    re.IGNORECASE | re.VERBOSE,
)

_HEADER = re.compile(
    r"""(?:authorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token|digest)\s+)?
    |\bbearer\s+(?=[^\s"',;<>]{0,200}\d|[^\s"',;<>]{24})|(?<=x-)api-key["']?\s*[:=]\s*["']?)
    (?!\s|bearer\b|basic\b|token\b)([^\s"',;<>]{6,4000})""",
    re.IGNORECASE | re.VERBOSE,
)

_PART = r"""[^\s"'()\[\]{},;<>&\\]{0,500}+"""
"""A part of a value without quotes. It is not tried again shorter, which would take a
hundred times as long in a text of names alone."""

_ASSIGNED = re.compile(
    rf"""(?:{_STRONG}|{_START}{_NAMES}|(?-i:(?<=[A-Z]_)PASS))
    (?:`(?=[:=]\s*`)|[*_]{{0,3}})\\?["']?\]?\s*(?::\s*str\s*)?
    (?:=(?![=>])|[:\uff1a]|=>(?=\s*["'])|(?:[-=]>|[\u2014\u2192])(?=[ ]\S{{0,60}}\d))
    (?:[*_`]{{1,3}}(?=\s))?[^\S\n]*\n?[^\S\n]*(?:[frbu]{{1,2}}(?=["']))?
    ((\\?["'])(?P<quoted>(?:(?!\2)[^\n]){{3,500}})\2
    |(?P<bare>(?![\d.]+\s*[,)\]}}])(?=[^\s"'()\[\]{{}},;<>]{{4}}){_PART}
      (?:[&\\]++{_PART}){{0,20}})(?=[\s,;)\]}}&\\]|$))""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)

_COOKIE = re.compile(
    r"""(?<![\w-])cookies?["']?\s*(?:=(?!=)|:)\s*["']?
    ((?:[\w.-]{1,80}=[^\s;"',<>]{4,4000}(?:;[ ]?(?=[\w.-]+=))?){1,50})""",
    re.IGNORECASE | re.VERBOSE,
)
"""The header `Cookie: sid=...`; `cookie: chocolate` is a word."""

_ACCESS = re.compile(
    r"""(?<![a-z0-9-])(?:cookies?|pat|auth|pass)\\?["']?\s*(?:=(?!=)|:)\s*(?:\\?["'])?
    (?=[\w.~+/-]{0,100}[a-z])(?=[\w.~+/-]{0,100}\d)([\w.~+/-]{8,500}={0,2})(?![\w(\[=])""",
    re.IGNORECASE | re.VERBOSE,
)
"""Names that are words, too: the value is no word, but letters and digits."""

_QUERY = re.compile(
    r"[?&](?:sig|(?:x-(?:amz|goog)-)?signature|key|code|auth)=([\w%.~+/-]{16,2000})",
    re.IGNORECASE,
)

_ELEMENT = re.compile(
    rf"""(?:{_STRONG}|secret|token|apikey)>([^<\s]{{3,500}})</
    |(?:{_STRONG}|{_START}(?:{_NAMES}))(?:["']\s*,?|\s*\n)\s*["']?value["']?\s*[:=]\s*
    ["']([^"'\n]{{3,500}})["']""",
    re.IGNORECASE | re.VERBOSE,
)
"""`<password>...</password>`, `key="SmtpPassword" value="..."`."""

_COMMAND = re.compile(
    r"""\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[ =]?["']?[^\s:"'=]{1,80}:([^\s"']{3,200})
    |\bmysql[a-z]*\s[^\n|;]{0,200}?(?<=\s)-p([^\s-][^\s]{2,100})
    |(?:\bsshpass\s+-p|\blogin\b[^\n]{0,200}?\s-p
      |\bredis-cli\b[^\n]{0,200}?\s-a|\bssh-keygen\b[^\n]{0,200}?\s-N
      |\bconvertto-securestring(?:\s+-string)?
      |(?<=--)(?:pass(?:word|wd|phrase)?|token|api-?key|secret))[ ]+
      (?!-)(?:'([^'\n]{3,200})'|"([^"\n]{3,200})"|(?=\S{0,99}\d)([^\s"'$<\[{}]{5,200}))
    |\bpass(?:in|out)?\s+pass:(\S{3,200})
    |\becho\s+["']?([^\s"'|]{3,200})["']?\s*\|[^\n|]{0,200}(?:\bsudo\s+-S|-stdin)\b
    |\bauth\s*=\s*\(\s*["'][^"'\n]{1,80}["']\s*,\s*["']([^"'\n]{3,200})["']
    |\bnet[ ]use[ ][^\n]{0,200}?[ ](\S{3,100})[ ]/user:
    |::add-mask::([^\s"']{3,500})  # GitHub Actions
    |\bdefine\s*\(\s*["'](?:[^"'\n]{0,80}?(?:pass(?:word|wd)?|secret|_salt|(?:(?<![a-z])auth|nonce
        |logged_in)_key)["']\s*,\s*["'](?=[^"'\n]{3})
      |[^"'\n]{0,80}?(?:token|_key)["']\s*,\s*["'](?=[^\s"']{0,60}\d)(?=[^\s"']{12}))
      ([^"'\n]{3,500})["']  # PHP
    |\bresponse="([0-9a-f]{32,64})"  # HTTP's digest""",
    re.IGNORECASE | re.VERBOSE,
)

_VALUE = r"""(?=[^\s"'()\[\]{}<>,;=`]{0,60}\d)(?=[^\s"'()\[\]{}<>,;=`]{0,60}[^\W\d_])
    [^\s"'()\[\]{}<>,;=`]{5,64}(?<![.,:?])(?![\w(\[=/])"""
"""Letters and digits, as no word of a sentence has them."""

_IS = r"""(?:\s*[:=\uff1a]|[ ](?:is|was|ist|lautet|es|est|é|è|to|это|jest)\b[ ]?:?
    |\s?[是为為は은는])"""
"""Between what is named and its value."""

_SAID = re.compile(
    rf"""(?:{_STRONG}|\bpw|\bpwd|{_START}(?:{_KEY}|{_TOKENS}))\b
    (?:(?:[ ][\w-]{{1,15}}){{0,5}}?{_IS}\s*
      (?:["'“„«`]([^\s"'”“»`]{{4,100}})["'”“»`]|({_VALUE}|\d{{6,12}}(?!\w|[.,]\d)))
    |[ ](?:(?=[^ ]{{16}})|(?<!key[ ])(?<!token[ ])|(?<=bearer[ ]token[ ]))({_VALUE}))
    |(?:密码|密碼|パスワード|비밀번호|暗証番号){_IS}?\s*({_VALUE}|\d{{4,12}})""",
    re.IGNORECASE | re.VERBOSE,
)
"""A password in a sentence."""

_CODE_SAID = re.compile(
    rf"""(?<![\w-])(?:pin(?:[- ]?(?:code|number|nummer))?|geheimzahl)\b
      (?:[ ](?!code\b)[\w']{{1,15}}){{0,4}}?{_IS}\s*(\d{{4,8}})(?!\w|[.,]\d)
    |(?-i:\bPIN)[ ](\d{{4,5}})(?!\w|[.,]\d)
    |\bcv[vc]2?\b{_IS}?\s*(\d{{3,4}})(?!\w)
    |(?:(?:(?<=one[- ])time|\b(?:verification|security|login|2fa|otp|sms|einmal
      |bestätigungs|sicherheits))[- ]?(?:code|pass(?:word|code|wort)|pin)|\botp)
      {_IS}\s*(\d{{4,8}})(?!\w)
    |\b(?:setup|secret|backup|recovery|totp)[ ](?:key|code|secret)s?\b[^\n:]{{0,40}}?
      {_IS}\s*((?-i:(?:[A-Z2-7]{{4}}[ -]?){{4,16}}))
    |\bprivate[ _]?key\b[^\n:=]{{0,20}}[:=]\s*((?:0x)?[0-9a-f]{{64}})\b
    |(?:(?:seed|recovery|backup|secret)[ _-]?(?:phrase|words)|\bmnemonic(?:[ ]phrase)?)
      {_IS}\s*["'“]?(?!(?:\w{{1,9}}\s){{0,24}}(?:the|and|for|with)\s)
      ((?:[a-z]{{3,8}}[ ,]+){{11,23}}[a-z]{{3,8}})\b
    |\b(?:backup|recovery)[ _-]?codes?\b[^\n:]{{0,80}}(?::[ ]*|\n)
      ((?:[\s,;*-]{{0,8}}(?:\d{{1,2}}[.)][ ]+)?(?![a-z]{{4,}}\d{{1,2}}\b)
        (?=[a-z-]{{0,12}}\d|[a-f]{{8}}\b)[0-9a-z]{{4,10}}(?:-[0-9a-z]{{4,10}}){{0,3}}
        (?![\w.:/])){{2,30}})""",
    re.IGNORECASE | re.VERBOSE,
)
"""A PIN, a code that is used once, and the words of a wallet."""

_WORDS = (
    "pass pw kennwort contrase senha wachtwoord mot lösenord adgangskode salasana hasło"
    " heslo şifre jelszó пароль 密码 密碼 パスワード 비밀번호 暗証番号"
)
_KEYS = (
    "api access secret private account auth encrypt subscr signing token refresh"
    " bot sess"
)

_STEMS = {
    _FORM: """-----begin sk- sk_ pk- pk_ rk- rk_ ghp_ gho_ ghs_ ghu_ ghr_ github_pat_
        glpat- xox xapp- hf_ npm_ pypi- dop_v1_ whsec_ gocspx- dckr_pat_ shp gsk_ hvs.
        nvapi- age-secret akia asia aiza ya29. sg. eyj slack.com/ /api/webhooks/ :aa
        glrt- gldt- glptt- glsoat- glcbt- glft- doo_v1_ dor_v1_ dckr_oat_ hvb.
        atatt3 atctt3 atbb xkeysib- rubygems_ nrak- pmak- sbp_ sb_secret_ pul-
        lsv2_ pscale_ sntry glsa_ glc_ figd_ lin_api_ ntn_ dp. nfp_ hrku- xai- pplx-
        sq0 r8_ tskey- absk 1//0 dapi key- :$ $2 $argon $1$ $5$ $6$ $y$
        :{""",
    _CELL_NAME: f"""{_WORDS} {_KEYS} bearer cred pin openai anthropic gemini google
        azure aws client""",
    _SQL: "identified pass",
    _NETRC: "login",
    _LOGIN: ":// jdbc:oracle:",
    _HEADER: "auth bearer api",
    _COOKIE: "cookie",
    _ACCESS: "cookie pat auth pass",
    _QUERY: "? &",
    _ELEMENT: f"{_WORDS} {_KEYS}",
    _COMMAND: """curl mysql sshp login echo auth redis-cli ssh-key convertto- pass token
        secret api net ::add-mask:: define response=""",
    _SAID: f"{_WORDS} {_KEYS}",
    _CODE_SAID: """pin geheimzahl cvv cvc time verif secur login 2fa otp sms einmal
        bestät sicherheits set secret private backup recovery totp seed mnemonic""",
    _ASSIGNED: f"""{_WORDS} {_KEYS} bearer cred pin openai anthropic gemini google azure
        aws client set""",
}
"""How what a pattern finds begins, in small letters; none begins with another."""

_BY_STEM = {
    stem: tuple(each for each, stems in _STEMS.items() if stem in stems.split())
    for stem in sorted({stem for stems in _STEMS.values() for stem in stems.split()})
}

_STEM = re.compile(
    "|".join(
        f"{re.escape(first)}(?:{'|'.join(re.escape(each[1:]) for each in stems)})"
        for first, stems in groupby(_BY_STEM, key=itemgetter(0))
    )
)
"""One pattern for all of them, which is much faster than to try each pattern."""

_BY_PART = (
    ("PuTTY", _PUTTY),
    (":", _PGPASS),
    ("pat", re.compile(r"pat\w{14}\.[0-9a-f]{64}\b")),  # Airtable
    ("-us", re.compile(r"(?<![0-9a-f])[0-9a-f]{32}-us\d{1,2}\b")),  # Mailchimp
    ("SK", re.compile(r"SK[0-9a-f]{32}\b")),  # Twilio
    ("8Q~", re.compile(r"(?<![\w~.-])[\w~.-]{3}8Q~[\w~.-]{31,37}")),  # Azure
    (".atlasv1.", re.compile(r"\b\w{14}\.atlasv1\.[\w-]{60,70}")),  # Terraform
)
"""Forms with what each of them holds, which is found first."""

_PLACEHOLDER = re.compile(
    r"""[*•x.…_-]+|\$.*|%\(?\w+\)?[sd%]?|\{+.*\}+|<.*>|null|none|nil|true|false|string|str
    |bytes|text|u?int\d*|float\d*|bool|object|required|optional|include|omit|same-origin|redacted|hidden|changeme
    |your[-_ ]\D*""",
    re.IGNORECASE | re.VERBOSE,
)
"""The text in place of a secret."""

_PLAIN = re.compile(
    r"""(?:sha|md|utf|aes|rsa|base|bcrypt|argon|pbkdf|scrypt|oauth|http|ipv|win|ed|int|uint|float|python)
    [-_]?\d+\S*|(?-i:[a-z]+(?:_[a-z0-9]+)+)|[\w./-]+\.[a-z]\w{1,4}|\d+(?:st|nd|rd|th|[-.]\w+)""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words with a digit: algorithms, names in programs, files, "12-character"."""

_TOKEN = re.compile(r"(?<![\w+/=-])[\w+/-]{24,128}={0,2}(?![\w+/=-])")

_ID = re.compile(r"(?!sk|pk|rk)[a-z]{2,8}_[A-Za-z0-9]{8,32}")
"""A random id with its kind before it, such as Stripe's `pi_3MtwBw...`."""

_NAME = re.compile(rf"(?:.*[^a-zA-Z])?{_NAMES}", re.IGNORECASE | re.VERBOSE)

_INDEX = re.compile(r"s?(?:\[-?\d+\])+\Z")
"""The end of a reference to an item of several."""

_CODE = re.compile(
    r"(?:os|self|config|settings|env|getpass|None|True|False|pass|return|raise|str|int|bytes)\b.*"
)
"""Code that reads a secret, and is none itself."""


def without_secrets(
    text: str, environment: Sequence[str] | None = None
) -> tuple[str, int]:
    """The text with every secret replaced, and how many there were.

    `environment` is what `environment_secrets` returned, read once for many texts.
    """
    spans = secret_spans(text, environment)
    return with_hidden(text, spans), len(spans)


def with_hidden(text: str, spans: Iterable[Span]) -> str:
    """The text with `HIDDEN` in place of each of the spans."""
    parts, end = list[str](), 0
    for start, stop in spans:
        parts += text[end:start], HIDDEN
        end = stop
    return "".join([*parts, text[end:]])


_harmless: set[int] = set()
"""Hashes of texts in which no form of a secret was found: most are masked repeatedly,
and a set of hashes keeps no text."""


def secret_spans(text: str, environment: Sequence[str] | None = None) -> list[Span]:
    """Where secrets are in a text, in order; what overlaps is one secret."""
    spans: list[Span] = []
    if len(text) >= LEAST_LENGTH:
        values = environment_secrets() if environment is None else environment
        spans += _of_environment(text, values)
    if not spans and hash(text) in _harmless:
        return []
    spans += _forms(text, spans)
    if not spans:
        _keep_harmless(text)
    return _merged(spans)


def _keep_harmless(text: str) -> None:
    if len(_harmless) >= MOST_HARMLESS:
        _harmless.clear()
    _harmless.add(hash(text))


def _forms(text: str, known: Iterable[Span]) -> list[Span]:
    """Where secrets are that show by their form or by a name, beside those known."""
    spans: list[Span] = []
    assigned: list[re.Match[str]] = []
    cells: list[Span] = []
    for pattern, found in _beginnings(text):
        value = found[found.lastindex or 0]
        is_plain = pattern is _SAID and _PLAIN.fullmatch(value)
        if pattern is _ASSIGNED:
            assigned.append(found)
        elif pattern is _CELL_NAME:
            cells.append(found.span())
        elif pattern is _FORM or not (is_plain or _PLACEHOLDER.fullmatch(value)):
            spans.append(found.span(found.lastindex or 0))
    spans += [*_searched(text), *_logins(text)]
    spans += _secret_cells(text, cells)
    spans += _secret_html_cells(text)
    spans += _assigned(assigned, {*known, *spans})
    if any(len(word) >= TOKEN_LENGTH for word in text.split()):
        tokens = _TOKEN.finditer(text)
        spans += (found.span() for found in tokens if is_random(found[0]))
    return spans


def _beginnings(text: str) -> Iterator[tuple[re.Pattern[str], re.Match[str]]]:
    """The matches of each pattern where one of its stems is."""
    small = text.lower()
    if len(small) != len(text):
        small = text.replace("\u0130", "i").lower()  # the one letter that gets longer
    ends: dict[int, int] = {}  # by id: the hash of a pattern reads all of it
    in_vain: dict[int, set[int]] = {}
    for number, stem in enumerate(_STEM.finditer(small)):
        start = stem.start()
        # Of many names some stand in the same text again, as one that is repeated.
        around = _around(text, start) if number > USUAL_NAMES else 0
        useless = in_vain.setdefault(around, set()) if around else set()
        for pattern in _BY_STEM[stem[0]]:
            if start < ends.get(id(pattern), 0) or id(pattern) in useless:
                continue  # within what it found, or looked for in vain before
            if found := pattern.match(text, start):
                ends[id(pattern)] = found.end()
                yield pattern, found
            else:
                useless.add(id(pattern))


def _around(text: str, start: int) -> int:
    """A number for a place in a text: the same where all that decides is the same."""
    before = min(start, BEFORE)
    return hash((before, text[start - before : start + AFTER])) or 1


def _assigned(
    all_found: Iterable[re.Match[str]], known: Collection[Span]
) -> Iterator[Span]:
    """The value assigned to a name, quotes included; without what is known already."""
    for found in all_found:
        value = found["quoted"] or found["bare"]
        is_code = found["quoted"] is None and _CODE.fullmatch(value)
        is_known = value == HIDDEN or found.span("quoted") in known
        if not (is_code or is_known or _PLACEHOLDER.fullmatch(value)):
            yield found.span(1)


def _searched(text: str) -> Iterator[Span]:
    """Where the forms are that no stem begins; each is looked for by a part of it."""
    for part, pattern in _BY_PART:
        if part in text:
            for found in pattern.finditer(text):
                if not _PLACEHOLDER.fullmatch(found[found.lastindex or 0]):
                    yield found.span(found.lastindex or 0)


def _logins(text: str) -> Iterator[Span]:
    """Where passwords are before the `@` of a host, in addresses without a scheme."""
    for at, _ in places(text, "@"):
        before = text[max(0, at - LONGEST_LOGIN) : at]
        if before and not before[-1].isspace():
            word = before.split()[-1]
            if ":" in word and (
                found := _LOGIN_WITHOUT_SCHEME.search(text, at - len(word), at + 70)
            ):
                yield found.span(1)


def _is_in_cell(name: str, value: str) -> bool:
    """True if the value of a name in a table is a secret."""
    is_none = value == HIDDEN or _PLACEHOLDER.fullmatch(value) or is_secret_name(value)
    if is_none or len(value) < LEAST_IN_CELL:
        return False
    return _CERTAIN.fullmatch(name) is not None or is_mixed(value)


def places(text: str, value: str) -> Iterator[Span]:
    """Where a text occurs in another, without overlaps."""
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


def without_secrets_in(value: Any) -> Any:
    """A JSON value with the secrets in its texts hidden, by their names too."""
    match value:
        case str():
            return without_secrets(value)[0]
        case list():
            return [without_secrets_in(each) for each in value]
        case dict():
            return {
                name: HIDDEN
                if isinstance(each, str) and is_secret_name(name)
                else without_secrets_in(each)
                for name, each in value.items()
            }
    return value


@lru_cache(1_000)
def is_secret_name(name: str) -> bool:
    """True if a text of this name is a secret: `api_key`, `db_password`, not `key`.

    So are `config["password"]` and `passwords[0]`.
    """
    last = _INDEX.sub("", name).rstrip("\"']")
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", last)
    return _NAME.fullmatch(words) is not None


def is_random(text: str) -> bool:
    """True if a text looks like a key: as random as base64, with all kinds of letters.

    Hashes and UUIDs, which are hexadecimal, do not, nor ids such as `pi_3MtwBw...`.
    """
    if _ID.fullmatch(text):
        return False
    kinds = (str.islower, str.isupper, str.isdigit)
    if any(sum(map(kind, text)) < 3 for kind in kinds):  # noqa: PLR2004
        return False
    shares = (n / len(text) for n in Counter(text).values())
    return -sum(share * math.log2(share) for share in shares) >= LEAST_ENTROPY


def _of_environment(text: str, values: Sequence[str]) -> Iterator[Span]:
    """Where secrets of this machine's environment are, also in base64 or broken."""
    is_broken = bool(values) and "\n" in text
    solid = "".join(text.replace("\\\n", "").split()) if is_broken else ""
    for value in values:
        for form in (value, *_base64_forms(value)):
            if form in text:
                yield from places(text, form)
            elif form in solid:
                broken = r"\\?\s*".join(map(re.escape, form))
                yield from (found.span() for found in re.finditer(broken, text))


@lru_cache(100)
def _base64_forms(value: str) -> tuple[str, ...]:
    """Certain characters of a secret in base64, at each of three places in a group."""
    raw, found = value.encode("utf-8", "surrogateescape"), set[str]()
    for before in range(3):
        code = b64encode(b"\0" * before + raw).decode()
        sure = code[(before * 8 + 5) // 6 : (before + len(raw)) * 8 // 6]
        found |= {sure, sure.replace("+", "-").replace("/", "_")}
    return tuple(each for each in found if len(each) >= LEAST_LENGTH)


def environment_secrets() -> list[str]:
    """The secrets of this machine's environment, the longest first.

    Folders and files are none: `PWD` is the folder in which a shell works.
    """
    named = (os.environ.get(name, "") for name in os.environ if is_secret_name(name))
    long = {each.strip() for each in named if len(each.strip()) >= LEAST_LENGTH}
    places = {v for v in long if Path(v).is_absolute() and os.path.lexists(v)}
    return sorted(long - places, key=len, reverse=True)


LONGEST_LINE = 4_000
"""Characters of a line that is read as a row of a table."""

LONGEST_NAME = 40
"""Characters of a column's name; what is longer is a sentence."""

MOST_WORDS = 4
"""Words of a column's name."""

_RULE = re.compile(r"[\s|+:=-]+")
"""A line between the rows of a table."""

_CELLS = {
    "|": re.compile(r"[^|]+"),
    "\t": re.compile(r"[^\t]+"),
    ",": re.compile(r'"(?:[^"]|"")*"|[^,]+'),
    ";": re.compile(r'"(?:[^"]|"")*"|[^;]+'),
    "": re.compile(r"\S+(?: \S+)*"),
}
"""The cells of a line by what separates them; nothing: two spaces."""

_EDGES = " \t\r\"'*_`"
"""Signs around a name or a value that are no part of it."""

_STATEMENT = re.compile(
    r"(?:select|insert|update|from|import|def|class|return|with)\b", re.IGNORECASE
)
"""A line of a program that names columns or arguments."""

_HTML_CELL = re.compile(
    r"</t[dh]>\s*<t[dh](?: [^>]{0,100})?>\s*"
    r"([^<\s](?:[^<]{1,200}?[^<\s])?)(?=\s*</t[dh]>)"
)
"""A cell of HTML after another one."""

_HEAD = re.compile(r"\w[\w .#%()/-]*")
"""The name of a column."""

_MIXED = re.compile(r"(?=\D*\d)(?=[^^]*[^\W\d_]).{5,}", re.DOTALL)
"""Letters and digits: the value of a name that may also be a word's."""

Cells = list[Span]


def _secret_cells(text: str, names: Iterable[Span]) -> Iterator[Span]:
    """Where values of secret names are in tables; `names` are where names end cells.

    Each line is read as a heading once, and as a row once.
    """
    read, covered = -1, -1
    for place, _ in names:
        start, stop = _line_at(text, place)
        if start == read or stop - start > LONGEST_LINE:
            continue
        read = start
        separator = _separator(text[start:stop])
        cells = _cells(text, start, stop, separator)
        secret = [n for n, cell in enumerate(cells) if _is_named(text, cell)]
        if not secret or len(cells) < 2:  # noqa: PLR2004  # a name and something else
            continue
        if (beside := _beside(text, cells, secret[0])) is not None:
            yield beside
        elif start >= covered and _is_heading(text, start, cells, separator):
            below = [(_bare(text, cells[each]), each) for each in secret]
            for covered, row in _rows(text, stop, len(cells), separator):
                at = start, covered
                found = ((n, _below(cells, i, row, separator, at)) for n, i in below)
                yield from _values(text, found)


def _values(text: str, found: Iterable[tuple[str, Span | None]]) -> Iterator[Span]:
    """The cells that are secrets of their names."""
    for name, cell in found:
        value = "" if cell is None else _bare(text, cell)
        if (
            cell is not None
            and len(value.split()) <= MOST_WORDS
            and _is_in_cell(name, value)
        ):
            yield _inner(text, cell)


def _secret_html_cells(text: str) -> Iterator[Span]:
    """Where values of secret names are in cells of HTML, beside their names."""
    if "</t" not in text:
        return
    for found in _HTML_CELL.finditer(text):
        before = text[max(0, found.start() - LONGEST_NAME) : found.start()]
        name = before.rpartition(">")[2].strip()
        if is_secret_name(name) and _is_in_cell(name, found[1]):
            yield found.span(1)


def is_mixed(value: str) -> bool:
    """True if a value has letters and digits, as words of a language have not."""
    return _MIXED.fullmatch(value) is not None


def _line_at(text: str, place: int) -> Span:
    start = text.rfind("\n", 0, place) + 1
    stop = text.find("\n", place)
    return start, len(text) if stop < 0 else stop


def _separator(line: str) -> str:
    return next((each for each in "|\t,;" if each in line.strip(" ,;")), "")


def _cells(text: str, start: int, stop: int, separator: str) -> Cells:
    """The cells of a line, without the empty ones at its edges."""
    cells = [each.span() for each in _CELLS[separator].finditer(text, start, stop)]
    if separator != "|":
        return cells
    return [each for each in cells if text[slice(*each)].strip()]


def _bare(text: str, cell: Span) -> str:
    return text[slice(*cell)].strip(_EDGES)


def _inner(text: str, cell: Span) -> Span:
    """A cell without what stands around its value."""
    value = text[slice(*cell)]
    start = cell[0] + len(value) - len(value.lstrip(_EDGES))
    return start, start + len(value.strip(_EDGES))


def _is_named(text: str, cell: Span) -> bool:
    name = _bare(text, cell)
    is_short = len(name) <= LONGEST_NAME and len(name.split()) <= MOST_WORDS
    return is_short and is_secret_name(name)


def _beside(text: str, cells: Cells, number: int) -> Span | None:
    """The value beside a name: the last cell of a row that has nothing else.

    A row of a frame begins with its number.
    """
    is_last = number == len(cells) - 2
    is_first = number == 0 or (number == 1 and _bare(text, cells[0]).isdecimal())
    if not (is_last and is_first):
        return None
    value = _bare(text, cells[number + 1])
    is_one = (
        " " not in value
        and is_mixed(value)
        and _is_in_cell(_bare(text, cells[number]), value)
    )
    return _inner(text, cells[number + 1]) if is_one else None


def _is_heading(text: str, start: int, cells: Cells, separator: str) -> bool:
    """True if a line names columns: no row below others, no sentence, no program."""
    line = text[start : cells[-1][1]]
    if _STATEMENT.match(line.strip()) or not all(
        len(name) <= LONGEST_NAME and _HEAD.fullmatch(name)
        for name in (_bare(text, each) for each in cells)
    ):
        return False
    above = _line_at(text, start - 1) if start else (0, 0)
    if separator in text[slice(*above)]:
        width = len(_cells(text, *above, separator))
        is_row = width > 1 if separator == "" else width == len(cells)
        if is_row and not _RULE.fullmatch(text[slice(*above)]):
            return False
    if separator == "|":
        return "| " in line or " |" in line
    has_spaces = any(" " in _bare(text, each) for each in cells)
    return separator != "," or ", " not in line or not (has_spaces or len(cells) < 3)  # noqa: PLR2004


def _rows(
    text: str, stop: int, width: int, separator: str
) -> Iterator[tuple[int, Cells]]:
    """The rows below a heading, each with where it begins; lines between them not."""
    while stop < len(text):
        start, stop = _line_at(text, stop + 1)
        line = text[start:stop]
        if _RULE.fullmatch(line) and line.strip():
            continue
        if len(line) > LONGEST_LINE or (separator and separator not in line):
            return
        row = _cells(text, start, stop, separator)
        is_row = len(row) == width if separator else bool(row)
        if not is_row:
            return
        yield start, row


def _below(
    cells: Cells, number: int, row: Cells, separator: str, lines: Span
) -> Span | None:
    """The cell of a row below a column's name; without separators by where it is."""
    if separator:
        return row[number]
    head, line = lines
    left, right = cells[number][0] - head, cells[number][1] - head
    for start, stop in row:
        if start - line == left or stop - line == right:
            return start, stop
    return None
