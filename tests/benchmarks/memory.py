"""How much of what later work needs is still readable after a compaction.

    python tests/benchmarks/memory.py                        all rows
    python tests/benchmarks/memory.py --quick --kind sql     every fourth case of a row
    python tests/benchmarks/memory.py --engine MODULE:FUNCTION [--model NAME]   your own engine
    python tests/benchmarks/memory.py requests DIR           ask strong writers ...
    python tests/benchmarks/memory.py record DIR --writer X  ... and keep what they wrote
    python tests/benchmarks/memory.py analysis DIR --folds 4     ask strong readers ...
    python tests/benchmarks/memory.py score DIR --reader X       ... and run their cells

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

`analysis` compacts generated sessions (`support/analysis_sessions.py`) without a model
and, as soon as their summaries are recorded, with one; it writes what the model would
see and ten questions; with `--folds 0` the whole transcript, of which all numbers should
be right. A reader answers each file in `<file>.answer.txt` with ten cells.
`score` runs them and prints what their numbers say that the reader believed.
"""

import argparse
import json
import multiprocessing
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parent))

from analysis_sessions import QUESTIONS, AnalysisSession, run_cell, sessions
from engines import Engine, messages_of
from measures import COUNTER
from memory_cases import KINDS, Case, cases_of, with_summaries
from needed_values import has_word, texts
from recorded_summaries import Compacted, Texts, compact, read, write
from tqdm import tqdm

from nbchat.conversation.entries import Entry
from nbchat.conversation.live_variables import reader as live_variables
from nbchat.conversation.session import Session
from nbchat.providers.base import wire_text

QUICK = 4
"""Of so many cases one is taken with `--quick`."""

ANSWER = ".answer.txt"
CELL_SECONDS = 60
"""Seconds that a reader's ten cells may take."""

BELIEFS = ("right", "stale", "hypothetical", "rejected", "other")

TASK = """You continue the work of a data analyst in a notebook. The conversation so far was
compacted; this is all that is left of it, and the kernel is still running:

<memory>
{memory}
</memory>

Answer each of these questions with one short Python cell. Its last line is an expression
whose value is the number. The cells run one after the other in the same kernel, with
pandas as `pd`. Only the rows that count are meant, by what the person decided and by what
is in force now. Where the memory does not say, choose what is likeliest.

{questions}

Answer with ten ```python blocks, in the order of the questions, and nothing else.
"""


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
    print_readers()


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


class Unwritten(Exception):
    """A summary is not recorded yet."""

    def __init__(self, case: str, request: str) -> None:
        super().__init__(case)
        self.case, self.request = case, request


def folded(session: AnalysisSession, folds: int, recorded: Texts | None) -> Session:
    """A session after so many compactions in a row, with recorded summaries if given.

    Raises Unwritten where one is missing. A stale one is used. With no folds it is whole.
    """
    if not folds:
        return Session(session.entries)
    kept, turns = Session(), session.turns
    bounds = [len(turns) * fold // folds for fold in range(folds + 1)]
    for fold in range(folds):
        for entry in (
            e for turn in turns[bounds[fold] : bounds[fold + 1]] for e in turn
        ):
            kept.append(entry)
        names = session.namespaces[bounds[fold + 1] - 1]
        variables = live_variables(lambda names=names: names)
        summary = None
        if recorded is not None:
            case = f"{session.name}.{fold + 1}of{folds}"
            text = recorded.by_case.get(case)
            if text is None:
                asked = compact(kept, summary="They talked.", live_variables=variables)
                raise Unwritten(case, asked.request)
            summary = text.text
        done = compact(kept, summary=summary, live_variables=variables)
        if not done.is_done:
            raise ValueError(f"{session.name}, fold {fold + 1}: {done.record.reason}")
    return kept


def sheet(session: AnalysisSession, kept: Session) -> str:
    """What a reader sees."""
    questions = [f"{n}. {each.text}" for n, each in enumerate(session.questions, 1)]
    memory = "\n\n".join(map(_as_read, kept.history))
    return TASK.format(memory=memory, questions="\n".join(questions))


def _as_read(entry: Entry) -> str:
    """An entry as text, with its speaker."""
    if entry.is_call:
        return f"[{entry.tool_name}]\n{entry.tool_args}"
    return f"[{entry.role}]\n{wire_text(entry)}"


def sheets(folds: int) -> Iterator[tuple[AnalysisSession, str, Callable[[], str]]]:
    """Each session, the name of its file, and what makes the text of it."""
    kinds = {"code": None, "summary": Texts("summaries")} if folds else {"whole": None}
    for session in sessions():
        for kind, given in kinds.items():
            yield (
                session,
                f"{session.name}.{kind}-{folds}",
                lambda s=session, g=given: sheet(s, folded(s, folds, g)),
            )


def write_analysis(folder: Path, folds: int) -> None:
    """Write the readers' files, and the requests for summaries that are missing."""
    requests, written, missing = folder / "requests", 0, 0
    requests.mkdir(parents=True, exist_ok=True)
    for _, name, make in tqdm([*sheets(folds)], "sheets", disable=None):
        try:
            write(folder / f"{name}.md", make())
            written += 1
        except Unwritten as wanted:
            write(requests / f"{wanted.case}.md", wanted.request)
            missing += 1
    print(f"{written} files for readers in {folder}")
    if missing:
        print(f"{missing} summaries to write in {requests}; then `record`, and again")


def score(folder: Path, reader: str) -> None:
    """Run the readers' cells; keep their answers where the reader is named."""
    kept = Texts("answers")
    by_name = {session.name: session for session in sessions()}
    counts: dict[str, Counter[str]] = {}
    for file in sorted(folder.glob(f"*{ANSWER}")):
        name, text = file.name.removesuffix(ANSWER), file.read_text("utf-8")
        session = by_name[name.rpartition(".")[0]]
        counts.setdefault(group_of(name), Counter()).update(beliefs(session, text))
        if reader:
            kept.add(name, reader, read(folder / f"{name}.md"), text)
    if reader:
        kept.save()
    print_beliefs(counts)


def print_readers() -> None:
    """Print what recorded readers believed, and how many of them saw something else."""
    kept, counts, stale = Texts("answers"), dict[str, Counter[str]](), 0
    folds = sorted({int(name.rpartition("-")[2]) for name in kept.by_case})
    for session, name, make in (each for count in folds for each in sheets(count)):
        answer = kept.by_case.get(name)
        if answer is not None:
            stale += not answer.fits(make())
            counts.setdefault(group_of(name), Counter()).update(
                beliefs(session, answer.text)
            )
    print_beliefs(counts)
    if stale:
        print(f"{stale} of {len(kept.by_case)} readers saw what is stale now")


def print_beliefs(counts: dict[str, Counter[str]]) -> None:
    """A line for each group of answers."""
    for group, counter in sorted(counts.items()):
        shown = "  ".join(f"{counter[belief]:4} {belief}" for belief in BELIEFS)
        print(f"{group:26} {counter.total():4} answers: {shown}")


def group_of(name: str) -> str:
    """The line of the table in which a reader's answers are counted."""
    session, _, kind = name.rpartition(".")
    size = "analysis, 200 turns" if "long" in session else "analysis state"
    how, _, folds = kind.partition("-")
    return f"{size}, {how}, {folds}"


def beliefs(session: AnalysisSession, answer: str) -> list[str]:
    """What a reader believed at each question, by the numbers of the cells."""
    given = numbers_of(session, cells_in(answer))
    pairs = zip(session.questions, given, strict=True)
    return [question.belief(number) for question, number in pairs]


def cells_in(answer: str) -> list[str]:
    """The cells of an answer: fenced blocks, or a list or an object in JSON."""
    blocks = re.findall(r"```(?:python|py)?[ \t]*\n(.*?)```", answer, re.DOTALL)
    if len(blocks) != 1 or not blocks[0].lstrip().startswith(("[", "{")):
        return blocks or _listed(answer)
    return _listed(blocks[0])


def _listed(text: str) -> list[str]:
    try:
        value = json.loads(text)
    except ValueError:
        return []
    return [
        str(each) for each in (value.values() if isinstance(value, dict) else value)
    ]


def numbers_of(session: AnalysisSession, cells: Sequence[str]) -> list[object]:
    """The value of each cell, run in a process of its own; None for one that fails."""
    queue = multiprocessing.get_context("fork").SimpleQueue()
    child = multiprocessing.get_context("fork").Process(
        target=_run, args=(session, cells, queue), daemon=True
    )
    child.start()
    child.join(CELL_SECONDS)
    if child.is_alive():
        child.kill()
    found = [] if queue.empty() else queue.get()
    return (found + [None] * QUESTIONS)[:QUESTIONS]


def _run(session: AnalysisSession, cells: Sequence[str], queue: object) -> None:
    names = dict(session.namespace)
    queue.put([_value(cell, names) for cell in cells[:QUESTIONS]])  # type: ignore[attr-defined]


def _value(cell: str, names: dict[str, object]) -> float | None:
    """The number of a cell, or that which it prints last."""
    try:
        printed, value = run_cell(cell, names)
        return round(float(printed.split()[-1] if value is None else value), 2)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001  any fault of a reader's cell
        return None


def main() -> None:
    """Run a step, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--quick", action="store_true", help="every fourth case")
    parser.add_argument("--engine", help="module:function that compacts instead")
    parser.add_argument("--model", default="", help="passed to the engine")
    parser.add_argument("--verbose", action="store_true", help="what is missing")
    steps = parser.add_subparsers(dest="step")
    for name in ("requests", "record", "analysis", "score"):
        steps.add_parser(name).add_argument("folder", type=Path)
    steps.choices["record"].add_argument("--writer", required=True)
    steps.choices["analysis"].add_argument("--folds", type=int, default=1)
    steps.choices["score"].add_argument(
        "--reader", default="", help="keeps the answers"
    )
    options = parser.parse_args()
    match options.step:
        case "requests":
            write_requests(options.folder)
        case "record":
            record(options.folder, options.writer)
        case "analysis":
            write_analysis(options.folder, options.folds)
        case "score":
            score(options.folder, options.reader)
        case _:
            every = QUICK if options.quick else 1
            if options.engine:
                engine = engine_named(options.engine, options.model)
                engine_table(options.kind, engine, every=every)
                return
            table(options.kind, every=every, is_verbose=options.verbose)


if __name__ == "__main__":
    main()
