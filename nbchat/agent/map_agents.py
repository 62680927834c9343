"""Run an agent for each row, up to a hundred thousand; running again resumes.

    run = map_agents(make_agent, tickets, key="id", prompt="text", output=Decision,
                     workers=8, budget=Budget(dollars=5), store=Store("sqlite:///t.db"))
    run.table()         # a DataFrame, in the order of the rows
    run.retry_failed()

Each row has a session of its own. With a store a row is decided once: one whose session
ends with a valid answer is not asked again, whatever was killed in between, and one
that was interrupted continues from its last entry. An error is a row of the table and
never ends the run. Rows are read one by one, so that their number does not matter.
"""

import logging
import queue
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pickle import PickleError
from typing import Any

from nbchat.agent.agent import Agent
from nbchat.agent.batch_driver import POLL_SECONDS, BatchDriver, check_batches
from nbchat.agent.budget import Budget, check_price, meter_of
from nbchat.agent.live_output import LiveDisplay, live_display
from nbchat.agent.map_results import (
    CHANGED_NOTES,
    Agreement,
    Counts,
    Estimate,
    MemoryResults,
    Result,
    Results,
    ResultStore,
    agreement_of,
    table_of,
)
from nbchat.agent.map_rows import (
    MOST_RETRIES,
    Control,
    MakeAgent,
    Prompts,
    Row,
    RowTask,
    first_agent,
    pause_before,
    recipe_of,
    run_row,
    session_id_of,
)
from nbchat.agent.structured_output import output_type
from nbchat.conversation.entries import Usage, html_table
from nbchat.conversation.returned_values import error_line
from nbchat.errors import ConfigError, StoreError
from nbchat.providers.base import fixed_texts
from nbchat.providers.tokens import TOKEN_BYTES, most_tokens

logger = logging.getLogger(__name__)

DEFAULT_WORKERS = 8

FAILURES_SHOWN = 5

AHEAD = 2
"""Rows that are handed out for each worker: one runs, one waits."""

PROBE_SECONDS = 2.0
"""How long the first row is asked alone: an unknown model is refused in less."""

FIRST_ROWS, ALIKE = 20, 10
"""A run stops when so many of its first rows fail with one cause."""

LEAST_MEASURED, MEASURED_SPREAD = 5, 0.25
"""Finished rows from which an estimate is made of what they took, and its range."""

ANSWER_TOKENS, REQUEST_SECONDS = (30, 500), (1.0, 10.0)
"""Of one request, the least and the most that is likely, before any is measured."""

BATCH_SHARE = 0.5
"""Of the price, through a batch API."""

MOST_PASSES = 3
"""Times that a row is asked again, after others, where its failure may pass."""

LOOKED_UP = 200
"""Rows whose results are looked up in the store at once."""

UNSENDABLE = (PickleError, TypeError, AttributeError)
"""Of a row that cannot be sent to another process."""

Arrived = queue.SimpleQueue[tuple[RowTask, Future[Result]]]

UNFINISHED = ("stopped", "budget")
"""Stop reasons after which a repeated run continues the row."""


def map_agents(
    make_agent: MakeAgent,
    rows: Iterable[Any],
    *,
    key: str | Callable[[Any], object] | None = None,
    prompt: str | Callable[[Any], str] | None = None,
    output: Any = None,
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
    """Run an agent of its own for each row; returns the run at once.

    `make_agent` is a function that makes an agent (of nothing, or of the row), or an
    agent that is repeated. Rows are dictionaries, objects, texts, or a DataFrame; `key`
    and `prompt` are fields of them or functions. `executor` is any of
    `concurrent.futures`, such as processes or Dask's `client.get_executor()`; without
    it there are `workers` threads. `store` keeps sessions and results by `name`, which
    is that of `make_agent` by default, so that the same call continues where it ended.
    Finished rows whose input, agent or `output` has changed are kept and named, or with
    `redo_changed` done again. `on_error` gets each failed row. `batch` sends all
    requests, those after tool calls too, through the batch API of OpenAI or Anthropic:
    at half the price, within a day; a number is the seconds between two looks. Tools
    then run one after the other in this process. With `start=False` nothing is asked
    until `resume()`.

    Raises ConfigError for what would fail in every row, such as an unknown model: for
    that the first row is asked alone, and waited for up to two seconds.
    """
    _check(make_agent, rows, workers)
    output_type(output)  # raises ConfigError
    run = MapRun(
        Prompts(make_agent, rows, key, prompt),
        Control(meter_of(budget)),
        output=output,
        workers=workers,
        executor=executor,
        store=store,
        name=name or getattr(make_agent, "__qualname__", "") or "agents",
        redo_changed=redo_changed,
        on_error=on_error,
        batch=batch,
    )
    return run.begin() if start else run


def _check(make_agent: MakeAgent, rows: Iterable[Any], workers: int) -> None:
    if workers < 1:
        raise ConfigError(f"workers={workers} is too few. Use at least 1.")
    if not isinstance(make_agent, Agent) and not callable(make_agent):
        raise ConfigError(
            f"make_agent can't be {make_agent!r}. Use a function or an Agent."
        )
    if not isinstance(rows, Iterable):
        raise ConfigError(
            f"rows can't be {type(rows).__name__}. Use a DataFrame or a list."
        )


class MapRun:
    """A run of many agents: its progress, its table, and how to stop and resume it."""

    def __init__(
        self,
        prompts: Prompts,
        control: Control,
        *,
        output: Any,
        workers: int,
        executor: Executor | None,
        store: ResultStore | None,
        name: str,
        redo_changed: bool,
        on_error: Callable[[Result], object] | None,
        batch: bool | float,
    ) -> None:
        self.name = name
        self.counts = Counts(prompts.total)
        """How many rows are finished, failed, skipped and running, and their cost."""
        self.changed: dict[str, str] = {}
        """Finished keys whose input, agent or `output` has changed, with which."""
        self.problem = ""
        """Why the run ended early, or runs in another way."""
        self._has_failed = False
        self._prompts = prompts
        self._control = control
        self._output = output
        self._workers = workers
        self._executor = executor
        self._store = store
        self._results: Results = store.results(name) if store else MemoryResults()
        self._redo_changed = redo_changed
        self._on_error = on_error
        self._batch = batch
        agent = self._checked_agent()
        self._first_agent = agent
        self._recipe = recipe_of(agent, prompts.make_agent, output) if agent else ""
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
        """Why no row can work, or the first ones did not."""
        self._probe_end = 0.0
        self._deaths = 0
        self._thread: threading.Thread | None = None
        self._display: LiveDisplay | None = None

    def __repr__(self) -> str:
        """The progress on one line."""
        return f"<MapRun {self.name}, {self.state}: {self.counts.text}>"

    def _repr_html_(self) -> str:
        failures = self._newest_failures.copy()  # rows may fail meanwhile
        rows = {
            "State": self.state,
            "Progress": self.counts.text,
            "Rate": self.counts.rate_text(is_running=self.is_running),
            "Cost": self.counts.cost_text,
            "Estimate": self._estimate_text,
            "Errors": "\n".join(f"{each.key}: {each.error}" for each in failures),
            "Note": self._note,
        }
        shown = {name: text for name, text in rows.items() if text}
        return html_table(f"Run {self.name}", shown)

    def _ipython_display_(self) -> None:
        """Show the run and follow it in this cell; shown once where it has ended."""
        display = live_display()
        if display is None or not (self.is_running or self._display):
            raise NotImplementedError  # IPython continues with _repr_html_
        if self._display is not None:
            self._display.show_again(self)
        else:
            self._display = display
            display.follow(self)

    def _checked_agent(self) -> Agent | None:
        """The first row's agent; raises ConfigError for what fails in every row."""
        row = self._prompts.first()
        if row is None:
            return None
        agent = first_agent(self._prompts.make_agent, row)
        if (meter := self._control.meter) is not None:
            check_price(meter, agent.provider)
        if self._batch:
            check_batches(agent.provider)
        return agent

    def begin(self) -> "MapRun":
        """Start; raises ConfigError if the first answer shows that no row can work."""
        self.resume()
        self._control.began.wait(PROBE_SECONDS)
        if self._refusal:
            self.wait()
            raise ConfigError(self._refusal)
        return self

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
        """Whether rows are being worked on."""
        return self._thread is not None and self._thread.is_alive()

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
        """Begin no more rows; those that run in threads of this process end now."""
        self._control.stop.set()
        return self

    def resume(self) -> "MapRun":
        """Continue after a stop; does nothing while rows are being worked on."""
        if not self.is_running:
            self._control.stop.clear()
            if self._refusal:
                self.problem = self._refusal = ""
            self._first = FirstRows()
            self._probe_end = time.monotonic() + PROBE_SECONDS
            self._thread = threading.Thread(target=self._drive, name="nbchat-map")
            self._thread.start()
            if self._display is not None:
                self._display.follow(self)
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
        found: Results = self._results
        if held := self._first.held:
            found = MemoryResults(found)
            for _, each in held:
                found.put(each)
        return map(Result.as_row, found)

    def table(self, *, wait: bool = True) -> Any:
        """A DataFrame: key, fields of the value, stop_reason, error, tokens, session.

        Waits for the run by default. Raises ConfigError without pandas.
        """
        if wait:
            self.wait()
        return table_of(self.rows(), self._value_columns)

    def estimate(self) -> Estimate:
        """What all rows together take; asks no model.

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
        if done >= LEAST_MEASURED:
            return self._measured(total, done)
        agent = self._first_agent
        if agent is None:
            return Estimate(0, (0, 0), (0.0, 0.0), (0.0, 0.0))
        sample = [row.prompt for row in islice(self._prompts.again(), LOOKED_UP)]
        prompt = sum(map(most_tokens, sample)) // len(sample)
        schema = most_tokens(repr(self._output_schema))
        fixed = sum(map(most_tokens, fixed_texts(agent.system, agent.tools)))
        asked = (prompt + schema + fixed) // TOKEN_BYTES
        tools = len(agent.tools)
        requests = (1, 1) if not tools else (2, 2 + tools)
        return self._estimated(agent, total, asked, requests)

    def _estimated(
        self, agent: Agent, total: int, asked: int, requests: tuple[int, int]
    ) -> Estimate:
        uses = [
            Usage(total * each * asked, total * each * answer)
            for each, answer in zip(requests, ANSWER_TOKENS, strict=True)
        ]
        budget = self._control.meter and self._control.meter.budget
        prices = (budget and budget.prices) or agent.provider.info().prices
        share = BATCH_SHARE if self._batch else 1.0
        dollars = [share * prices.cost(each) for each in uses] if prices else None
        seconds = [
            total * each * one / self._workers / 60
            for each, one in zip(requests, REQUEST_SECONDS, strict=True)
        ]
        return Estimate(
            total,
            (uses[0].total_tokens, uses[1].total_tokens),
            (dollars[0], dollars[1]) if dollars else None,
            (seconds[0], seconds[1]),
        )

    def _measured(self, total: int, done: int) -> Estimate:
        usage, scale = self.counts.usage, total / done
        spread = (1 - MEASURED_SPREAD, 1 + MEASURED_SPREAD)
        tokens, minutes = usage.total_tokens * scale, self.counts.seconds * scale / 60
        return Estimate(
            total,
            (round(tokens * spread[0]), round(tokens * spread[1])),
            (usage.dollars * scale * spread[0], usage.dollars * scale * spread[1])
            if usage.priced_tokens
            else None,
            (minutes * spread[0], minutes * spread[1]),
            done,
        )

    @property
    def _output_schema(self) -> object:
        wanted = output_type(self._output)
        return wanted.schema if wanted else ""

    def review(self) -> Any:
        """A DataFrame to look through: failed and repaired rows first, with `doubt`.

        Its last column, `corrected`, is for a person; `correct` keeps what is in it.
        Raises ConfigError without pandas.
        """
        self.wait()
        order = {"failed": 0, "repaired": 1, "": 2}
        found = sorted(self._results, key=lambda each: order[each.doubt])
        shown = (
            {"doubt": e.doubt, **e.as_row(), "corrected": e.correction} for e in found
        )
        table = table_of(shown, ["doubt", *self._value_columns])
        return table[[name for name in table if name != "corrected"] + ["corrected"]]

    def correct(self, corrections: Any) -> "MapRun":
        """Keep corrected values: by key, or those of a table made by `review`.

        They are the column `corrected` of `table()`. Raises ConfigError for a key that
        no row has.
        """
        if hasattr(corrections, "columns"):
            filled = corrections[corrections["corrected"].notna()]
            corrections = dict(zip(filled["key"], filled["corrected"], strict=True))
        known = self._results.find([str(each) for each in corrections])
        for key, value in corrections.items():
            if (result := known.get(str(key))) is None:
                raise ConfigError(f"No row has the key {key!r}.")
            self._results.put(replace(result, correction=value))
        return self

    def agreement(self, labels: Any, *, field: str = "") -> Agreement:
        """How many rows are as labels say, in all and for each label.

        `labels` are values by key (a dictionary or a Series) of one `field` of the
        output, its first one by default.
        """
        self.wait()
        name = field or self._value_columns[0]
        return agreement_of(self._results, dict(labels.items()), name)

    @property
    def _value_columns(self) -> list[str]:
        """The columns of the value, which are there also if every row has failed."""
        wanted = output_type(self._output)
        is_record = wanted is not None and not wanted.is_wrapped
        return list(wanted.schema["properties"]) if wanted and is_record else ["value"]

    @property
    def _is_complete(self) -> bool:
        """Whether each row has a result; unknown for rows that cannot be counted."""
        return self.counts.total is not None and self.counts.over >= self.counts.total

    @property
    def _is_out_of_budget(self) -> bool:
        meter = self._control.meter
        return meter is not None and meter.is_used_up

    @property
    def _estimate_text(self) -> str:
        is_known = self.is_running and self.counts.worked >= LEAST_MEASURED
        return repr(self.estimate()) if is_known and self.counts.total else ""

    @property
    def _note(self) -> str:
        """What a person should know of the run."""
        notes = (self.problem, self._budget_note, self._failed_note, self._changed_note)
        return "\n".join(filter(None, notes))

    @property
    def _failed_note(self) -> str:
        """How to try the failed rows again."""
        if self.is_running or not self._failed:
            return ""
        count = len(self._failed)
        rows = "1 row" if count == 1 else f"{count:,} rows"
        return f"{rows} failed. run.retry_failed() tries them again."

    @property
    def _budget_note(self) -> str:
        """How to continue a run whose budget is used up."""
        if self.is_running or self._is_complete or not self._is_out_of_budget:
            return ""
        if self._store is None:
            return "With a store, the same call with a larger budget would continue."
        return "The same call with a larger budget continues."

    @property
    def _changed_note(self) -> str:
        if not self.changed:
            return ""
        count = len(self.changed)
        rows = "1 finished row is" if count == 1 else f"{count:,} finished rows are"
        return f"{rows} out of date (run.changed). redo_changed=True runs them again."

    def _drive(self) -> None:
        """Work on all rows, and stop the clock at the end."""
        self.counts.begin()
        try:
            if self._batch:
                self._drive_batches()
            else:
                self._drive_executor()
        except Exception as error:  # noqa: BLE001  # a fault in here, or in a store
            self._fail(error)
        finally:
            self._keep_held()
            self.counts.end()
            self._control.began.set()

    def _drive_executor(self) -> None:
        """Hand out rows and take their results until there are no more."""
        executor = self._executor or ThreadPoolExecutor(self._workers, "nbchat-row")
        arrived: Arrived = queue.SimpleQueue()
        while True:
            most = 1 if self._is_probing else self._workers * AHEAD
            while self.counts.running < most:
                task = self._next_task()
                if task is None:
                    break
                executor = self._submit(executor, task, arrived)
            if not self.counts.running:
                break
            with suppress(queue.Empty):
                self._take(*arrived.get(timeout=0.02 if self._is_probing else None))
        if executor is not self._executor:
            executor.shutdown(wait=False)

    @property
    def _is_probing(self) -> bool:
        """Whether the first row is asked alone."""
        is_early = not self._executor and time.monotonic() < self._probe_end
        return is_early and not self._control.began.is_set()

    def _drive_batches(self) -> None:
        seconds = POLL_SECONDS if self._batch is True else float(self._batch)
        driver = BatchDriver(self._results, self._control.stop, seconds)
        driver.run(self._next_task, self._take_result)

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
        """A row to ask again where nothing else is left to do, once it is time."""
        if not self._later.rows or self.counts.running:
            return None
        self._control.stop.wait(self._later.seconds_left)
        return self._later.due() if self._may_begin else None

    def _fail(self, error: Exception) -> None:
        logger.error("the run %s ended", self.name, exc_info=error)
        self.problem = f"the run ended: {error_line(error)}"
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
        """Hand out a row; processes that have died are replaced, or else by threads."""
        try:
            future = executor.submit(run_row, task)
        except (BrokenExecutor, RuntimeError) as error:
            executor = self._replaced(executor, error)
            future = executor.submit(run_row, task)
        self.counts.running += 1
        future.add_done_callback(lambda done: arrived.put((task, done)))
        return executor

    def _replaced(self, executor: Executor, error: Exception) -> Executor:
        """Other processes, at most three times; after that threads of this process.

        Rows that were running as it died may have ended it, so none runs in a thread.
        """
        self._deaths += 1
        line = f"the executor died ({error_line(error)})"
        if isinstance(executor, ProcessPoolExecutor) and self._deaths <= MOST_PASSES:
            logger.warning("%s; other processes continue", line)
            kept = vars(executor)
            return ProcessPoolExecutor(kept["_max_workers"], kept["_mp_context"])
        self.problem = f"{line}. The rest runs in threads"
        logger.warning("%s", self.problem)
        for _, task, result in self._later.without_lost():
            self._keep(result)
            self._finish(task, result)
        return ThreadPoolExecutor(self._workers, "nbchat-row")

    def _take(self, task: RowTask, future: "Future[Result]") -> None:
        """Take the result of a worker, or the fault that ended it."""
        self.counts.running -= 1
        try:
            result = future.result()
        except BaseException as error:  # noqa: BLE001  # whatever ended a worker
            result = task.failed(
                f"the executor lost this row: {error_line(error)}",
                failure="row" if isinstance(error, UNSENDABLE) else "lost",
            )
        self._take_result(task, result)

    def _take_result(self, task: RowTask, result: Result) -> None:
        """Keep the result of a row; one that was stopped continues later."""
        self._control.count(result)
        if result.stop_reason in UNFINISHED:
            self._waiting.append(task)
            self.counts.add(result, is_finished=False)
            return
        is_later = partial(self._later.add, task, result, self.counts.done)
        if self._ends_run(task, result) or is_later():
            self.counts.add(result, is_finished=False)
        elif result.error and not self._first.are_known:
            self._first.held.append((task, result))
            self._finish(task, result)
        else:
            self._keep_held()
            self._keep(result)
            self._finish(task, result)
        self._control.began.set()

    def _finish(self, task: RowTask, result: Result) -> None:
        self.counts.add(result)
        if result.error:
            self._note_failure(task, result)
            self._tell(result)

    def _ends_run(self, task: RowTask, result: Result) -> bool:
        """Whether the other rows would fail as this one did; the run then stops.

        What has failed so is asked again when the run continues.
        """
        is_new = not (self.counts.done or self.counts.skipped)
        if self._refusal and result.error:
            self._waiting.append(task)
            return True
        if result.failure == "account" or (result.failure == "setup" and is_new):
            self._refuse(task, result, result.error)
            return True
        alike = self._first.alike(result)
        if alike < ALIKE:
            return False
        self._refuse(
            task,
            result,
            f"Stopped, because {alike} of the first {self._first.count} rows failed "
            f"with the same error: {result.error}. When its cause is gone, run the "
            "cell again or call run.resume().",
        )
        return True

    def _refuse(self, task: RowTask, result: Result, reason: str) -> None:
        self.problem = self._refusal = reason
        self._newest_failures.append(result)
        self._waiting.append(task)
        for each, _ in self._first.held:
            self.counts.failed -= 1
            self.counts.worked -= 1
            self._failed.pop(each.row.key, None)
            self._waiting.append(each)
        self._first.held.clear()
        self.stop()

    def _keep_held(self) -> None:
        """Keep the failures of the first rows, now that the run goes on."""
        for _, result in self._first.held:
            self._keep(result)
        self._first.held.clear()

    def _note_failure(self, task: RowTask, result: Result) -> None:
        """Show the error; a row that cannot be asked is not tried again."""
        self._newest_failures.append(result)
        if not task.row.problem:
            self._failed[task.row.key] = task

    def _tell(self, failure: Result) -> None:
        if self._on_error is None:
            return
        try:
            self._on_error(failure)
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
        for chunk in self._chunks():
            known = self._results.find([row.key for row in chunk])
            begun = self._begun(chunk)
            for row in chunk:
                task = self._task(row, known.get(row.key), begun)
                if task is not None:
                    yield task

    def _chunks(self) -> Iterator[list[Row]]:
        """The rows, some at a time; an error comes after the rows before it."""
        chunk: list[Row] = []
        try:
            for row in self._prompts:
                chunk.append(self._unique(row))
                if len(chunk) == LOOKED_UP:
                    whole, chunk = chunk, []
                    yield whole
        except Exception:
            if chunk:
                yield chunk
            raise
        if chunk:
            yield chunk

    def _unique(self, row: Row) -> Row:
        """The row, or one with a fault where its key has occurred before."""
        mark = hash(row.key)
        if mark not in self._seen:
            self._seen.add(mark)
            return row
        key = f"{row.key} (row {row.number})"
        return replace(row, key=key, problem=f"The key {row.key} occurs twice.")

    def _begun(self, rows: Sequence[Row]) -> set[str]:
        """The sessions of rows that the store has; of an unreadable one all may be."""
        ids = [session_id_of(self.name, each.key, 0) for each in rows]
        try:
            return self._store.known(ids) if self._store else set()
        except StoreError:
            return set(ids)

    def _task(self, row: Row, known: Result | None, begun: set[str]) -> RowTask | None:
        """The task of a row; None if it is finished already."""
        attempt = 0
        if known is not None:
            note = self._change_of(row, known)
            if note and self._redo_changed:
                attempt = known.attempt + 1
            elif known.number != row.number or note != known.note:
                self._results.put(replace(known, number=row.number, note=note))
            if note and not self._redo_changed:
                self.changed[row.key] = note
        task = self._made(row, attempt)
        if known is not None and attempt == 0:
            task = replace(task, session_id=known.session_id, attempt=known.attempt)
            self.counts.skip(known)
            self._control.began.set()
            if known.error:
                self._note_failure(task, known)
            return None
        if row.problem:
            self._take_result(task, task.failed(row.problem))
            return None
        return replace(task, is_new=attempt == 0 and task.session_id not in begun)

    def _change_of(self, row: Row, known: Result) -> str:
        changes = (known.input_hash != row.input_hash, known.recipe != self._recipe)
        return CHANGED_NOTES[changes]

    def _made(self, row: Row, attempt: int) -> RowTask:
        return RowTask(
            self._prompts.make_agent,
            row,
            self._output,
            session_id=session_id_of(self.name, row.key, attempt),
            recipe=self._recipe,
            attempt=attempt,
            store=self._store,
            control=self._control,
            run=self.name,
        )


class FirstRows:
    """Whether the first rows of a run fail alike, and the failures among them.

    These are kept when the run goes on.
    """

    def __init__(self) -> None:
        self.held: list[tuple[RowTask, Result]] = []
        self._causes: list[str] = []

    @property
    def count(self) -> int:
        """How many there were so far."""
        return len(self._causes)

    @property
    def are_known(self) -> bool:
        """Whether there were enough to judge the run."""
        return self.count == FIRST_ROWS

    def alike(self, result: Result) -> int:
        """How many failed as this one did; 0 if it has not, or is no first row."""
        if self.are_known:
            return 0
        # Without what differs from row to row
        cause = re.sub(r"\d+", "0", result.error.replace(result.key, "KEY"))
        self._causes.append(cause)
        return self._causes.count(cause) if cause else 0


class LaterRows:
    """Rows whose failure may pass: they are asked again, after others."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, RowTask, Result]] = []
        """Each with the time at which it is asked again."""
        self._passes: dict[str, tuple[int, int]] = {}
        """By key: how often it was, and how many rows were done then."""

    def add(self, task: RowTask, result: Result, done: int) -> bool:
        """Take a row, unless no row has worked since it was asked last."""
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
        """Until the first one is asked again."""
        return max(min(at for at, _, _ in self.rows) - time.monotonic(), 0)

    def due(self) -> RowTask | None:
        """One that it is time for."""
        now = time.monotonic()
        due = next((each for each in self.rows if each[0] <= now), None)
        if due is None:
            return None
        self.rows.remove(due)
        return due[1]

    def without_lost(self) -> list[tuple[float, RowTask, Result]]:
        """Give up those whose worker has died, and return them."""
        lost = [each for each in self.rows if each[2].failure == "lost"]
        self.rows = [each for each in self.rows if each not in lost]
        return lost
