"""Generated analysis sessions, and questions whose right number depends on what holds.

A person and an assistant work on one small table. The person defines terms (which rows
count, what is large, which mean is typical), and then updates a definition, rolls it
back, supposes another for one question, rejects a proposed one, quotes that of others,
or makes a new term of two others. Cells are executed, so that their outputs are true.
Each question has the right number, and those of a reader who believes a stale, a
hypothetical or a rejected definition; all of them differ.
"""

import ast
import contextlib
import io
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import numpy as np
import pandas as pd

from nbchat.conversation.entries import Entry

ROWS = 400
QUESTIONS = 10
SHORT_TURNS, LONG_TURNS = (40, 60), (200, 200)
LONG_EVENTS = 7
"""Changes, suppositions and rumours about each definition in a long session."""

TOLERANCE = 0.006
"""By how much an answer, rounded to two decimals, may differ."""

Belief = Literal["right", "stale", "hypothetical", "rejected"]
Namespace = dict[str, Any]


@dataclass(frozen=True)
class Theme:
    """Words for the table and what is in it."""

    table: str
    one: str
    many: str
    id: str
    date: str
    group: str
    item: str
    state: str
    amount: str
    size: str
    rate: str
    extra: str
    area: str
    bulk: str
    groups: tuple[str, ...]
    items: tuple[str, ...]
    states: tuple[str, ...]


THEMES = (
    Theme(
        *("orders", "order", "orders", "order_id", "ordered", "region", "product"),
        *("status", "price", "units", "discount", "rating", "coast", "bulk"),
        ("North", "East", "South", "West", "Centre", "Islands"),
        ("lamp", "desk", "chair", "shelf", "rug", "mirror", "clock"),
        ("paid", "open", "cancelled", "returned"),
    ),
    Theme(
        *("visits", "visit", "visits", "visit_id", "day", "ward", "doctor"),
        *("outcome", "cost", "minutes", "distance", "pain", "old wing", "extended"),
        ("A1", "A2", "B1", "B2", "C1", "C3"),
        ("Adler", "Brandt", "Costa", "Dubois", "Eriksen", "Fontana", "Gupta"),
        ("treated", "referred", "no_show", "duplicate"),
    ),
    Theme(
        *("samples", "sample", "samples", "sample_id", "taken", "site", "probe"),
        *("quality", "flow", "depth", "noise", "salinity", "upper river", "deep"),
        ("Alder", "Birch", "Cedar", "Elm", "Fir", "Hazel"),
        ("P-11", "P-12", "P-20", "P-31", "P-32", "P-45", "P-50"),
        ("good", "fair", "flagged", "rerun"),
    ),
)


@dataclass(frozen=True)
class Slot:
    """A term that the person defines."""

    name: str
    label: str
    clause: str
    """How a person says it; `{v}` is the value."""
    question: str
    code: str
    """The number that is asked for; `rows` are those that count, `{v}` the value."""
    choices: tuple[Any, ...]
    parts: tuple[str, ...] = ()
    """The terms of which it is made."""


def table_of(theme: Theme, chance: random.Random) -> pd.DataFrame:
    """A table of a year, with some missing values."""
    numbers = np.random.default_rng(chance.randrange(2**32))
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(
        np.sort(numbers.integers(0, 365, ROWS)), "D"
    )
    extra = numbers.integers(1, 11, ROWS).astype(float)
    extra[numbers.random(ROWS) < 0.2] = np.nan
    return pd.DataFrame(
        {
            theme.id: np.arange(1001, 1001 + ROWS),
            theme.date: days,
            theme.group: numbers.choice(theme.groups, ROWS),
            theme.item: numbers.choice(theme.items, ROWS),
            theme.state: numbers.choice(theme.states, ROWS, p=(0.5, 0.2, 0.18, 0.12)),
            theme.amount: numbers.gamma(2.0, 60.0, ROWS).round(2),
            theme.size: numbers.integers(1, 61, ROWS),
            theme.rate: numbers.random(ROWS).round(2),
            theme.extra: extra,
        }
    )


def slots_of(theme: Theme, chance: random.Random) -> list[Slot]:
    """Eleven terms in random order, four of them always, and two made of these."""
    made = [*_rows_that_count(theme), *_conditions(theme), *_numbers(theme)]
    made += _lists(theme, chance)
    fixed = [slot for slot in made if slot.name in ("large", "area", "bulk", "season")]
    others = [slot for slot in made if slot not in fixed]
    chosen = fixed + chance.sample(others, 7)
    return [*chance.sample(chosen, len(chosen)), *_composed(theme)]


def _rows_that_count(t: Theme) -> Iterator[Slot]:
    dates = [f"2024-{month:02}-{day:02}" for month in range(2, 8) for day in (1, 15)]
    yield Slot(
        *("first_day", "the first day that counts"),
        f"only {t.many} from {{v}} on count",
        f"How many {t.many} count?",
        "len(rows)",
        tuple(dates),
    )
    yield Slot(
        *("left_out", f"the {t.group} that is left out"),
        f"the {t.group} {{v}} does not count, because it is a test, and all others do",
        f"What is the total {t.size} of the {t.many} that count?",
        f'rows["{t.size}"].sum()',
        t.groups,
    )
    yield Slot(
        *("void", f"the {t.state} that does not count"),
        f"{t.many} whose {t.state} is {{v}} do not count, and all others do",
        f"What is the total {t.amount} of the {t.many} that count?",
        f'rows["{t.amount}"].sum()',
        t.states,
    )


def _conditions(t: Theme) -> Iterator[Slot]:
    yield Slot(
        *("large", "what large means"),
        f"a large {t.one} has a {t.amount} of at least {{v}}",
        f"How many large {t.many} are there?",
        f'(rows["{t.amount}"] >= {{v}}).sum()',
        tuple(range(80, 260, 15)),
    )
    yield Slot(
        *("bulk", f"what {t.bulk} means"),
        f"{t.bulk} {t.many} are those with {t.size} above {{v}}",
        f"How many {t.bulk} {t.many} are there?",
        f'(rows["{t.size}"] > {{v}}).sum()',
        tuple(range(12, 56, 4)),
    )
    yield Slot(
        *("season", "the season"),
        "the season is the months {v}, both included",
        f"How many {t.many} are in the season?",
        f'rows["{t.date}"].dt.month.between(*{{v}}).sum()',
        tuple([a, b] for a in (5, 6, 7, 8) for b in (9, 10, 11)),
    )


def _numbers(t: Theme) -> Iterator[Slot]:
    yield Slot(
        *("typical", f"the typical {t.amount}"),
        f"the typical {t.amount} is the {{v}}",
        f"What is the typical {t.amount}?",
        f'rows["{t.amount}"].agg({{v}})',
        ("mean", "median", "max", "min"),
    )
    yield Slot(
        *("euros", f"the conversion of {t.amount} to euros"),
        f"a {t.amount} of one is {{v}} euros",
        f"What is the total {t.amount} in euros?",
        f'(rows["{t.amount}"] * {{v}}).sum()',
        tuple(n / 100 for n in range(62, 140, 7)),
    )
    yield Slot(
        *("fee", "the fee"),
        f"the fee is {{v}} percent of the {t.amount}",
        f"How much is the fee of all {t.many} together?",
        f'(rows["{t.amount}"] * {{v}} / 100).sum()',
        tuple(n / 2 for n in range(3, 40, 3)),
    )
    yield Slot(
        *("weight", f"the weight of {t.rate} in the score"),
        f"the score is {t.size} plus {{v}} times {t.rate}",
        f"What is the mean score of the {t.many} that count?",
        f'(rows["{t.size}"] + {{v}} * rows["{t.rate}"]).mean()',
        tuple(range(5, 60, 5)),
    )
    yield Slot(
        *("missing", f"a missing {t.extra}"),
        f"a missing {t.extra} counts as {{v}}",
        f"What is the mean {t.extra} of the {t.many} that count?",
        f'rows["{t.extra}"].fillna({{v}}).mean()',
        tuple(range(11)),
    )


def _lists(t: Theme, chance: random.Random) -> Iterator[Slot]:
    pairs = [
        list(pair) for pair in zip(t.groups, t.groups[1:] + t.groups, strict=False)
    ]
    lists = [sorted(chance.sample(t.items, 3)) for _ in range(12)]
    yield Slot(
        *("area", f"what the {t.area} is"),
        f"the {t.area} is {t.group} {{v}}",
        f"How many {t.many} are in the {t.area}?",
        f'rows["{t.group}"].isin({{v}}).sum()',
        tuple(pairs),
    )
    yield Slot(
        *("shortlist", "the shortlist"),
        f"the shortlist is the {t.item}s {{v}}",
        f"How many {t.many} have a {t.item} of the shortlist?",
        f'rows["{t.item}"].isin({{v}}).sum()',
        tuple(lists),
    )


def _composed(t: Theme) -> Iterator[Slot]:
    yield Slot(
        *("key", "what key means"),
        f"a key {t.one} is a large one in the {t.area}",
        f"How many key {t.many} are there?",
        f'((rows["{t.amount}"] >= {{large}}) & rows["{t.group}"].isin({{area}})).sum()',
        ("",),
        ("large", "area"),
    )
    yield Slot(
        *("peak", "what peak means"),
        f"peak {t.many} are {t.bulk} ones in the season",
        f"How many peak {t.many} are there?",
        f'((rows["{t.size}"] > {{bulk}}) & '
        f'rows["{t.date}"].dt.month.between(*{{season}})).sum()',
        ("",),
        ("bulk", "season"),
    )


BASE = {
    "first_day": ("date", ">="),
    "left_out": ("group", "!="),
    "void": ("state", "!="),
}
"""The terms that say which rows count, by column and comparison."""

PLANS = (
    ("define",),
    ("define", "update"),
    ("define", "update"),
    ("define", "update", "update"),
    ("define", "update", "rollback"),
    ("define", "update", "update", "rollback"),
    ("define", "suppose"),
    ("define", "update", "suppose"),
    ("define", "reject"),
    ("define", "hearsay"),
    ("define", "adopt"),
)
"""What becomes of each term in a short session."""

DEFINE = (
    "For everything that follows, {c}.",
    "By the way, {c}.",
    "Before you go on: {c}.",
    "In our team {c}; please use that.",
)
UPDATE = (
    "Correction: {c}.",
    "I was wrong about {label}: {c}.",
    "We changed our minds, {c} from now on.",
)
SUPPOSE = (
    "Just for this one question, suppose {c}. {q}",
    "What if {c}? Only this once: {q}",
    "Somebody asked me what happens if {c}. {q} This changes nothing for us.",
)
HEARSAY = (
    "Marta's slides say that {c}; I do not know where she has it from. {q}",
    "I heard that in the other office {c}. That is their business. {q}",
)
SUGGEST = "Shall I assume from now on that {c}?"
REJECT = ("No, leave {label} as it was. {q}", "No. {q}", "Please do not. {q}")
ROLLBACK = {
    "first": "About {label}: go back to what we had at the very beginning.",
    "before": "About {label}: the last change was a mistake, take it back.",
}
ADOPT = (
    "Good, we keep that for everything from now on.",
    "Fine. Let it stay that way.",
)
NOTED = ("Noted.", "All right, I will use that.", "Understood.")


@dataclass
class Term:
    """What was said about one slot."""

    slot: Slot
    changes: list[Any] = field(default_factory=list)
    """The values that were in force, the newest last."""
    hypothetical: list[Any] = field(default_factory=list)
    rejected: list[Any] = field(default_factory=list)

    @property
    def used(self) -> list[Any]:
        """All values that were named."""
        return [*self.changes, *self.hypothetical, *self.rejected]

    def others(self) -> Iterator[tuple[Belief, Any]]:
        """What a reader may believe that does not hold."""
        kinds: tuple[tuple[Belief, list[Any]], ...] = (
            ("rejected", self.rejected),
            ("hypothetical", self.hypothetical),
            ("stale", self.changes[:-1]),
        )
        for belief, values in kinds:
            yield from ((belief, v) for v in values if v != self.changes[-1])


@dataclass(frozen=True)
class Question:
    """A question, and the numbers of what a reader may believe."""

    text: str
    cell: str
    """A cell that gives the right number."""
    numbers: tuple[tuple[Belief, float], ...]

    def belief(self, answer: object) -> Belief | Literal["other"]:
        """What a reader believed who gave this answer."""
        try:
            given = float(answer)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return "other"
        near = (b for b, n in self.numbers if abs(given - n) <= TOLERANCE)
        return next(near, "other")


@dataclass(frozen=True)
class AnalysisSession:
    """A session by turns, and the questions after it."""

    name: str
    turns: tuple[tuple[Entry, ...], ...]
    namespaces: tuple[Namespace, ...]
    """The kernel's variables after each turn; no cell changes an object."""
    questions: tuple[Question, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries."""
        return tuple(entry for turn in self.turns for entry in turn)

    @property
    def namespace(self) -> Namespace:
        """The kernel's variables in the end."""
        return self.namespaces[-1]


@cache
def sessions(*, short: int = 12, long: int = 3) -> tuple[AnalysisSession, ...]:
    """Sessions of 40 to 60 turns, and then some of 200."""
    many = [
        session_of(f"analysis-{number:02}", number, SHORT_TURNS, is_long=False)
        for number in range(short)
    ]
    few = [
        session_of(f"analysis-long-{number}", number, LONG_TURNS, is_long=True)
        for number in range(long)
    ]
    return (*many, *few)


def session_of(
    name: str, number: int, turns: tuple[int, int], *, is_long: bool
) -> AnalysisSession:
    """The session of a name; it is made again until all numbers differ."""
    for attempt in range(100):
        chance = random.Random(f"{name} {attempt}")
        writer = _Writer(THEMES[number % len(THEMES)], chance)
        writer.write(chance.randint(*turns), is_long=is_long)
        questions = writer.questions()
        if len(questions) == QUESTIONS:
            return AnalysisSession(
                name,
                tuple(writer.turns),
                tuple(writer.namespaces),
                tuple(questions),
            )
    raise ValueError(f"{name}: no session has {QUESTIONS} questions")


def run_cell(code: str, names: Namespace) -> tuple[str, Any]:
    """What a cell prints and shows, and the value of its last expression."""
    tree, value = ast.parse(code), None
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    wide = pd.option_context("display.max_columns", 20, "display.width", 120)
    with wide, contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "<cell>", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
        shown = "" if value is None else repr(value)
    return (printed.getvalue() + shown).strip() or "(no output)", value


class _Writer:
    """Writes one session turn by turn."""

    def __init__(self, theme: Theme, chance: random.Random) -> None:
        self.theme, self.chance = theme, chance
        self.table = table_of(theme, chance)
        self.names: Namespace = {"pd": pd, "np": np, theme.table: self.table}
        self.terms = {slot.name: Term(slot) for slot in slots_of(theme, chance)}
        self.turns: list[tuple[Entry, ...]] = []
        self.namespaces: list[Namespace] = []
        self._rows = ""
        """The cell line by which `rows` was last defined."""

    def write(self, turns: int, *, is_long: bool) -> None:
        """Write so many turns: what is said about terms, and work in between."""
        self._work(f"The table {self.theme.table} is loaded." + " {}", 0)
        queue = self._events(is_long=is_long)
        for place, (name, event) in enumerate(queue):
            left = len(queue) - place
            while turns - len(self.turns) > 2 * left and self.chance.random() < 0.7:
                self._work()
            getattr(self, f"_{event}")(self.terms[name])
        while len(self.turns) < turns:
            self._work()

    def _events(self, *, is_long: bool) -> list[tuple[str, str]]:
        """What is said about which term, in an order that respects each one's own."""
        names = [name for name, term in self.terms.items() if not term.slot.parts]
        plans = self.chance.sample(PLANS, len(PLANS))
        if is_long:
            plans = [self._long_plan() for _ in names]
        waiting = {n: list(p) for n, p in zip(names, plans, strict=True)}
        made: list[tuple[str, str]] = []
        while waiting:
            name = self.chance.choice(list(waiting))
            made.append((name, waiting[name].pop(0)))
            waiting = {n: plan for n, plan in waiting.items() if plan}
        for name, term in self.terms.items():
            if term.slot.parts:
                first = max(made.index((part, "define")) for part in term.slot.parts)
                made.insert(self.chance.randint(first + 1, len(made)), (name, "define"))
        return made

    def _long_plan(self) -> tuple[str, ...]:
        kinds = (
            "update",
            "update",
            "rollback",
            "suppose",
            "reject",
            "hearsay",
            "adopt",
        )
        rest = [self.chance.choice(kinds) for _ in range(LONG_EVENTS - 2)]
        return ("define", "update", *rest)

    def _define(self, term: Term) -> None:
        self._change(term, self._new(term), self.chance.choice(DEFINE))

    def _update(self, term: Term) -> None:
        self._change(term, self._new(term), self.chance.choice(UPDATE))

    def _rollback(self, term: Term) -> None:
        kind = "first" if term.changes[0] != term.changes[-1] else "before"
        if len(set(map(str, term.changes))) > 2 and self.chance.random() < 0.5:
            kind = "before"
        earlier = [v for v in term.changes if v != term.changes[-1]]
        if earlier:
            value = earlier[0] if kind == "first" else term.changes[-2]
            self._change(term, value, ROLLBACK[kind])

    def _change(self, term: Term, value: Any, phrase: str) -> None:
        """A message that changes what holds, mostly with a question about it."""
        term.changes.append(value)
        text = phrase.format(c=self._clause(term, value), label=term.slot.label)
        if self.chance.random() < 0.35:
            answer = Entry("assistant", self.chance.choice(NOTED))
            self._say(Entry("user", text), answer)
            return
        self._ask(f"{text} {term.slot.question}", self._code(term.slot))

    def _suppose(self, term: Term) -> None:
        value = self._new(term)
        term.hypothetical.append(value)
        self._ask(self._supposed(term, value), self._code(term.slot, value))

    def _adopt(self, term: Term) -> None:
        """A supposition that the person then keeps."""
        value = self._new(term)
        self._ask(self._supposed(term, value, 2), self._code(term.slot, value))
        term.changes.append(value)
        answer = Entry("assistant", self.chance.choice(NOTED))
        self._say(Entry("user", self.chance.choice(ADOPT)), answer)

    def _supposed(self, term: Term, value: Any, phrases: int = 3) -> str:
        phrase = self.chance.choice(SUPPOSE[:phrases])
        return phrase.format(c=self._clause(term, value), q=term.slot.question)

    def _reject(self, term: Term) -> None:
        value = self._new(term)
        term.rejected.append(value)
        asked = SUGGEST.format(c=self._clause(term, value))
        self._work(after=asked)
        phrase = self.chance.choice(REJECT)
        self._work(lambda q: phrase.format(label=term.slot.label, q=q))

    def _hearsay(self, term: Term) -> None:
        value = self._new(term)
        term.rejected.append(value)
        phrase, clause = self.chance.choice(HEARSAY), self._clause(term, value)
        self._work(lambda q: phrase.format(c=clause, q=q))

    def _new(self, term: Term) -> Any:
        """A value that was not named yet, or if all were, one that does not hold."""
        unused = [v for v in term.slot.choices if v not in term.used]
        others = [v for v in term.slot.choices if v not in term.changes[-1:]]
        return self.chance.choice(unused or others or [*term.slot.choices])

    def _clause(self, term: Term, value: Any) -> str:
        return term.slot.clause.format(v=_spoken(value))

    def _code(self, slot: Slot, *supposed: Any) -> str:
        """The cell for a slot's number as things are, or as is supposed."""
        held = self._held()
        if supposed:
            held[slot.name] = supposed[0]
        rows = rows_code(self.theme, held)
        code = number_code(slot, held)
        if supposed and slot.name in BASE:
            return f"test{rows.removeprefix('rows')}\n{code.replace('rows', 'test')}"
        if "{v}" in slot.code and self.chance.random() < 0.4:
            value = repr(held[slot.name])
            code = f"{slot.name} = {value}\n{slot.code.format(v=slot.name)}"
        lines = [code] if rows == self._rows else [rows, code]
        self._rows = rows
        return "\n".join(lines)

    def _held(self) -> dict[str, Any]:
        return {n: term.changes[-1] for n, term in self.terms.items() if term.changes}

    def _ask(self, text: str, code: str, after: str = "") -> None:
        """A turn with a cell."""
        output, value = run_cell(code, self.names)
        call_id = f"cell_{len(self.turns)}"
        answer = "Here it is."
        if isinstance(value, int | float | np.number):
            answer = f"It is {_number(value):,.2f}.".replace(".00.", ".")
        arguments = json.dumps({"code": code})
        self._say(
            Entry("user", text),
            Entry("assistant", "", call_id, "run_cell", arguments),
            Entry("tool", output, call_id, "run_cell"),
            Entry("assistant", f"{answer} {after}".strip()),
        )

    def _say(self, *entries: Entry) -> None:
        self.turns.append(entries)
        self.namespaces.append(dict(self.names))

    def _work(
        self,
        text: str | Callable[[str], str] = "{}",
        kind: int | None = None,
        *,
        after: str = "",
    ) -> None:
        """A turn that has nothing to do with what holds."""
        works = _works(self.theme, self.chance)
        question, code = works[kind] if kind is not None else self.chance.choice(works)
        asked = text(question) if callable(text) else text.replace("{}", question)
        self._ask(asked, code, after)

    def questions(self) -> list[Question]:
        """Questions about the terms with most beliefs; fewer where numbers are equal."""
        terms = sorted(self.terms.values(), key=lambda t: -len([*self._beliefs(t)]))
        found = (self._question(term) for term in terms)
        return [question for question in found if question is not None][:QUESTIONS]

    def _beliefs(self, term: Term) -> Iterator[tuple[Belief, dict[str, Any]]]:
        """What a reader may hold true instead, about the term or its parts."""
        held = self._held()
        for part in term.slot.parts or (term.slot.name,):
            for belief, value in self.terms[part].others():
                yield belief, held | {part: value}

    def _question(self, term: Term) -> Question | None:
        cell = self._cell(term.slot, self._held())
        right = self._value(cell)
        numbers: list[tuple[Belief, float]] = [("right", right)]
        for belief, held in self._beliefs(term):
            number = self._value(self._cell(term.slot, held))
            if abs(number - right) <= 2 * TOLERANCE:
                return None
            numbers.append((belief, number))
        return Question(term.slot.question, cell, tuple(numbers))

    def _cell(self, slot: Slot, held: Mapping[str, Any]) -> str:
        return f"{rows_code(self.theme, held)}\n{number_code(slot, held)}"

    def _value(self, cell: str) -> float:
        names: Namespace = {self.theme.table: self.table, "pd": pd}
        return _number(run_cell(cell, names)[1])


def rows_code(theme: Theme, held: Mapping[str, Any]) -> str:
    """The line that selects the rows that count."""
    table = theme.table
    conditions = [
        f'({table}["{getattr(theme, column)}"] {comparison} {held[name]!r})'
        for name, (column, comparison) in BASE.items()
        if name in held
    ]
    return (
        f"rows = {table}[{' & '.join(conditions)}]" if conditions else f"rows = {table}"
    )


def number_code(slot: Slot, held: Mapping[str, Any]) -> str:
    """The expression of a slot's number."""
    values = {name: repr(value) for name, value in held.items()}
    return slot.code.format(v=values.get(slot.name, ""), **values)


def _number(value: Any) -> float:
    return round(float(value), 2)


def _spoken(value: Any) -> str:
    """A value as a person says it."""
    if not isinstance(value, list):
        return str(value)
    *most, last = map(str, value)
    joint = " to " if isinstance(value[0], int) else " and "
    return ", ".join(most) + joint + last


def _works(t: Theme, chance: random.Random) -> Sequence[tuple[str, str]]:
    """Questions about the whole table, and their cells."""
    count, number = chance.randint(5, 9), 1001 + chance.randrange(ROWS)
    table = t.table
    return (
        ("Which columns does it have?", f"{table}.info()"),
        (f"Show any {count} rows.", f"{table}.sample({count}, random_state={count})"),
        (f"Show the {t.one} {number}.", f'{table}[{table}["{t.id}"] == {number}].T'),
        *_about_columns(t, chance),
        *_tables(t),
        *_choices(t, chance, count),
    )


def _about_columns(t: Theme, chance: random.Random) -> Iterator[tuple[str, str]]:
    column = chance.choice((t.amount, t.rate, t.extra))
    by, table = chance.choice((t.group, t.item, t.state)), t.table
    yield (
        f"In the whole table, what is the mean {column} by {by}?",
        f'{table}.groupby("{by}")["{column}"].mean().round(2)',
    )
    yield (
        f"Describe {column} over the whole table.",
        f'{table}["{column}"].describe().round(2)',
    )
    yield (
        f"How are the {t.many} of the whole table spread over {by}?",
        f'{table}["{by}"].value_counts()',
    )
    yield (
        f"Is {t.size} related to {column}?",
        f'{table}[["{t.size}", "{column}"]].corr().round(3)',
    )


def _tables(t: Theme) -> Iterator[tuple[str, str]]:
    table, crossed = t.table, f"by_{t.state}"
    yield (
        f"Make a table of {t.group} by {t.state} for the whole table.",
        f'{crossed} = pd.crosstab({table}["{t.group}"], {table}["{t.state}"])\n{crossed}',
    )
    by_month = f'{table}.groupby({table}["{t.date}"].dt.month)["{t.amount}"].sum()'
    yield (
        f"What was {t.amount} per month, all rows?",
        f"monthly = {by_month}\nmonthly.round(1)",
    )


def _choices(t: Theme, chance: random.Random, count: int) -> Iterator[tuple[str, str]]:
    column, group = chance.choice((t.amount, t.size, t.rate)), chance.choice(t.groups)
    item, state, table = chance.choice(t.items), chance.choice(t.states), t.table
    yield (
        f"Which {count} have the highest {column} of all in {group}?",
        f'{table}[{table}["{t.group}"] == "{group}"].nlargest({count}, "{column}")',
    )
    yield (
        f"How often was {item} {state}, counting every row?",
        f'(({table}["{t.item}"] == "{item}") & ({table}["{t.state}"] == "{state}")).sum()',
    )
