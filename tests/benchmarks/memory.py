"""How much of what later work needs is still readable after a compaction.

    python tests/benchmarks/memory.py                        all rows
    python tests/benchmarks/memory.py --quick --kind sql     every fourth case of a row
    python tests/benchmarks/memory.py --engine MODULE:FUNCTION [--model NAME]   your own engine
    python tests/benchmarks/memory.py requests DIR           ask strong writers ...
    python tests/benchmarks/memory.py record DIR --writer X  ... and keep what they wrote

The table has a row for each kind of work (`support/memory_cases.py`) and counts values
that later calls name, that stood in what was covered, and that nothing repeats before
their first use (`support/needed_values.py`). Beside what the history holds after a
compaction without a model and after one with a recorded summary stands what its newest
tenth alone would hold. One figure decides: the worst row.

`--engine` measures an engine of your own instead: a function that takes the messages as
dictionaries in the form of OpenAI's chat completions, and the name of a model, and returns
the messages, or the text, that are left of them. `engines:masked`, `engines:cleared`,
`engines:brief` and `engines:windowed` (`engines.py`) are ways that are published. Every row then has one figure, its size beside.

`requests` writes the summary request of each case as `<case>.md`, and `record` keeps
what stands in `<case>.answer.txt`. Texts whose request has changed since are used, and
counted as stale.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parent))

from engines import Engine, messages_of
from measures import COUNTER
from memory_cases import KINDS, Case, cases_of, with_summaries
from needed_values import has_word, texts
from recorded_summaries import Compacted, Texts, compact, read, write
from tqdm import tqdm

from nbchat.conversation.entries import Entry

QUICK = 4
"""Of so many cases one is taken with `--quick`."""

ANSWER = ".answer.txt"


@dataclass
class Measured:
    """Counts over the cases of a row."""

    cases: int = 0
    failed: int = 0
    stale: int = 0
    kept: int = 0
    total: int = 0
    tokens: list[int] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    seconds: float = 0.0
    missing: list[str] = field(default_factory=list)

    def add(self, case: Case, view: str, *, covered: int) -> None:
        """Count what of a case is readable in a view."""
        missing = [value for value in case.needed if not has_word(view, value)]
        self.cases += 1
        self.total += len(case.needed)
        self.kept += len(case.needed) - len(missing)
        self.missing += [f"{case.id}: {value}" for value in missing]
        self.tokens.append(COUNTER.count(view))
        self.shares.append(self.tokens[-1] / covered)

    @property
    def share(self) -> float | None:
        """The share of the needed values that is readable."""
        return self.kept / self.total if self.total else None

    def __str__(self) -> str:
        """Readable share, size, and tokens."""
        if self.share is None:
            return f"{'-':>6} {'-':>6} {'-':>6}"
        count = len(self.tokens)
        size, tokens = sum(self.shares) / count, sum(self.tokens) / count
        return f"{self.share:6.1%} {size:6.1%} {tokens:6,.0f}"


@dataclass
class Row:
    """The figures of one kind of work."""

    newest: Measured = field(default_factory=Measured)
    alone: Measured = field(default_factory=Measured)
    written: Measured = field(default_factory=Measured)
    """Without a model, and with a recorded summary."""

    def line(self, title: str) -> str:
        """A line of the table."""
        alone, written = self.alone, self.written
        failed = alone.failed + written.failed
        notes = [f"{written.stale} stale"] * bool(written.stale)
        notes += [f"{failed} failed"] * bool(failed)
        return (
            f"{title:26} {alone.cases:4} {alone.total:5}  {self.newest.share or 0:6.1%}  "
            f"{alone} {1000 * alone.seconds / max(alone.cases, 1):4.0f}  "
            f"{written.cases:4} {written}  {', '.join(notes)}"
        )


HEADER = (
    f"{'':26} {'':10}  {'newest':>6}  {'without a model':^25}  {'recorded summary':^25}\n"
    f"{'':26} {'case':>4} {'must':>5}  {'tenth':>6}  {'must':>6} {'size':>6} {'tokens':>6} "
    f"{'ms':>4}  {'case':>4} {'must':>6} {'size':>6} {'tokens':>6}"
)


def table(kinds: Sequence[str], *, every: int, is_verbose: bool) -> None:
    """Print a line for each kind, and the worst row."""
    compact([Entry("user", "hello"), Entry("assistant", "hello")])  # reads vocabularies
    recorded, rows = Texts("summaries"), dict[str, Row]()
    print(HEADER)
    for name in kinds:
        rows[name] = row = measured(name, recorded, every=every)
        print(row.line(KINDS[name].title), flush=True)
        if is_verbose:
            print(*row.alone.missing, sep="\n")
    deciding = {name: row for name, row in rows.items() if KINDS[name].decides}
    for title, part in (("without a model", "alone"), ("recorded summary", "written")):
        found = [(getattr(row, part).share, name) for name, row in deciding.items()]
        known = [(share, name) for share, name in found if share is not None]
        if known:
            share, name = min(known)
            print(f"worst row, {title}: {KINDS[name].title} {share:.1%}")


def engine_table(kinds: Sequence[str], engine: Engine, *, every: int) -> None:
    """Print what an engine of one's own keeps of each kind, and the worst row."""
    shares: dict[str, float] = {}
    print(f"{'':26} {'case':>4} {'must':>5}  {'must':>6} {'size':>6} {'tokens':>6}")
    for name in kinds:
        row = Measured()
        for case in tqdm(cases_of(name)[::every], name, leave=False, disable=None):
            messages = messages_of(case.covered)
            left = engine(messages)
            view = left if isinstance(left, str) else as_json(left)
            row.add(case, view, covered=COUNTER.count(as_json(messages)))
        print(f"{KINDS[name].title:26} {row.cases:4} {row.total:5}  {row}", flush=True)
        if KINDS[name].decides and row.share is not None:
            shares[name] = row.share
    if shares:
        worst = min(shares, key=shares.__getitem__)
        print(f"worst row: {KINDS[worst].title} {shares[worst]:.1%}")


def as_json(messages: object) -> str:
    """Messages as they are sent."""
    return json.dumps(messages, ensure_ascii=False)


def engine_named(name: str, model: str) -> Engine:
    """The function that `module:function` names, for a model."""
    module, _, function = name.partition(":")
    return partial(getattr(import_module(module), function), model=model)


def measured(name: str, recorded: Texts, *, every: int) -> Row:
    """The figures of a kind."""
    row = Row()
    for case in tqdm(cases_of(name)[::every], name, leave=False, disable=None):
        covered = COUNTER.count_entries(case.covered)
        row.newest.add(case, newest(case.covered, covered // 10), covered=covered)
        _add(row.alone, case, covered=covered)
    for case in with_summaries(name):
        text = recorded.by_case.get(case.id)
        if text is not None:
            covered = COUNTER.count_entries(case.covered)
            done = _add(row.written, case, covered=covered, summary=text.text)
            row.written.stale += not text.fits(done.request)
    return row


def _add(
    counted: Measured, case: Case, *, covered: int, summary: str | None = None
) -> Compacted:
    """Compact a case and count what is readable; nothing is where that fails."""
    began = time.process_time()
    done = compact(case.covered, summary=summary)
    counted.seconds += time.process_time() - began
    counted.failed += not done.is_done
    view = texts(done.session.history) if done.is_done else ""
    counted.add(case, view, covered=covered)
    return done


def newest(entries: Sequence[Entry], tokens: int) -> str:
    """The newest entries, and of the one that does not fit its last lines."""
    kept: list[str] = []
    for entry in reversed(entries):
        for line in reversed(texts([entry]).splitlines()):
            tokens -= COUNTER.count(line) + 1
            if tokens < 0:
                return "\n".join(reversed(kept))
            kept.append(line)
    return "\n".join(reversed(kept))


def write_requests(folder: Path) -> None:
    """Write the summary request of each case that is to have a recorded summary."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [case for name in KINDS for case in with_summaries(name)]
    for case in tqdm(chosen, "requests", disable=None):
        asked = compact(case.covered, summary="They talked.").request
        write(folder / f"{case.id}.md", asked)
    print(f"{len(chosen)} requests in {folder}")


def record(folder: Path, writer: str) -> None:
    """Keep the answers that stand beside their requests."""
    kept, count = Texts("summaries"), 0
    for file in sorted(folder.glob(f"*{ANSWER}")):
        case = file.name.removesuffix(ANSWER)
        asked = read(folder / f"{case}.md")
        kept.add(case, writer, asked, file.read_text("utf-8"))
        count += 1
    kept.save()
    print(f"{count} summaries recorded")


def main() -> None:
    """Run a step, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--quick", action="store_true", help="every fourth case")
    parser.add_argument("--engine", help="module:function that compacts instead")
    parser.add_argument("--model", default="", help="passed to the engine")
    parser.add_argument("--verbose", action="store_true", help="what is missing")
    steps = parser.add_subparsers(dest="step")
    for name in ("requests", "record"):
        steps.add_parser(name).add_argument("folder", type=Path)
    steps.choices["record"].add_argument("--writer", required=True)
    options = parser.parse_args()
    match options.step:
        case "requests":
            write_requests(options.folder)
        case "record":
            record(options.folder, options.writer)
        case _:
            every = QUICK if options.quick else 1
            if options.engine:
                engine = engine_named(options.engine, options.model)
                engine_table(options.kind, engine, every=every)
                return
            table(options.kind, every=every, is_verbose=options.verbose)


if __name__ == "__main__":
    main()
