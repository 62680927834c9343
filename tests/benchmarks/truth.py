"""How many lines of memories are false, with examples.

    python tests/benchmarks/truth.py                 recorded conversations
    python tests/benchmarks/truth.py --generated 500
    python tests/benchmarks/truth.py --shaped 500    in the forms of common APIs
    python tests/benchmarks/truth.py --shaped 500 --first 90000    from other seeds

Every line and value is found in the place that it copies (`support/truth.py`), for
all recorded conversations and desks of six, for recorded notebooks, SQL, assistants and
scientific coding, and for generated transcripts.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from generated_records import Transcripts, own_id
from generated_shapes import ShapedTranscripts, own_id_in_shapes
from measures import compacted, desks, singles
from memory_cases import cases_of
from tqdm import tqdm
from trajectories import read_trajectories
from truth import Judge, OwnId

from nbchat.conversation.entries import Entry


def judged(entries: Sequence[Entry], own: OwnId | None) -> tuple[int, list[str]]:
    """The lines and values in the memory of some entries, and what is false of them."""
    session = compacted(entries)
    if session.compaction is None:
        return 0, []
    judge = Judge(session.transcript[: session.compaction.stop], own)
    false = judge.false(session.compaction)
    return judge.checked, false


def main() -> None:
    """Print the counts and the first examples of each fault."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--generated", type=int, help="transcripts that are generated")
    parser.add_argument("--shaped", type=int, help="those with other forms of results")
    parser.add_argument("--first", type=int, default=0, help="seed of the first one")
    parser.add_argument("--examples", type=int, default=4)
    options = parser.parse_args()
    own: OwnId | None = None
    cases: Iterable[tuple[str, Sequence[Entry]]] = _recorded()
    if options.generated:
        seeds = range(options.first, options.first + options.generated)
        own = own_id
        cases = ((f"seed {n}", Transcripts(Random(n)).build(12)) for n in seeds)
    elif options.shaped:
        seeds = range(options.first, options.first + options.shaped)
        own = own_id_in_shapes
        cases = ((f"seed {n}", shaped(n)) for n in seeds)
    checked, found, size = 0, dict[str, list[str]](), 0
    for name, entries in tqdm(cases, leave=False, disable=None):
        count, false = judged(entries, own)
        checked, size = checked + count, size + 1
        for text in false:
            reason = text.split(":")[0][:30]
            found.setdefault(reason, []).append(f"{name}: {text}")
    total = sum(map(len, found.values()))
    print(f"{total} false of {checked} lines and values in {size} memories")
    for reason, texts in sorted(found.items(), key=lambda each: -len(each[1])):
        print(f"{len(texts):5}  {reason}")
        for text in texts[: options.examples]:
            print(f"         {text[:300]}")


def shaped(seed: int) -> list[Entry]:
    """A transcript with results in the forms of common APIs."""
    return ShapedTranscripts(Random(seed)).build(1 + seed % 25)


def _recorded() -> Iterator[tuple[str, Sequence[Entry]]]:
    runs = read_trajectories()
    for case in [*singles(runs), *desks(runs, count=20)]:
        yield case.name, case.covered
    for kind in ("insight", "dseval", "sql", "assistant", "coding"):
        yield from ((case.id, case.covered) for case in cases_of(kind))


if __name__ == "__main__":
    main()
