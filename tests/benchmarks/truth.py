"""How many statements of facts blocks are false, with examples.

    python tests/benchmarks/truth.py                 recorded conversations
    python tests/benchmarks/truth.py --generated 500

Every line of every block is parsed and found in its source (`support/truth.py`), for
all recorded conversations and desks of six, and for generated transcripts.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from generated_records import acted, own_id, transcripts
from measures import compacted, desks, singles
from tqdm import tqdm
from trajectories import read_trajectories
from truth import Judge

from nbchat.compaction.summary_format import summary_facts
from nbchat.conversation.entries import Entry


def judged(entries: Sequence[Entry], *, is_generated: bool) -> tuple[int, list[str]]:
    """Statements in the block about some entries, and what is wrong with them."""
    session = compacted(entries)
    if session.compaction is None:
        return 0, []
    covered = session.transcript[: session.compaction.stop]
    judge = Judge(covered)
    if is_generated:
        judge = Judge(covered, own_id=own_id, acts=acted)
    false = judge.false(summary_facts(session.compaction.summary))
    return judge.checked, false


def main() -> None:
    """Print the counts and the first examples of each fault."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--generated", type=int, help="transcripts that are generated")
    parser.add_argument("--examples", type=int, default=4)
    options = parser.parse_args()
    is_generated = bool(options.generated)
    blocks: Iterable[Sequence[Entry]] = _recorded()
    if is_generated:
        blocks = transcripts(iter(range(options.generated)))
    checked, found, size = 0, dict[str, list[str]](), 0
    for entries in tqdm(blocks, leave=False, disable=None):
        count, false = judged(entries, is_generated=is_generated)
        checked, size = checked + count, size + 1
        for text in false:
            found.setdefault(text.split("'")[0].split(":")[0], []).append(text)
    total = sum(map(len, found.values()))
    print(f"{total} false of {checked} statements in {size} blocks")
    for reason, texts in sorted(found.items(), key=lambda each: -len(each[1])):
        print(f"{len(texts):5}  {reason}")
        for text in texts[: options.examples]:
            print(f"         {text[:300]}")


def _recorded() -> Iterator[Sequence[Entry]]:
    runs = read_trajectories()
    for case in [*singles(runs), *desks(runs, count=20)]:
        yield case.covered


if __name__ == "__main__":
    main()
