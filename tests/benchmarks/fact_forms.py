"""The same facts written in four forms: their tokens, and what fits the same tokens.

    python tests/benchmarks/fact_forms.py
    python tests/benchmarks/fact_forms.py --tokens 700 --files FOLDER

Each desk of six recorded conversations is cut at 75 % of its tokens and its facts are
collected. The first table writes the facts of one budget in each form. In the second
each form has the facts that fit the budget in it. "must" and "bound" are those of
`retention.py`. With `--files` the blocks are written into a folder, so that readers can
answer the probes of `reader.py` with them.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from measures import COUNTER, Case, Score, desks, rows_of
from tqdm import tqdm
from trajectories import read_trajectories

from nbchat.compaction.facts.facts import Facts, collect_facts
from nbchat.conversation.entries import Fact

ROUNDS = 7
"""Steps in which the budget is looked for whose facts fill a form."""

Record = tuple[str, list[Fact]]
"""An entity, and its facts in order."""


def records(facts: Sequence[Fact]) -> list[Record]:
    """The facts by entity."""
    found: dict[str, list[Fact]] = {}
    for fact in facts:
        found.setdefault(fact.entity, []).append(fact)
    return list(found.items())


def as_tables(facts: Facts) -> str:
    """Tables with a header, a row for each entity; entities alone as fields."""
    tables: dict[tuple[str, ...], list[Record]] = {}
    for record in records(facts.facts):
        tables.setdefault(tuple(fact.field for fact in record[1]), []).append(record)
    lines: list[str] = []
    for fields, rows in tables.items():
        lines.append("\t".join(["entity", *fields]))
        lines += ["\t".join([name, *(f.value for f in own)]) for name, own in rows]
    return "\n".join(lines)


def as_fields(facts: Facts) -> str:
    """A line for each entity, each value with its field."""
    return "\n".join(
        " | ".join([name, *(f"{f.field}: {f.value}" for f in own)])
        for name, own in records(facts.facts)
    )


def as_sentences(facts: Facts) -> str:
    """A sentence for each value."""
    return "\n".join(
        " ".join(f"The {f.field or 'value'} of {name} is {f.value}." for f in own)
        for name, own in records(facts.facts)
    )


def as_built(facts: Facts) -> str:
    """The block as a model gets it: tables where names once are shorter, else fields."""
    return "\n".join(facts.lines)


FORMS: dict[str, Callable[[Facts], str]] = {
    "as built": as_built,
    "tables (TSV)": as_tables,
    "key: value": as_fields,
    "sentences": as_sentences,
}


def facts_of(case: Case, tokens: int) -> Facts:
    """The facts of what a case covers."""
    return collect_facts(
        case.covered, len(case.covered), budget_tokens=tokens, counter=COUNTER
    )


def filled(case: Case, form: Callable[[Facts], str], tokens: int) -> str:
    """The facts of the largest budget found whose text has at most so many tokens."""
    low, high, best = 0, tokens * 2, ""
    for _ in range(ROUNDS):
        middle = (low + high) // 2
        text = form(facts_of(case, middle))
        if COUNTER.count(text) <= tokens:
            low, best = middle, text
        else:
            high = middle
    return best


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=1_400)
    parser.add_argument("--desks", type=int, default=8)
    parser.add_argument("--files", type=Path)
    options = parser.parse_args()
    cases = list(desks(read_trajectories(), count=options.desks, shares=(0.75,)))
    print(f"the same facts ({options.tokens} tokens as built), {len(cases)} desks")
    for name, form in FORMS.items():
        sizes = [COUNTER.count(form(facts_of(c, options.tokens))) for c in cases]
        print(f"  {name:14} {sum(sizes) / len(sizes):7,.0f} tokens")
    print(f"what fits {options.tokens} tokens")
    for name, form in FORMS.items():
        score = Score()
        for number, case in enumerate(tqdm(cases, name, leave=False, disable=None)):
            text = filled(case, form, options.tokens)
            score.add(case, text, rows_of(text))
            if options.files:
                options.files.mkdir(parents=True, exist_ok=True)
                file = options.files / f"{number}-{name.split()[0].strip(':')}.txt"
                file.write_text(text, encoding="utf-8")
        print(f"  {name:14} {score}")


if __name__ == "__main__":
    main()
