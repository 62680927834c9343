"""How many short facts that later questions ask for are still readable afterwards.

    python tests/benchmarks/answers.py

Names, numbers and quoted terms in a later question and its answer that were said before
the cut. Meetings are cut at their end and asked about; chats come ten to a session, and
what is asked is each one's last exchange. No model takes part.
"""

import gzip
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from measures import COUNTER, compacted, has_word, texts

from nbchat.conversation.entries import Entry

DATA = Path(__file__).parents[1] / "data"
CHATS = 10
"""Chats in one session."""

SPANS = re.compile(
    r"\b\d[\d.,]*\b%?"  # numbers
    r"|(?<=[a-z,;] )[A-Z][\w-]+"  # names, where no sentence begins
    r"|(?<=[\"“'])[^\"“”'\n]{3,40}(?=[\"”'])"  # quoted terms
)


@dataclass(frozen=True)
class Exam:
    """What was said, and what is asked about it afterwards."""

    name: str
    said: tuple[Entry, ...]
    asked: tuple[str, ...]

    @property
    def spans(self) -> set[str]:
        """The short facts that are asked for and had been said."""
        before = texts(self.said)
        found = {
            span.strip(" .,") for text in self.asked for span in SPANS.findall(text)
        }
        return {span for span in found if len(span) > 1 and has_word(before, span)}


def read(name: str) -> list[dict[str, Any]]:
    """The rows of a data file."""
    lines = gzip.decompress((DATA / f"{name}.jsonl.gz").read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


def entries(messages: list[dict[str, str]]) -> list[Entry]:
    """Messages as entries."""
    return [Entry(message["role"], message["content"]) for message in messages]


def meetings() -> Iterator[Exam]:
    """Each meeting, answered by turns so that it may be folded, with its questions."""
    for row in read("meetings_qmsum"):
        asked = tuple(f"{each['question']} {each['answer']}" for each in row["qa"])
        said = [*entries(row["messages"]), Entry("assistant", "Noted.")]
        yield Exam(row["id"], tuple(said), asked)


def chats() -> Iterator[Exam]:
    """Ten chats one after the other; their last exchanges are asked afterwards."""
    rows = [row for row in read("chats_oasst") if len(row["messages"]) >= 4]
    for start in range(0, len(rows) - CHATS + 1, CHATS):
        some = rows[start : start + CHATS]
        said = [entry for row in some for entry in entries(row["messages"][:-2])]
        asked = [message["content"] for row in some for message in row["messages"][-2:]]
        yield Exam(f"chats {start}", tuple(said), tuple(asked))


def main() -> None:
    """Print a line for each session, and one for all."""
    kept = total = 0
    for exam in [*meetings(), *chats()]:
        after, spans = texts(compacted(exam.said).history), exam.spans
        found = sum(has_word(after, span) for span in spans)
        share = COUNTER.count(after) / COUNTER.count_entries(exam.said)
        kept, total = kept + found, total + len(spans)
        print(
            f"{exam.name:16} {found:4}/{len(spans):4} spans, in {share:.1%} of the tokens"
        )
        if "-v" in sys.argv:
            print(sorted(span for span in spans if not has_word(after, span)))
    print(f"{'all':16} {kept:4}/{total:4} spans, {kept / total:.1%}")


if __name__ == "__main__":
    main()
