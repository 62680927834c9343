"""Two generators of texts with values whose whole extent is known.

`templated` writes amounts, dates and ids by locale and form into short sentences.
`inserted` puts values at random words of sentences from real meetings and notebooks.
"""

import gzip
import json
import random
import re
import string
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).parents[1] / "data"


class Case(NamedTuple):
    """A text, the value that was written into it, and whether that is an amount."""

    text: str
    written: str
    is_amount: bool = False


LOCALES = {
    "en-US": (",", ".", "${}"),
    "en-IN": ("in", ".", "₹{}"),
    "de-DE": (".", ",", "{} €"),
    "de-CH": ("'", ".", "CHF {}"),
    "fr-FR": ("\u202f", ",", "{}\u00a0€"),
    "fr-typed": (" ", ",", "{} €"),
    "ru-RU": ("\u00a0", ",", "{} ₽"),
    "ja-JP": (",", "", "¥{}"),
    "sv-SE": (" ", ",", "{} kr"),
    "code": (",", ".", "{} USD"),
    "pt-BR": (".", ",", "R$ {}"),
    "plain": ("", ".", "{}"),
    "grouped": (",", ".", "{}"),
    "python": ("_", ".", "{}"),
}
"""The sign between groups of digits, the decimal point, and where the currency is."""

SENTENCES = (
    "The total is {}.",
    "Revenue ({}) rose.",
    "- sum: {}\n- next",
    "We paid {}, then waited",
    "Es waren {}; mehr nicht.",
    "| Berlin | {} | open |",
    "请支付{}。",
    "**{}**",
    "{}",
    "Is it {}?",
)


def templated(count: int, seed: int = 0) -> Iterator[Case]:
    """Values by locale and form, each in one of a few sentences."""
    chance = random.Random(seed)
    for _ in range(count):
        if chance.random() < 0.6:
            group, point, currency = LOCALES[chance.choice(list(LOCALES))]
            written = currency.format(_grouped(chance, group, point))
            sign = chance.choice(("", "", "", "-"))
            yield Case(chance.choice(SENTENCES).format(sign + written), written, True)
        else:
            written = chance.choice(FORMS)(chance)
            yield Case(chance.choice(SENTENCES).format(written), written)


def _grouped(chance: random.Random, group: str, point: str) -> str:
    digits = str(chance.randrange(1_000, 10 ** chance.randint(4, 10)))
    if group == "in":
        head, tail = digits[:-3], digits[-3:]
        pairs = re.findall(r"\d{1,2}", head[::-1])
        whole = ",".join([*(pair[::-1] for pair in pairs[::-1]), tail])
    else:
        parts = re.findall(r"\d{1,3}", digits[::-1])
        whole = group.join(part[::-1] for part in parts[::-1])
    has_cents = bool(point) and chance.random() < 0.5
    return f"{whole}{point}{chance.randrange(100):02}" if has_cents else whole


def _day(chance: random.Random) -> tuple[int, int, int]:
    return chance.randint(1990, 2039), chance.randint(1, 12), chance.randint(1, 28)


def _iso(chance: random.Random) -> str:
    year, month, day = _day(chance)
    clock = f"{chance.randint(0, 23):02}:{chance.randint(0, 59):02}"
    tail = chance.choice(("", f"T{clock}Z", f" {clock}:07", f"T{clock}:00+02:00"))
    return f"{year}-{month:02}-{day:02}{tail}"


def _numeric_day(chance: random.Random) -> str:
    year, month, day = _day(chance)
    form = chance.choice(("{d:02}.{m:02}.{y}", "{m}/{d}/{y}", "{d}-{m}-{y}"))
    return form.format(y=year, m=month, d=day)


def _named_day(chance: random.Random) -> str:
    year, _, day = _day(chance)
    month = chance.choice(("January", "Feb", "March", "Sept", "Nov", "December"))
    forms = ("{m} {d}, {y}", "{d} {m} {y}", "{m} {d}")
    return chance.choice(forms).format(y=year, m=month, d=day)


def _letters(chance: random.Random, count: int, alphabet: str) -> str:
    return "".join(chance.choices(alphabet, k=count))


def _id(chance: random.Random) -> str:
    number = chance.randrange(10, 10**7)
    prefix = chance.choice(("#W", "INC00", "T-", "SO-", "INV-2024-", "P_", "order_"))
    return f"{prefix}{number}"


def _hash(chance: random.Random) -> str:
    digits = _letters(chance, 32, "0123456789abcdef")
    dashed = "-".join(
        digits[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
    )
    return chance.choice((f"a1{digits[:8]}", dashed))


def _iban(chance: random.Random) -> str:
    groups = [_letters(chance, 4, string.digits) for _ in range(chance.randint(2, 5))]
    return " ".join(
        [f"{chance.choice(('DE', 'FR', 'NL'))}{chance.randint(10, 99)}", *groups]
    )


def _path(chance: random.Random) -> str:
    stem = _letters(chance, 5, string.ascii_lowercase)
    forms = (
        "./scripts/{}.sh",
        "/data/{}.csv",
        "src/app/{}.py",
        "C:\\data\\{}",
        "{}.csv",
    )
    return chance.choice(forms).format(stem)


def _name(chance: random.Random) -> str:
    name = chance.choice(("Growth Rate", "Open", "sys_created_on", "Umsatz je Kopf"))
    return chance.choice(('df["{}"]', "row['{}']")).format(name)


def _version(chance: random.Random) -> str:
    return f"{chance.randint(0, 9)}.{chance.randint(0, 40)}.{chance.randint(0, 9)}"


FORMS = (_iso, _numeric_day, _named_day, _id, _hash, _iban, _path, _name, _version)


@cache
def _real_sentences() -> tuple[str, ...]:
    texts = []
    for name in ("meetings_qmsum", "meetings_retrieval"):
        rows = gzip.decompress((DATA / f"{name}.jsonl.gz").read_bytes()).decode()
        for row in rows.splitlines()[:4]:
            texts += [each["content"] for each in json.loads(row)["messages"]]
    sentences = (s for text in texts for s in re.split(r"(?<=[.!?])\s+", text))
    return tuple(s for s in sentences if 40 < len(s) < 200 and not re.search(r"\d", s))


NUMBER_FORMATS = (
    "{:,}",
    "{:,.2f}",
    "${:,.2f}",
    "€{:,}",
    "{:,} EUR",
    "{:.3f}",
    "{:.1f} %",
)


def inserted(count: int, seed: int = 0) -> Iterator[Case]:
    """Real sentences with a word replaced by a value made by digits at random."""
    chance = random.Random(seed)
    for _ in range(count):
        words = chance.choice(_real_sentences()).split()
        at = chance.randrange(1, len(words))
        is_amount = chance.random() < 0.5
        written = _number(chance) if is_amount else _token(chance)
        end = chance.choice(("", "", ",", ".", ";", " ?", ")"))
        words[at] = f"({written})" if end == ")" else f"{written}{end}"
        yield Case(" ".join(words), written, is_amount)


def _number(chance: random.Random) -> str:
    form = chance.choice(NUMBER_FORMATS)
    number = round(chance.lognormvariate(9, 4), 2)
    written = form.format(number if "f" in form else int(number))
    swapped = written.translate(str.maketrans(",.", ".,"))
    return swapped if chance.random() < 0.3 else written


def _token(chance: random.Random) -> str:
    """Runs of letters and digits between signs, as ids, stamps and files have."""
    letters, digits = string.ascii_uppercase, string.digits
    shape = chance.choice(
        ("LLDDDD", "#DDDDD", "L-DD", "LLL-DDDD-DD", "lll_DDDD", "LDLDLD", "l@l.lll",
         "DDD-DDD-DDDD", "vD.D.DD", "lll/ll_D.py", "~/l/ll.txt", "DD:DD", "LD")
    )  # fmt: skip
    shape = shape.replace("DD:DD", f"{chance.randint(10, 23)}:{chance.randint(10, 59)}")
    if "@" in shape:
        return f"{_letters(chance, 5, string.ascii_lowercase)}@mail.example.org"
    made = {"L": letters, "D": digits.replace("0", ""), "l": string.ascii_lowercase}
    kept = shape.rpartition(".")[2] if shape.endswith((".py", ".txt")) else ""
    body = shape[: len(shape) - len(kept)]
    return "".join(chance.choice(made[c]) if c in made else c for c in body) + kept
