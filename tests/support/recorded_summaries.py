"""Summaries that strong models wrote for the benchmark of the memory, and where they fit.

They are kept with who wrote them and when, and with the hash of the request that they
answer: one that no longer fits is stale.
"""

import hashlib
import json
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.session import Session
from nbchat.providers.base import Request, wire_text
from nbchat.testing import ScriptedProvider, says

FOLDER = Path(__file__).parents[1] / "data" / "memory"

WINDOW = 128_000
"""Tokens of the model's window, as most models had in 2026 at least."""

READ = Entry("assistant", "I see.")
"""What a model says to a result; one at the end would stay as it is, as not yet read."""

ATTEMPTS = 10
"""How often the same text is given when it is refused; values that the conversation
does not hold are marked in the end."""


@dataclass(frozen=True)
class Written:
    """A text of a strong model."""

    case: str
    writer: str
    date: str
    sha256: str
    """Of the request that it answers."""
    text: str

    def fits(self, asked: str) -> bool:
        """True if this was written for the same request."""
        return self.sha256 == digest(asked)


class Texts:
    """The texts in one file, by case."""

    def __init__(self, name: str) -> None:
        """Read `tests/data/memory/<name>.jsonl`, which need not exist."""
        self._file = FOLDER / f"{name}.jsonl"
        lines = (
            self._file.read_text("utf-8").splitlines() if self._file.exists() else ()
        )
        rows = (Written(**json.loads(line)) for line in lines)
        self.by_case = {row.case: row for row in rows}

    def add(self, case: str, writer: str, asked: str, text: str) -> None:
        """Keep a text in place of an earlier one."""
        today = datetime.now(UTC).date().isoformat()
        self.by_case[case] = Written(case, writer, today, digest(asked), text.strip())

    def save(self) -> None:
        """Write the file, sorted by case."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        rows = sorted(self.by_case.values(), key=lambda row: row.case)
        lines = (json.dumps(asdict(row), ensure_ascii=False) for row in rows)
        self._file.write_text("\n".join(lines) + "\n", "utf-8")


@dataclass(frozen=True)
class Compacted:
    """A session after one compaction, and what the model was asked."""

    session: Session
    record: Compaction
    request: str

    @property
    def is_done(self) -> bool:
        """True if the summary or the facts took the place of what they cover."""
        return self.session.compaction is self.record


def write(file: Path, text: str) -> None:
    """Write a text as it is; its line ends are part of its hash."""
    file.write_bytes(text.encode())


def read(file: Path) -> str:
    """Read a text as it is."""
    return file.read_bytes().decode()


def digest(text: str) -> str:
    """A hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def compact(said: Sequence[Entry], *, summary: str | None = None) -> Compacted:
    """Compact what was said, by hand: without a model, or with this text as its answer."""
    session = Session(said)
    if session.transcript[-1].role == "tool":
        session.append(READ)
    provider = ScriptedProvider(*[says(_tagged(summary))] * ATTEMPTS, window=WINDOW)
    engine = CompactionEngine(
        policy="extractive" if summary is None else "single-summary",
        info=provider.info(),
    )
    record = _finished(engine.compact(session, provider, engine.plan(session)))
    session.compactions.append(record)
    asked = request_text(provider.requests[0]) if provider.requests else ""
    return Compacted(session, record, asked)


def _finished(run: Generator[object, None, Compaction]) -> Compaction:
    while True:
        try:
            next(run)
        except StopIteration as end:
            return end.value


def _tagged(summary: str | None) -> str:
    """An answer as the engine expects it."""
    text = summary or ""
    return text if "<summary>" in text else f"<summary>\n{text.strip()}\n</summary>"


def request_text(request: Request) -> str:
    """A summary request as a person or model can read and answer it."""
    said = "\n\n".join(wire_text(entry) for entry in request.history)
    limit = request.max_output_tokens or 0
    note = f"\n\n(At most {limit} tokens of answer.)" if limit else ""
    return f"{request.system}\n\n{said}{note}\n"
