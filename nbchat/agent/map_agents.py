"""Run an agent for each row, up to a hundred thousand; running again resumes.

    run = map_agents(make_agent, tickets, key="id", prompt="text", output=Decision,
                     workers=8, budget=Budget(dollars=5), store=Store("sqlite:///t.db"))
    run.table()         # a DataFrame, in the order of the rows
    run.retry_failed()

Each row has its own session. With a store each row is decided once: a row whose session
ends with a valid answer isn't asked again, even if the process was killed in between,
and one that was interrupted continues from its last entry. An error is a row of the
table and never ends the run. Rows are read one by one, so their number doesn't matter.
"""

import logging
import queue
import re
import threading
import time
from collections import deque
from collections.abc import (
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Sized,
)
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pickle import PickleError
from typing import TYPE_CHECKING, Any

from nbchat.agent.agent import Agent
from nbchat.agent.budget import Budget, check_price, meter_of
from nbchat.agent.map_rows import (
    DOUBTS,
    MOST_RETRIES,
    Control,
    MakeAgent,
    Part,
    Plan,
    Result,
    Results,
    ResultStore,
    Row,
    RowTask,
    Steps,
    as_json,
    column_names,
    field_of,
    first_agent,
    is_same,
    pause_before,
    read_rows,
    recipe_of,
    row_steps,
    run_row,
)
from nbchat.agent.structured_output import output_type
from nbchat.conversation.entries import Usage, html_table
from nbchat.conversation.events import RequestQueued
from nbchat.conversation.returned_values import error_line
from nbchat.conversation.session import usage_text
from nbchat.errors import ConfigError, NbchatError, ProviderError, Stopped, StoreError
from nbchat.providers.base import Provider, Reply, ReplyStream, Request, fixed_texts
from nbchat.providers.tokens import TOKEN_BYTES, most_tokens

if TYPE_CHECKING:
    from nbchat.providers.batches import Batches, Outcome

logger = logging.getLogger(__name__)

DEFAULT_WORKERS = 8

FAILURES_SHOWN = 5

COLUMNS_NAMED = 10
"""Columns of a frame that an error names."""

AHEAD = 2
"""Rows that are handed out for each worker: one runs, one waits."""

PROBE_SECONDS = 2.0
"""Time that the first row runs alone: an unknown model is refused in less."""

FIRST_ROWS, ALIKE = 20, 10
"""A run stops if 10 of its first 20 rows fail with one cause."""

LEAST_MEASURED, MEASURED_RANGE = 5, (0.75, 1.25)
"""Finished rows from which an estimate is made of what they took, and its range."""

ANSWER_TOKENS, REQUEST_SECONDS = (30, 500), (1.0, 10.0)
"""Tokens and seconds of one request, least and most, before any is measured."""

BATCH_SHARE = 0.5
"""Share of the price through a batch API."""

MOST_PASSES = 3
"""Times that a row is asked again, after others, if its failure may pass."""

LOOKED_UP = 200
"""Rows whose results are looked up in the store together."""

UNSENDABLE = (PickleError, TypeError, AttributeError)
"""Errors of a row that can't be sent to another process."""

UNFINISHED = ("stopped", "budget")
"""Stop reasons after which a repeated run continues the row."""

CHANGED_NOTES = {
    (False, False): "",
    (True, False): "The input has changed since.",
    (False, True): "The agent or the output type has changed since.",
    (True, True): "The input and the agent or output type have changed since.",
}
"""Notes on a finished row, by whether its input and its recipe have changed."""

TOGETHER = 2_000
"""Rows whose sessions are in memory together; the next ones have their own batches."""

ATTEMPTS = 4
"""Times that a request is sent whose batch expired, whose server was overloaded or has
refused content of it, which is then left out."""

POLL_SECONDS = 30.0
"""Seconds between two checks whether a batch is ready."""

BAR_LENGTH = 20
MINUTE, HOUR = 60, 3_600

Arrived = queue.SimpleQueue[tuple[RowTask, Future[Result]]]


def map_agents(
    make_agent: MakeAgent,
    rows: Iterable[Any],
    *,
    key: Part = None,
    prompt: Part = None,
    output: Any = None,
    samples: int = 1,
    workers: int = DEFAULT_WORKERS,
    executor: Executor | None = None,
    budget: Budget | None = None,
    store: ResultStore | None = None,
    name: str = "",
    redo_changed: bool = False,
    on_error: Callable[[Result], object] | None = None,
    batch: bool | float = False,
    start: bool = True,
) -> "MapRun":
    """Run a separate agent for each row; returns the run at once.

    `make_agent` is a function that makes an agent (of nothing, or of the row), or an
    agent that is repeated. Rows are dictionaries, objects, texts, or a DataFrame; `key`
    and `prompt` are fields of them or functions. With `samples=2` each row is asked
    twice, and `review` names those whose answers differ; the first answer is the row's.
    `executor` is any of `concurrent.futures`, such as processes or Dask's
    `client.get_executor()`; without it there are `workers` threads. `store` keeps
    sessions and results by `name`, which is that of `make_agent` by default, so that
    the same call continues where it ended. Finished rows whose input, agent or `output`
    has changed are kept and named, or with `redo_changed` done again. `on_error` gets
    each failed row. `batch` sends all requests, those after tool calls too, through the
    batch API of OpenAI or Anthropic: at half the price, within a day; a number is the
    seconds between two looks. Tools then run one after the other in this process. With
    `start=False` nothing is asked until `resume()`.

    Raises ConfigError for what would fail in every row, such as an unknown model: for
    that the first row is asked alone, and waited for up to two seconds.
    """
    _check(make_agent, output, store, workers=workers, samples=samples)
    name = name or getattr(make_agent, "__qualname__", "") or "agents"
    run = MapRun(
        Plan(name, make_agent, output, samples, store, Control(meter_of(budget))),
        partial(read_rows, _checked_rows(rows, key, prompt), key, prompt),
        len(rows) if isinstance(rows, Sized) else None,
        workers=workers,
        executor=executor,
        redo_changed=redo_changed,
        on_error=on_error,
        batch=batch,
    )
    return run.begin() if start else run


def _check(make_agent: MakeAgent, output: Any, store: object, **counts: int) -> None:
    for name, count in counts.items():
        if not isinstance(count, int) or count < 1:
            raise ConfigError(f"{name} can't be {count!r}. Use at least 1.")
    if not isinstance(make_agent, Agent) and not callable(make_agent):
        raise ConfigError(
            f"make_agent can't be {make_agent!r}. Use a function or an Agent."
        )
    if isinstance(store, str):
        raise ConfigError("store can't be text. Use Store(URL).")
    output_type(output)  # raises ConfigError


def _checked_rows(rows: Iterable[Any], *fields: Part) -> Iterable[Any]:
    """The rows; raises ConfigError for anything else, and a column a frame lacks."""
    is_one = isinstance(rows, str | bytes | Mapping)
    if is_one or not isinstance(rows, Iterable):
        raise ConfigError(
            f"rows can't be {type(rows).__name__}. Use a DataFrame or a list."
        )
    columns = column_names(rows)
    for field in fields if columns else ():
        if isinstance(field, str) and field not in columns:
            known = ", ".join(columns[:COLUMNS_NAMED])
            more = ", and others" if len(columns) > COLUMNS_NAMED else ""
            raise ConfigError(
                f"No column named {field!r}. Choose one of {known}{more}."
            )
    return rows


class MapRun:
    """A run of many agents: its progress, its table, and how to stop and resume it."""

    def __init__(
        self,
        plan: Plan,
        read: Callable[[], Iterator[Row]],
        total: int | None,
        *,
        workers: int,
        executor: Executor | None,
        redo_changed: bool,
        on_error: Callable[[Result], object] | None,
        batch: bool | float,
    ) -> None:
        """`read` reads the rows, of which there are `total` if they can be counted."""
        self.name = plan.name
        self.counts = Counts(total, workers)
        """Counts of finished, failed, skipped and running rows, and their cost."""
        self.changed: dict[str, str] = {}
        """Finished keys whose input, agent or `output` has changed, with a note."""
        self.problem = ""
        """Reason why the run ended early, or runs in another way."""
        self._has_failed = False
        self._read = read
        self._control = plan.control
        self._workers = workers
        self._executor = executor
        self._redo_changed = redo_changed
        self._on_error = on_error
        self._batch = batch
        self._rows = read()
        self._first_agent = agent = self._checked_agent(plan.make_agent)
        recipe = recipe_of(agent, plan.make_agent, plan.output) if agent else ""
        self._plan = replace(plan, recipe=recipe)
        store = plan.store
        self._results: Results = store.results(plan.name) if store else MemoryResults()
        self._new = self._new_tasks()
        self._seen: set[int] = set()
        """A number for each key: about 80 bytes a row, all that grows with the rows."""
        self._waiting: deque[RowTask] = deque()
        """Rows to continue with, before new ones are read."""
        self._failed: dict[str, RowTask] = {}
        self._newest_failures: deque[Result] = deque(maxlen=FAILURES_SHOWN)
        self._first = FirstRows()
        self._later = LaterRows()
        self._refusal = ""
        """Reason why no row can work, or why the first ones failed."""
        self._probe_end = 0.0
        self._deaths = 0
        self._thread: threading.Thread | None = None
        self.on_resume: Callable[[], object] = lambda: None
        """Called when the run begins or continues."""

    def _checked_agent(self, make_agent: MakeAgent) -> Agent | None:
        """The first row's agent; raises ConfigError for what fails in every row."""
        row = next(self._rows, None)
        if row is None:
            return None
        self._rows = chain([row], self._rows)
        agent = first_agent(make_agent, row)
        if self._control.meter is not None:
            check_price(self._control.meter, agent.provider)
        if self._batch:
            _batches_of(agent.provider)
        return agent

    def __repr__(self) -> str:
        """The progress on one line."""
        return f"<MapRun {self.name}, {self.state}: {self.counts.text}>"

    def _repr_html_(self) -> str:
        failures = self._newest_failures.copy()  # rows may fail meanwhile
        is_measured = self.counts.worked >= LEAST_MEASURED and self.counts.total
        rows = {
            "State": self.state,
            "Progress": self.counts.text,
            "Rate": self.counts.rate_text(is_running=self.is_running),
            "Cost": self.counts.cost_text,
            "Estimate": self.is_running and is_measured and repr(self.estimate()),
            "Errors": "\n".join(f"{each.key}: {each.error}" for each in failures),
            "Note": "\n".join(self._notes),
        }
        shown = {name: text for name, text in rows.items() if text}
        return html_table(f"Run {self.name}", shown)

    @property
    def failed(self) -> tuple[str, ...]:
        """Keys of the rows that `retry_failed` tries again."""
        return tuple(self._failed)

    @property
    def _notes(self) -> Iterator[str]:
        """Notes on the run for a person."""
        if self.problem:
            yield self.problem
        if not self.is_running:
            if self._is_out_of_budget and not self._is_complete:
                more = "the same call with a larger budget"
                yield (
                    f"{more.capitalize()} continues."
                    if self._plan.store
                    else f"With a store, {more} would continue."
                )
            if count := len(self._failed):
                rows = "1 row" if count == 1 else f"{count:,} rows"
                yield f"{rows} failed. run.retry_failed() tries them again."
        if count := len(self.changed):
            rows = "1 finished row is" if count == 1 else f"{count:,} finished rows are"
            yield (
                f"{rows} out of date (run.changed). redo_changed=True runs them again."
            )

    @property
    def state(self) -> str:
        """Running, finished, failed, stopped, or out of budget."""
        if self.is_running:
            return "stopping" if self._control.stop.is_set() else "running"
        if self._thread is None:
            return "not started"
        if self._has_failed or self._refusal:
            return "failed"
        if self._is_complete:
            return "finished"
        if self._is_out_of_budget:
            return "budget used up"
        return "stopped" if self._control.stop.is_set() else "finished"

    @property
    def is_running(self) -> bool:
        """True while rows are being worked on."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def _is_complete(self) -> bool:
        """True if each row has a result; False for rows that can't be counted."""
        return self.counts.total is not None and self.counts.over >= self.counts.total

    @property
    def _is_out_of_budget(self) -> bool:
        meter = self._control.meter
        return meter is not None and meter.is_used_up

    def begin(self) -> "MapRun":
        """Start; raises ConfigError if the first answer shows that no row can work.

        Raises StoreError for a store that can't be opened.
        """
        self._results.find([""])
        self.resume()
        self._control.began.wait(PROBE_SECONDS)
        if self._is_refused_at_once:
            self.wait()
            raise ConfigError(self._refusal)
        return self

    def wait(self, timeout_seconds: float | None = None) -> "MapRun":
        """Block until the run ends, or for so long; an interrupt stops the run."""
        if self._thread is not None:
            try:
                self._thread.join(timeout_seconds)
            except KeyboardInterrupt:
                self.stop()
                raise
        return self

    def stop(self) -> "MapRun":
        """Start no more rows; those in threads of this process end now."""
        self._control.stop.set()
        return self

    def resume(self) -> "MapRun":
        """Continue after a stop; does nothing while rows are being worked on."""
        if not self.is_running:
            self._control.stop.clear()
            self._is_refused_at_once = False
            if self._refusal:
                self.problem = self._refusal = ""
                self._newest_failures.clear()
            self._first = FirstRows()
            self._probe_end = time.monotonic() + PROBE_SECONDS
            self._thread = threading.Thread(target=self._drive, name="nbchat-map")
            self._thread.start()
            self.on_resume()
        return self

    def retry_failed(self) -> "MapRun":
        """Continue the failed rows, each in its session; waits for the run first."""
        self.wait()
        self._waiting.extend(self._failed.values())
        self.counts.failed -= len(self._failed)
        others = [e for e in self._newest_failures if e.key not in self._failed]
        self._newest_failures = deque(others, maxlen=FAILURES_SHOWN)
        self._failed.clear()
        return self.resume()

    def rows(self) -> Iterator[dict[str, Any]]:
        """The results so far as dictionaries, in the order of the rows."""
        return map(Result.as_row, self._results)

    def table(self, *, wait: bool = True) -> Any:
        """A DataFrame: key, fields of the value, stop_reason, error, tokens, session.

        Waits for the run by default. Raises ConfigError without pandas.
        """
        if wait:
            self.wait()
        return _table_of(self.rows(), self._value_columns)

    def review(self, *, field: str = "") -> Any:
        """A DataFrame to look through, with the reason for it in `doubt`.

        Failed rows come first, then those whose samples disagree in one `field` of the
        output, its first one by default, then repaired ones. The last column,
        `corrected`, is for a person; `correct` keeps what is in it. Raises ConfigError
        without pandas.
        """
        self.wait()
        name, order = self._checked_field(field), (*DOUBTS, "")
        found = sorted(self._results, key=lambda each: order.index(each.doubt(name)))
        shown = (
            {
                "doubt": each.doubt(name),
                **each.as_row(),
                "others": [field_of(other, name) for other in each.others],
                "corrected": each.correction,
            }
            for each in found
        )
        table = _table_of(shown, ["doubt", *self._value_columns])
        last = ["others"] * (self._plan.samples > 1) + ["corrected"]
        kept = [each for each in table if each not in ("others", "corrected")]
        return table.reindex(columns=kept + last)

    def correct(self, corrections: Any) -> "MapRun":
        """Keep corrected values: by key, or those of a table made by `review`.

        They are the column `corrected` of `table()`; None takes one back, and an empty
        cell changes nothing. Raises ConfigError for a key that no row has, or a value
        that JSON cannot hold; then none is kept.
        """
        if hasattr(corrections, "columns"):
            if not {"key", "corrected"} <= set(corrections.columns):
                raise ConfigError(
                    "This table has no columns key and corrected. Use one that "
                    "run.review() has made."
                )
            filled = corrections[corrections["corrected"].notna()]
            corrections = dict(zip(filled["key"], filled["corrected"], strict=True))
        changes = _by_key(corrections)
        known = self._results.find([*changes])
        for key in changes:
            if key not in known:
                raise ConfigError(f"No row has the key {key!r}.")
        for key, value in changes.items():
            self._results.put(replace(known[key], correction=value))
        return self

    def agreement(self, labels: Any, *, field: str = "") -> "Agreement":
        """Count the rows that match their labels, in all and for each label.

        `labels` are values by key (a dictionary or a Series) of one `field` of the
        output, its first one by default; missing ones are left out. Raises ConfigError
        if no row has any of their keys.
        """
        self.wait()
        name, known = self._checked_field(field), _by_key(labels)
        found: dict[str, tuple[int, int]] = {}
        key = ""
        for each in self._results:
            key = each.key
            if (label := known.pop(key, None)) is not None:
                right, count = found.get(str(label), (0, 0))
                right += is_same(field_of(each.value, name), label)
                found[str(label)] = right, count + 1
        if known and key and not found:
            raise ConfigError(
                f"No row has the key {next(iter(known))!r} of a label, or that of "
                f"another one. The rows have keys such as {key!r}."
            )
        return Agreement(found)

    def _checked_field(self, field: str) -> str:
        """A field of the output, by default its first one; raises ConfigError."""
        columns = self._value_columns
        has_fields = columns not in ([], ["value"])  # else they aren't known before
        if field and has_fields and field not in columns:
            raise ConfigError(
                f"The output has no field {field!r}. Use {' or '.join(columns)}."
            )
        return field or (columns or ["value"])[0]

    @property
    def _value_columns(self) -> list[str]:
        """The columns of the value, which are there also if every row has failed."""
        wanted = output_type(self._plan.output)
        is_record = wanted is not None and not wanted.is_wrapped
        known = (
            wanted.schema.get("properties", {}) if wanted and is_record else ["value"]
        )
        return list(known)

    def estimate(self) -> "Estimate":
        """Estimate what all rows take together; calls no model.

        Before the first rows by their length, with a range that is wide where there are
        tools; by what they took once five are done. Raises ConfigError where the rows
        cannot be counted.
        """
        total, done = self.counts.total, self.counts.worked
        if total is None:
            raise ConfigError(
                "These rows can't be counted, because they are read one by one. Pass a "
                "list or a DataFrame."
            )
        if done < LEAST_MEASURED:
            return self._guess(total)
        usage, seconds = self.counts.usage, self.counts.seconds
        scales = [share * total / done for share in MEASURED_RANGE]
        tokens = [round(each * usage.total_tokens) for each in scales]
        is_priced = usage.priced_tokens > 0
        dollars = [each * usage.dollars for each in scales] if is_priced else None
        minutes = [each * seconds / MINUTE for each in scales]
        return Estimate(total, tokens, dollars, minutes, done)

    def _guess(self, total: int) -> "Estimate":
        """An estimate by the length of the first rows."""
        agent = self._first_agent
        if agent is None:
            return Estimate(0, (0, 0), (0.0, 0.0), (0.0, 0.0))
        sample = [row.prompt for row in islice(self._read(), LOOKED_UP)]
        wanted = output_type(self._plan.output)
        each_time = [repr(wanted.schema)] if wanted else []
        each_time += fixed_texts(agent.system, agent.tools)
        units = sum(map(most_tokens, sample)) // len(sample)
        asked = (units + sum(map(most_tokens, each_time))) // TOKEN_BYTES
        requests = [total * self._plan.samples * each for each in _requests(agent)]
        both = [*zip(requests, ANSWER_TOKENS, REQUEST_SECONDS, strict=True)]
        uses = [Usage(count * asked, count * answer) for count, answer, _ in both]
        meter, share = self._control.meter, BATCH_SHARE if self._batch else 1.0
        prices = (meter and meter.budget.prices) or agent.provider.info().prices
        return Estimate(
            total,
            [each.total_tokens for each in uses],
            [share * prices.cost(each) for each in uses] if prices else None,
            [count * one / self._workers / MINUTE for count, _, one in both],
        )

    def _drive(self) -> None:
        """Work on all rows, and stop the clock at the end."""
        self.counts.begin()
        try:
            if self._batch:
                seconds = POLL_SECONDS if self._batch is True else float(self._batch)
                driver = BatchDriver(self._results, self._control.stop, seconds)
                driver.run(self._next_task, self._take_result)
            else:
                self._drive_executor()
        except Exception as error:  # noqa: BLE001  # a fault in here, or in a store
            self._fail(error)
        finally:
            self.counts.end()
            self._control.began.set()

    def _drive_executor(self) -> None:
        """Hand out rows and take their results until there are no more."""
        executor = self._executor or ThreadPoolExecutor(self._workers, "nbchat-row")
        arrived: Arrived = queue.SimpleQueue()
        while True:
            most = 1 if self._is_probing else self._workers * AHEAD
            while self.counts.handed_out < most:
                task = self._next_task()
                if task is None:
                    break
                executor = self._submit(executor, task, arrived)
            if not self.counts.handed_out:
                break
            with suppress(queue.Empty):
                self._take(*arrived.get(timeout=0.02 if self._is_probing else None))
        if executor is not self._executor:
            executor.shutdown(wait=False)

    @property
    def _is_probing(self) -> bool:
        """True if the first row runs alone."""
        is_early = not self._executor and time.monotonic() < self._probe_end
        return is_early and not self._control.began.is_set()

    def _next_task(self) -> RowTask | None:
        """A row that was stopped or failed, else a new one that is not finished."""
        if not self._may_begin:
            return None
        if self._waiting:
            return self._waiting.popleft()
        if (task := self._later.due()) is not None:
            return task
        try:
            return next(self._new, None) or self._awaited()
        except Exception as error:  # noqa: BLE001  # whatever reading a row raises
            self._fail(error)  # what runs is still taken
            return None

    def _awaited(self) -> RowTask | None:
        """A row to ask again, once it is time, if nothing else is left to do."""
        if not self._later.rows or self.counts.handed_out:
            return None
        self._control.stop.wait(self._later.seconds_left)
        return self._later.due() if self._may_begin else None

    def _fail(self, error: Exception) -> None:
        seen = None if isinstance(error, NbchatError) else error
        logger.error("The run %s ended: %s", self.name, error, exc_info=seen)
        self.problem = f"The run ended: {error_line(error)}"
        self._has_failed = True

    @property
    def _may_begin(self) -> bool:
        return not (self._control.stop.is_set() or self._is_out_of_budget)

    def _submit(
        self,
        executor: Executor,
        task: RowTask,
        arrived: "Arrived",
    ) -> Executor:
        """Hand out a row; replace processes that have died, in the end by threads."""
        try:
            future = executor.submit(run_row, task)
        except (BrokenExecutor, RuntimeError) as error:
            executor = self._replaced(executor, error)
            future = executor.submit(run_row, task)
        except UNSENDABLE as error:  # others say so in the future
            future = Future()
            future.set_exception(error)
        self.counts.handed_out += 1
        future.add_done_callback(lambda done: arrived.put((task, done)))
        return executor

    def _replaced(self, executor: Executor, error: Exception) -> Executor:
        """Return new processes, at most three times; after that threads.

        Rows that were running as it died may have ended it, so none runs in a thread.
        """
        self._deaths += 1
        line = f"The executor died ({error_line(error)})."
        if isinstance(executor, ProcessPoolExecutor) and self._deaths <= MOST_PASSES:
            logger.warning("%s Other processes continue.", line)
            kept = vars(executor)
            return ProcessPoolExecutor(kept["_max_workers"], kept["_mp_context"])
        self.problem = f"{line} The rest runs in threads."
        logger.warning("%s", self.problem)
        for task, result in self._later.without_lost():
            self._finish(task, result)
        return ThreadPoolExecutor(self._workers, "nbchat-row")

    def _take(self, task: RowTask, future: "Future[Result]") -> None:
        """Take the result of a worker, or the fault that ended it."""
        self.counts.handed_out -= 1
        try:
            result = future.result()
        except BaseException as error:  # noqa: BLE001  # whatever ended a worker
            result = task.failed(
                f"The executor lost this row: {error_line(error)}",
                failure="row" if isinstance(error, UNSENDABLE) else "lost",
            )
        self._take_result(task, result)

    def _take_result(self, task: RowTask, result: Result) -> None:
        """Keep the result of a row, unless the row goes on later, in its session."""
        task = replace(task, is_new=False)
        self._control.count(result)
        self.counts.usage += result.usage
        if result.stop_reason in UNFINISHED or self._ends_run(task, result):
            self._waiting.append(task)
        elif not self._later.add(task, result, self.counts.done):
            self._finish(task, result)
        if result.stop_reason not in UNFINISHED:
            self._control.began.set()

    def _finish(self, task: RowTask, result: Result) -> None:
        """Keep a result and report it."""
        self._keep(result)
        self.counts.add(result)
        if result.error:
            self._note_failure(task, result)
            if self._on_error is not None:
                self._tell(self._on_error, result)

    def _ends_run(self, task: RowTask, result: Result) -> bool:
        """Return whether the other rows would fail as this one did; the run then stops.

        What has failed so is asked again when the run continues.
        """
        if self._refusal and result.error:
            return True
        is_new = not (self.counts.done or self.counts.skipped)
        alike = self._first.alike(task, result)
        if result.failure == "account" or (result.failure == "setup" and is_new):
            reason = result.error
        elif alike >= ALIKE:
            reason = (
                f"Stopped, because {alike} of the first {self._first.count} rows "
                f"failed with the same error: {result.error}. When its cause is gone, "
                "run the cell again or call run.resume()."
            )
        else:
            return False
        self._is_refused_at_once = not self._control.began.is_set()
        self.problem = self._refusal = reason
        self._newest_failures.append(result)
        self._withdraw_first()
        self.stop()
        return True

    def _withdraw_first(self) -> None:
        """Ask the failed first rows again when the run continues."""
        for task, failure in self._first.failed:
            if self._failed.pop(task.row.key, None):
                self._keep(replace(failure, failure="run"))
                self.counts.add(failure, -1)
                self._waiting.append(task)

    def _note_failure(self, task: RowTask, result: Result) -> None:
        """Show the error; a row that cannot be asked is not tried again."""
        self._newest_failures.append(result)
        if not task.row.problem:
            self._failed[task.row.key] = task

    def _tell(self, on_error: Callable[[Result], object], failure: Result) -> None:
        try:
            on_error(failure)
        except Exception as error:  # noqa: BLE001  # a user's function
            self.problem = f"on_error raised {error_line(error)}"
            logger.warning("%s", self.problem)

    def _keep(self, result: Result) -> None:
        if result.is_kept:
            return
        try:
            self._results.put(result)
        except StoreError as error:
            self.problem = f"The results are only in memory. {error}"
            logger.warning("%s", self.problem)
            memory = MemoryResults(self._results)
            memory.put(replace(result, note="not saved"))
            self._results = memory

    def _new_tasks(self) -> Iterator[RowTask]:
        """The rows that are not finished, looked up in the store some at a time."""
        for number, chunk in enumerate(self._chunks()):
            known = self._results.find([row.key for row in chunk])
            if not (number or known):
                self._note_other_keys()
            begun = self._begun(chunk)
            for row in chunk:
                task = self._task(row, known.get(row.key), begun)
                if task is not None:
                    yield task

    def _note_other_keys(self) -> None:
        """Note that earlier results have other keys, so that all rows are asked."""
        if (other := next(iter(self._results), None)) is not None:
            self.problem = (
                f"Earlier results of {self.name} have other keys, such as {other.key}. "
                "They stay in the table, and every row is asked. If that's not what "
                "you want, call run.stop() and use the earlier key."
            )

    def _chunks(self) -> Iterator[list[Row]]:
        """The rows, some at a time; an error comes after the rows before it."""
        chunk: list[Row] = []
        try:
            for row in self._rows:
                chunk.append(self._unique(row))
                if len(chunk) == LOOKED_UP:
                    whole, chunk = chunk, []
                    yield whole
        finally:
            if chunk:
                yield chunk

    def _unique(self, row: Row) -> Row:
        """The row, or one with a fault if its key occurred before."""
        mark = hash(row.key)
        if mark not in self._seen:
            self._seen.add(mark)
            return row
        key = f"{row.key} (row {row.number})"
        return replace(row, key=key, problem=f"The key {row.key} occurs twice.")

    def _begun(self, rows: Sequence[Row]) -> set[str]:
        """Stored sessions of rows; all of them if the store can't be read."""
        ids, store = (
            [self._plan.session_id(each.key) for each in rows],
            self._plan.store,
        )
        try:
            return store.known(ids) if store else set()
        except StoreError:
            return set(ids)

    def _task(self, row: Row, known: Result | None, begun: set[str]) -> RowTask | None:
        """The task of a row; None if it is finished already."""
        plan, attempt = self._plan, known.attempt if known else 0
        note = self._change_of(row, known) if known else ""
        if note and self._redo_changed:
            known, attempt = None, attempt + 1
        named = plan.session_id(row.key, attempt)
        task = RowTask(plan, row, known.session_id if known else named, attempt)
        if known is not None:
            if note:
                self.changed[row.key] = note
            if known.number != row.number or note != known.note:
                self._results.put(replace(known, number=row.number, note=note))
            if known.has_ended(plan.samples):
                self.counts.skip(known)
                self._control.began.set()
                if known.error:
                    self._note_failure(task, known)
                return None
        return replace(task, is_new=attempt == 0 and named not in begun)

    def _change_of(self, row: Row, known: Result) -> str:
        is_other = known.recipe != self._plan.recipe
        return CHANGED_NOTES[known.input_hash != row.input_hash, is_other]


class FirstRows:
    """The first rows of a run. It stops if they fail alike."""

    def __init__(self) -> None:
        self.failed: list[tuple[RowTask, Result]] = []
        self._causes: list[str] = []

    @property
    def count(self) -> int:
        """Number of them so far."""
        return len(self._causes)

    def alike(self, task: RowTask, result: Result) -> int:
        """Number that failed like this one; 0 if it worked, or isn't a first row."""
        if self.count == FIRST_ROWS:
            self.failed.clear()
            return 0
        # Without what differs from row to row
        cause = re.sub(r"\d+", "0", result.error.replace(result.key, "KEY"))
        self._causes.append(cause)
        if cause:
            self.failed.append((task, result))
        return self._causes.count(cause) if cause else 0


class LaterRows:
    """Rows whose failure may pass. They're asked again after others."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, RowTask, Result]] = []
        """Rows with the time at which each is asked again."""
        self._passes: dict[str, tuple[int, int]] = {}
        """By key: the number of tries, and of rows that were done then."""

    def add(self, task: RowTask, result: Result, done: int) -> bool:
        """Take a row, unless no row has worked since its last try."""
        if result.failure not in ("passing", "lost"):
            return False
        passes, done_then = self._passes.get(task.row.key, (0, -1))
        if passes == MOST_PASSES or done == done_then:
            return False
        self._passes[task.row.key] = (passes + 1, done)
        pause = 0 if result.failure == "lost" else pause_before(MOST_RETRIES + passes)
        self.rows.append((time.monotonic() + pause, task, result))
        return True

    @property
    def seconds_left(self) -> float:
        """Seconds until the first one is asked again."""
        return max(min(at for at, _, _ in self.rows) - time.monotonic(), 0)

    def due(self) -> RowTask | None:
        """A row whose time has come; None without one."""
        now = time.monotonic()
        due = next((each for each in self.rows if each[0] <= now), None)
        if due is None:
            return None
        self.rows.remove(due)
        return due[1]

    def without_lost(self) -> list[tuple[RowTask, Result]]:
        """Give up those whose worker has died, and return them."""
        lost = [each for each in self.rows if each[2].failure == "lost"]
        self.rows = [each for each in self.rows if each not in lost]
        return [(task, result) for _, task, result in lost]


class Counts:
    """Progress and cost of a run."""

    def __init__(self, total: int | None, workers: int) -> None:
        """`total` is the number of rows, if it is known."""
        self.total = total
        self._workers = workers
        self.done = 0
        self.failed = 0
        self.skipped = 0
        """Rows that an earlier run has finished."""
        self.worked = 0
        """Rows that this run has finished or tried."""
        self.handed_out = 0
        """Rows that run or wait for a worker."""
        self.usage = Usage()
        self._seconds = 0.0
        self._began_at: float | None = None

    def begin(self) -> None:
        """Start the clock."""
        self._began_at = time.monotonic()

    def end(self) -> None:
        """Stop the clock."""
        self._seconds, self._began_at = self.seconds, None

    def add(self, result: Result, count: int = 1) -> None:
        """Count a result; -1 takes it back."""
        self.worked += count
        if result.error:
            self.failed += count
        else:
            self.done += count

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
    def running(self) -> int:
        """Rows that are being worked on."""
        return min(self.handed_out, self._workers)

    @property
    def over(self) -> int:
        """Rows that have a result."""
        return self.done + self.failed + self.skipped

    @property
    def text(self) -> str:
        """Numbers of done, failed and running rows, as text."""
        known = f" of {self.total:,}" if self.total is not None else ""
        parts = [f"{self.over:,}{known} rows"]
        if self.total:
            filled = round(BAR_LENGTH * min(self.over / self.total, 1))
            parts.insert(0, "█" * filled + "░" * (BAR_LENGTH - filled))
        counted = {
            "done earlier": self.skipped,
            "failed": self.failed,
            "running": self.running,
        }
        parts += [f"{count:,} {what}" for what, count in counted.items() if count]
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


def _duration(seconds: float) -> str:
    if seconds < MINUTE:
        return f"{seconds:.0f} s"
    if seconds < HOUR:
        return f"{seconds / MINUTE:.0f} min"
    return f"{seconds / HOUR:.1f} h"


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated total of a run: the least and the most that is likely."""

    rows: int
    tokens: Sequence[int]
    dollars: Sequence[float] | None
    """None where the price of the model is unknown."""
    minutes: Sequence[float]
    measured: int = 0
    """The finished rows that it is based on; 0 before the first ones."""

    def __repr__(self) -> str:
        """One line."""
        parts = ["{:,} to {:,} tokens".format(*self.tokens)]
        if self.dollars is not None:
            parts.append("${:,.2f} to ${:,.2f}".format(*self.dollars))
        parts.append(" to ".join(_duration(each * MINUTE) for each in self.minutes))
        basis = f", by the first {self.measured:,}" if self.measured else ""
        return f"{self.rows:,} rows{basis}: {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Agreement:
    """Number of rows that match their labels."""

    by_category: Mapping[str, tuple[int, int]]
    """For each label, the number of right rows and of all."""

    @property
    def right(self) -> int:
        """Rows that match their label."""
        return sum(right for right, _ in self.by_category.values())

    @property
    def total(self) -> int:
        """Rows that have a label."""
        return sum(count for _, count in self.by_category.values())

    def __repr__(self) -> str:
        """The sum, and a line for each label, the worst first."""
        lines = [
            (right / count, f"{name}: {right} of {count}")
            for name, (right, count) in self.by_category.items()
        ]
        ordered = [line for _, line in sorted(lines, key=lambda each: each[0])]
        return "\n".join([f"{self.right} of {self.total} right", *ordered])


class MemoryResults:
    """Results in memory, without a store or beside one that can't be written."""

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
        """All results, in the order of the rows."""
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


class BatchDriver:
    """Runs the turns of many rows through a provider's batch API.

    Each turn runs until it needs a reply; the requests of all turns are one batch; then
    all continue with their replies. What was sent is kept in the store, so that another
    process finds the replies. Summaries of long sessions are asked for at once, at full
    price.
    """

    def __init__(
        self, results: Results, stop: threading.Event, poll_seconds: float
    ) -> None:
        """`results` keeps which batches are open."""
        self._results = results
        self._stop = stop
        self._poll_seconds = poll_seconds
        self._open: dict[str, frozenset[str]] = dict(results.batches())
        """Batches that are being worked on, with the ids of their requests."""
        self._wanted: dict[str, Request] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._read: set[str] = set()
        self._batches: Batches | None = None

    def run(
        self,
        next_task: Callable[[], RowTask | None],
        take: Callable[[RowTask, Result], object],
    ) -> None:
        """Work on all rows; `take` gets each result. Raises ProviderError."""
        tasks = iter(next_task, None)
        while group := list(islice(tasks, TOGETHER)):
            rows = [(task, row_steps(task, self._sending)) for task in group]
            while rows:
                rows = [each for each in rows if not _has_ended(*each, take)]
                self._close(frozenset())
                if self._wanted and not self._stop.is_set():
                    self._exchange()
        if not self._stop.is_set():  # what an earlier process has read is over, too
            self._close(frozenset().union(*self._open.values()))

    def _sending(self, task: RowTask, agent: Agent) -> Callable[..., ReplyStream]:
        def send(
            provider: Provider,
            request: Request,
            *,
            stop: threading.Event | None = None,
            live: bool = False,
        ) -> ReplyStream:
            del live  # a batch brings whole replies
            self._batches = self._batches or _batches_of(provider)
            length = len(agent.session.transcript)
            is_plain = request.output_schema is None
            name = f"{task.session_id}-{length}{'p' if is_plain else ''}"
            return (yield from self._reply(name, request, stop))

        return send

    def _reply(
        self, name: str, request: Request, stop: threading.Event | None
    ) -> Generator[RequestQueued, None, Reply]:
        for attempt in range(ATTEMPTS):
            sent = f"{name}-{attempt}" if attempt else name
            while sent not in self._outcomes:
                if stop is not None and stop.is_set():
                    self._wanted.pop(sent, None)
                    raise Stopped("stopped")
                self._wanted[sent] = request
                yield RequestQueued(sent)
            outcome = self._outcomes.pop(sent)
            self._read.add(sent)
            if isinstance(outcome, Reply):
                return outcome
            is_passing = isinstance(outcome, ProviderError) and outcome.is_retryable
            if not is_passing or attempt == ATTEMPTS - 1:
                raise outcome
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _exchange(self) -> None:
        """Send requests that are in no batch yet, and wait until a batch is ready."""
        assert self._batches is not None  # noqa: S101  # a request waits
        covered = frozenset[str]().union(*self._open.values())
        new = {n: each for n, each in self._wanted.items() if n not in covered}
        if new:
            batch_id = self._batches.submit(new)
            self._open[batch_id] = frozenset(new)
            self._results.add_batch(batch_id, self._open[batch_id])
        while not self._has_arrived(self._batches) and not self._stop.is_set():
            self._stop.wait(self._poll_seconds)

    def _has_arrived(self, batches: "Batches") -> bool:
        """True if a batch has ended; replies that rows wait for are then read."""
        for batch_id, names in self._open.items():
            wanted = names & set(self._wanted)
            if not wanted:
                continue
            outcomes = batches.outcomes(batch_id)
            if outcomes is None:
                continue
            for name in wanted:
                request = self._wanted.pop(name)
                self._outcomes[name] = batches.reply(outcomes.get(name, {}), request)
            return True
        return False

    def _close(self, names: frozenset[str]) -> None:
        """Forget the batches all of whose replies are in sessions, or among `names`."""
        for batch_id, sent in list(self._open.items()):
            if sent <= self._read | names:
                self._results.remove_batch(batch_id)
                del self._open[batch_id]


def _has_ended(
    task: RowTask, steps: Steps, take: Callable[[RowTask, Result], object]
) -> bool:
    """Run a row until it waits for a reply; True if it is over."""
    try:
        while not isinstance(next(steps), RequestQueued):
            pass
    except StopIteration as end:
        take(task, end.value)
        return True
    return False


def _batches_of(provider: Provider) -> "Batches":
    """The batch API of a provider; raises ConfigError if it has none."""
    # Not at the top: it imports the SDKs of all batch APIs.
    from nbchat.providers.batches import batches_of  # noqa: PLC0415

    return batches_of(provider)


def _by_key(values: Any) -> dict[str, Any]:
    """Values of a dictionary or a Series as JSON has them; raises ConfigError."""
    if hasattr(values, "columns") or not hasattr(values, "items"):
        raise ConfigError(
            f"Values by key can't be {type(values).__name__}. Use a dictionary or a "
            "Series."
        )
    return {str(key): as_json(value) for key, value in values.items()}


def _requests(agent: Agent) -> tuple[int, int]:
    """The least and the most requests that a row is likely to take."""
    return (2, 2 + len(agent.tools)) if agent.tools else (1, 1)


def _table_of(rows: Iterable[Mapping[str, Any]], value_columns: Sequence[str]) -> Any:
    """A DataFrame of results; raises ConfigError without pandas.

    `value_columns` follow the key, whether a row has them or not.
    """
    try:
        import pandas as pd  # noqa: PLC0415  # an optional dependency
    except ImportError as error:
        raise ConfigError(
            "table() needs pandas. Use run.rows(), or run: pip install pandas"
        ) from error
    found = list(rows)
    empty = Result(key="", number=0).as_row()
    names = dict.fromkeys(["key", *value_columns, *empty])
    others = dict.fromkeys(name for row in found for name in row)
    return pd.DataFrame(found or None, columns=list(names | others))
