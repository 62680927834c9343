"""Run the turns of many rows through a provider's batch API.

Each turn runs until it needs a reply; the requests of all turns are one batch; then all
continue with their replies. What was sent is kept in the store, so that another process
finds the replies. Summaries of long sessions are asked for at once, at full price.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from itertools import islice
from threading import Event as Flag
from typing import TYPE_CHECKING

from nbchat.agent.agent import Agent
from nbchat.agent.map_results import Result, Results
from nbchat.agent.map_rows import (
    RowTask,
    asked_of,
    begun_turn,
    failed,
    finished,
    kept,
    known_result,
    observe,
)
from nbchat.agent.running_turn import Turn
from nbchat.agent.structured_output import output_type
from nbchat.conversation.events import RequestQueued
from nbchat.errors import ProviderError, Stopped
from nbchat.providers.base import Provider, Reply, ReplyStream, Request

if TYPE_CHECKING:
    from nbchat.providers.batches import Batches, Outcome

TOGETHER = 2_000
"""Rows whose sessions are in memory at once; the next ones have batches of theirs."""

ATTEMPTS = 4
"""Times that a request is sent whose batch expired, whose server was overloaded or has
refused content of it, which is then left out."""

POLL_SECONDS = 30.0
"""Between two questions whether a batch is ready."""


class BatchDriver:
    """Runs rows together, request by request."""

    def __init__(
        self,
        results: Results,
        stop: Flag,
        poll_seconds: float = POLL_SECONDS,
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
            self._run_together(group, take)
        if not self._stop.is_set():  # what an earlier process has read is over, too
            self._close(frozenset().union(*self._open.values()))

    def _run_together(
        self, tasks: list[RowTask], take: Callable[[RowTask, Result], object]
    ) -> None:
        rows: dict[int, BegunRow] = {}
        for number, task in enumerate(tasks):
            begun = self._begun(task)
            if isinstance(begun, Result):
                take(task, begun)
            else:
                rows[number] = begun
        while rows:
            for number, row in list(rows.items()):
                if (result := _advanced(row)) is not None:
                    take(row.task, result)
                    del rows[number]
            self._close(frozenset())
            if self._wanted and not self._stop.is_set():
                self._exchange()

    def _begun(self, task: RowTask) -> "BegunRow | Result":
        """A row with its turn, whose requests are collected; or its result."""
        try:
            task, agent = asked_of(task)
            output = output_type(task.output)
            known = known_result(agent.session, task, output)
            if known is not None:
                return known
            agent.send = self._sender(task, agent)
            return BegunRow(task, agent, begun_turn(agent, task, output))
        except Exception as error:  # noqa: BLE001  # a row of the table
            return failed(error, task, [])

    def _sender(self, task: RowTask, agent: Agent) -> Callable[..., ReplyStream]:
        def send(
            provider: Provider,
            request: Request,
            *,
            stop: Flag | None = None,
            live: bool = False,
        ) -> ReplyStream:
            del live  # a batch brings whole replies
            if self._batches is None:
                self._batches = _batches_of(provider)
            length = len(agent.session.transcript)
            is_plain = request.output_schema is None
            name = f"{task.session_id}-{length}{'p' if is_plain else ''}"
            return (yield from self._reply(name, request, stop))

        return send

    def _reply(
        self, name: str, request: Request, stop: Flag | None
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
        """Send what is in no batch yet, and wait until a batch is ready."""
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
        """Whether a batch has ended; the replies that rows wait for are then read."""
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


def check_batches(provider: Provider) -> None:
    """Raise ConfigError for a provider without a batch API."""
    _batches_of(provider)


def _batches_of(provider: Provider) -> "Batches":
    # Not at the top: it imports the SDKs of all batch APIs.
    from nbchat.providers.batches import batches_of  # noqa: PLC0415

    return batches_of(provider)


@dataclass(frozen=True, slots=True)
class BegunRow:
    """A row that waits for replies."""

    task: RowTask
    agent: Agent
    turn: Turn


def _advanced(row: BegunRow) -> Result | None:
    """The result of a row; None where it waits for a reply."""
    try:
        for event in row.turn:
            observe(event, row.agent, row.task.control)
            if isinstance(event, RequestQueued):
                return None
        result = finished(row.turn, row.task, [row.turn])
    except Exception as error:  # noqa: BLE001  # a row of the table
        result = failed(error, row.task, [row.turn])
    return kept(result, row.agent, row.task)
