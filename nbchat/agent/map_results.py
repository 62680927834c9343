"""The results of a run of many agents: one for each row, its counts and its table."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Protocol

from nbchat.agent.running_turn import SessionAutosave
from nbchat.conversation.entries import Usage
from nbchat.conversation.session import Session
from nbchat.conversation.turn_costs import usage_text
from nbchat.errors import ConfigError

CHANGED_NOTES = {
    (False, False): "",
    (True, False): "The input has changed since.",
    (False, True): "The agent or the output type has changed since.",
    (True, True): "The input and the agent or output type have changed since.",
}
"""Notes on a finished row, by whether its input and its recipe have changed."""

Failure = Literal["row", "passing", "lost", "setup", "account"]
"""What an error is about: this row, a server that may work soon, a dead worker, how
every row is asked, or the key."""

BAR_LENGTH = 20
MINUTE, HOUR = 60, 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one row."""

    key: str
    number: int
    """Of the row, from 0."""
    session_id: str = ""
    value: Any = None
    """The answer's value as JSON has it; its text where no `output` was asked for."""
    stop_reason: str = ""
    error: str = ""
    failure: Failure | Literal[""] = ""
    note: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    is_priced: bool = True
    seconds: float = 0.0
    input_hash: str = ""
    recipe: str = ""
    attempt: int = 0
    steps: int = 0
    repairs: int = 0
    """How often its answer was not valid, and was asked for again."""
    correction: Any = None
    """The value that a person has put in its place."""
    is_kept: bool = False
    """Whether it is in the store, with its session."""
    is_remote: bool = False
    """Whether its usage was counted in another process."""

    @property
    def usage(self) -> Usage:
        """The tokens and dollars of its turn."""
        total = self.input_tokens + self.output_tokens
        return Usage(
            self.input_tokens,
            self.output_tokens,
            dollars=self.dollars,
            priced_tokens=total if self.is_priced else 0,
        )

    def as_row(self) -> dict[str, Any]:
        """A row of the table; the fields of the value are columns."""
        is_record = isinstance(self.value, Mapping)
        row = {"key": self.key, **(self.value if is_record else {"value": self.value})}
        if self.value is None:
            row = {"key": self.key}
        about = {
            "stop_reason": self.stop_reason,
            "error": self.error,
            "note": self.note,
            "tokens": self.input_tokens + self.output_tokens,
            "dollars": self.dollars if self.is_priced else None,
            "seconds": self.seconds,
            "session": self.session_id,
        }
        if self.correction is not None:
            about["corrected"] = self.correction
        return row | {name: each for name, each in about.items() if name not in row}

    def as_json(self) -> dict[str, Any]:
        """All fields, for a store."""
        return asdict(self)

    @property
    def doubt(self) -> str:
        """Why a person should look at it; empty where nothing says so."""
        if self.error or self.value is None:
            return "failed"
        return "repaired" if self.repairs else ""

    def field(self, name: str) -> Any:
        """A field of the value, or the value where it is no record."""
        is_record = isinstance(self.value, Mapping)
        return self.value.get(name) if is_record else self.value


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run takes in all: the least and the most that is likely."""

    rows: int
    tokens: tuple[int, int]
    dollars: tuple[float, float] | None
    """None where the price of the model is unknown."""
    minutes: tuple[float, float]
    measured: int = 0
    """The finished rows that it is based on; 0 before the first ones."""

    def __repr__(self) -> str:
        """One line."""
        least, most = self.tokens
        parts = [f"{least:,} to {most:,} tokens"]
        if self.dollars is not None:
            parts.append(f"${self.dollars[0]:,.2f} to ${self.dollars[1]:,.2f}")
        parts.append(f"{self.minutes[0]:,.1f} to {self.minutes[1]:,.1f} minutes")
        basis = f", by the first {self.measured:,}" if self.measured else ""
        return f"{self.rows:,} rows{basis}: {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many rows are as their labels say."""

    by_category: Mapping[str, tuple[int, int]]
    """For each label: how many rows are right, of how many."""

    @property
    def right(self) -> int:
        """Rows that are as their label says."""
        return sum(right for right, _ in self.by_category.values())

    @property
    def total(self) -> int:
        """Rows that have a label."""
        return sum(count for _, count in self.by_category.values())

    def __repr__(self) -> str:
        """The sum, and a line for each label, the worst first."""
        ordered = sorted(self.by_category.items(), key=lambda item: _share(item[1]))
        lines = [f"{name}: {right} of {count}" for name, (right, count) in ordered]
        return "\n".join([f"{self.right} of {self.total} right", *lines])


def agreement_of(
    results: Iterable[Result], labels: Mapping[Any, Any], field: str
) -> Agreement:
    """Compare a field of the results with labels by key."""
    known = {str(key): str(label) for key, label in labels.items()}
    found: dict[str, tuple[int, int]] = {}
    for each in results:
        if (label := known.get(each.key)) is not None:
            right, count = found.get(label, (0, 0))
            is_right = str(each.field(field)) == label
            found[label] = (right + is_right, count + 1)
    return Agreement(found)


def _share(counted: tuple[int, int]) -> float:
    return counted[0] / counted[1]


_EMPTY_ROW = Result(key="", number=0).as_row()
"""Its names are the columns of a table without rows."""


def result_from_json(saved: Mapping[str, Any]) -> Result:
    """A result that a store has kept; unknown fields of other versions are omitted."""
    known = {each.name for each in fields(Result)}
    return Result(**{name: each for name, each in saved.items() if name in known})


class Results(Protocol):
    """Keeps the results of one run."""

    def put(self, result: Result) -> None:
        """Keep a result, in place of an earlier one for its key; raises StoreError."""

    def find(self, keys: Sequence[str]) -> dict[str, Result]:
        """The results for keys, by key."""

    def __iter__(self) -> Iterator[Result]:
        """All results, in the order of the rows."""

    def batches(self) -> dict[str, frozenset[str]]:
        """The batches that are open, with the ids of their requests."""

    def add_batch(self, batch_id: str, names: frozenset[str]) -> None:
        """Remember a batch that was sent; raises StoreError."""

    def remove_batch(self, batch_id: str) -> None:
        """Forget a batch whose replies are in the sessions."""


class RowAutosave(SessionAutosave, Protocol):
    """Saves the session of a row, and its result with the end of it."""

    def finish(self, run: str, result: Result) -> None:
        """Save the rest of the session and the result; raises StoreError."""


class ResultStore(Protocol):
    """Keeps the sessions and results of runs; `nbchat.Store` is one."""

    def results(self, run: str) -> Results:
        """The results of a run."""

    def load(self, session_id: str) -> Session:
        """A session; raises SessionNotFound."""

    def row_saver(
        self, session: Session, *, session_id: str, model: str
    ) -> RowAutosave:
        """What saves a row's session; a new one gets the id."""

    def known(self, session_ids: Sequence[str]) -> set[str]:
        """The sessions among these that are stored."""


class MemoryResults:
    """Results without a store, or beside one that cannot be written."""

    def __init__(self, stored: Results | None = None) -> None:
        """`stored` are results that stay in their store and are read there."""
        self._stored = stored
        self._results: dict[str, Result] = {}
        self._batches: dict[str, frozenset[str]] = {}

    def put(self, result: Result) -> None:
        """Keep a result."""
        self._results[result.key] = result

    def find(self, keys: Sequence[str]) -> dict[str, Result]:
        """The results for keys, by key."""
        found = {} if self._stored is None else self._stored.find(keys)
        return found | {key: self._results[key] for key in keys if key in self._results}

    def __iter__(self) -> Iterator[Result]:
        """In the order of the rows."""
        every = {each.key: each for each in self._stored or ()} | self._results
        return iter(sorted(every.values(), key=lambda each: each.number))

    def batches(self) -> dict[str, frozenset[str]]:
        """The open batches."""
        return dict(self._batches)

    def add_batch(self, batch_id: str, names: frozenset[str]) -> None:
        """Remember a batch."""
        self._batches[batch_id] = names

    def remove_batch(self, batch_id: str) -> None:
        """Forget a batch."""
        self._batches.pop(batch_id, None)


class Counts:
    """How far a run is, and what it has cost."""

    def __init__(self, total: int | None) -> None:
        """`total` is the number of rows, if it is known."""
        self.total = total
        self.done = 0
        self.failed = 0
        self.skipped = 0
        """Rows that an earlier run has finished."""
        self.worked = 0
        """Rows that this run has finished or tried."""
        self.running = 0
        self.usage = Usage()
        self._seconds = 0.0
        self._began_at: float | None = None

    def begin(self) -> None:
        """Start the clock."""
        self._began_at = time.monotonic()

    def end(self) -> None:
        """Stop the clock."""
        self._seconds, self._began_at = self.seconds, None

    def add(self, result: Result, *, is_finished: bool = True) -> None:
        """Count a result and its cost."""
        self.usage += result.usage
        if is_finished:
            self.worked += 1
            self.failed += bool(result.error)
            self.done += not result.error

    def skip(self, result: Result) -> None:
        """Count a row that an earlier run has finished."""
        self.skipped += not result.error
        self.failed += bool(result.error)

    @property
    def seconds(self) -> float:
        """Time for which the run has been running."""
        running = 0.0 if self._began_at is None else time.monotonic() - self._began_at
        return self._seconds + running

    def __repr__(self) -> str:
        """The same on one line."""
        return f"<Counts {self.text}>"

    @property
    def over(self) -> int:
        """Rows that have a result."""
        return self.done + self.failed + self.skipped

    @property
    def text(self) -> str:
        """How many rows are done, failed and running."""
        over = self.over
        known = f" of {self.total:,}" if self.total is not None else ""
        parts = [f"{over:,}{known} rows"]
        if self.total:
            filled = round(BAR_LENGTH * min(over / self.total, 1))
            parts.insert(0, "█" * filled + "░" * (BAR_LENGTH - filled))
        parts += [f"{self.skipped:,} done earlier"] if self.skipped else []
        parts += [f"{self.failed:,} failed"] if self.failed else []
        parts += [f"{self.running:,} running"] if self.running else []
        return " · ".join(parts)

    def rate_text(self, *, is_running: bool) -> str:
        """Rows a minute, and how long the remaining rows will take."""
        if not self.worked or not self.seconds:
            return ""
        rate = self.worked / self.seconds
        left = (self.total or 0) - self.over if is_running else 0
        rest = f" · {_duration(left / rate)} left" if left > 0 else ""
        return f"{rate * MINUTE:,.0f} rows a minute{rest}"

    @property
    def cost_text(self) -> str:
        """Tokens and dollars."""
        return usage_text(self.usage) if self.usage.total_tokens else ""


def table_of(
    rows: Iterable[Mapping[str, Any]], value_columns: Sequence[str] = ()
) -> Any:
    """A DataFrame of results; raises ConfigError without pandas.

    `value_columns` follow the key, whether a row has them or not.
    """
    try:
        import pandas as pd  # noqa: PLC0415  # an optional dependency
    except ImportError as error:
        raise ConfigError(
            "table() needs pandas. Run: pip install pandas, or use run.rows()"
        ) from error
    found = list(rows)
    names = dict.fromkeys(["key", *value_columns, *_EMPTY_ROW])
    others = dict.fromkeys(name for row in found for name in row)
    return pd.DataFrame(found or None, columns=list(names | others))


def _duration(seconds: float) -> str:
    if seconds < MINUTE:
        return f"{seconds:.0f} s"
    if seconds < HOUR:
        return f"{seconds / MINUTE:.0f} min"
    return f"{seconds / HOUR:.1f} h"
