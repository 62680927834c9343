"""Run the tool calls of a reply: approval, order, parallel calls, results, pictures."""

import time
from collections.abc import (
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from functools import cached_property, partial
from itertools import groupby
from threading import Event as Flag
from typing import TYPE_CHECKING
from uuid import uuid4

from nbchat.agent.approvals import approvals_of, is_approved
from nbchat.conversation import events
from nbchat.conversation.entries import (
    Entry,
    Usage,
    denied_result,
    failed_result,
)
from nbchat.conversation.events import Event
from nbchat.conversation.returned_values import ToolOutput
from nbchat.conversation.tools import key_of, run_tool
from nbchat.conversation.turns import INTERRUPTED, calls_by_result
from nbchat.errors import PreviewFailed, Stopped

if TYPE_CHECKING:
    from nbchat.agent.agent import Agent

MOST_PARALLEL = 8
"""Calls of one reply that run at the same time."""

NEEDS_APPROVAL = (
    "not run: this tool changes something and needs approval, but the program passed "
    "no approve= to Agent"
)

Events = Generator[Event, None, None]


class ToolCalls:
    """Runs the tool calls of an agent."""

    def __init__(
        self,
        agent: "Agent",
        append: Callable[[Entry, Usage | None], events.EntryAdded],
        shorten: Callable[[str], Events],
        publish: Callable[[Event], object],
    ) -> None:
        """`append` adds an entry to the transcript.

        `shorten` replaces an output that is too long by what its tool wants shown.
        `publish` passes on the events that cannot be yielded after an interrupt.
        """
        self._agent = agent
        self._append = append
        self._shorten = shorten
        self._publish = publish

    @cached_property
    def _unsaved_id(self) -> str:
        """Part of idempotency keys for sessions that aren't stored."""
        return uuid4().hex

    def run(self, calls: Iterable[Entry], stop: Flag | None) -> Events:
        """Run calls in order and append their results, then their pictures.

        Calls in a row of tools that allow it run in parallel.
        """
        pictures: list[Entry] = []
        for group in self._groups(calls):
            if stop is not None and stop.is_set():
                raise Stopped("stopped")
            for output in (yield from self._outputs(group, stop)):
                yield from self._append_output(output)
                pictures += output.pictures
        for each in pictures:
            yield self._append(each, None)

    def _groups(self, calls: Iterable[Entry]) -> Iterator[list[Entry]]:
        tools = {each.name: each for each in self._agent.tools}

        def is_parallel(call: Entry) -> bool:
            return call.tool_name in tools and tools[call.tool_name].parallel

        for together, run in groupby(calls, is_parallel):
            found = list(run)
            yield from [found] if together else ([each] for each in found)

    def _outputs(
        self, calls: Sequence[Entry], stop: Flag | None
    ) -> Generator[Event, None, list[ToolOutput]]:
        """The outputs of calls; after an interrupt what is known of them is kept."""
        known: dict[int, ToolOutput] = {}
        for number, call in enumerate(calls):
            yield events.ToolRequested(call)
            if (refused := self._refused(call, stop)) is not None:
                known[number] = ToolOutput(refused)
        work = {
            number: partial(self._run, call, stop)
            for number, call in enumerate(calls)
            if number not in known
        }
        futures = _started(work) if len(work) > 1 else {}
        try:
            for number, run in work.items():
                known[number] = futures[number].result() if futures else run()
        except Stopped:
            yield from self._interrupted(calls, known, futures)
            raise
        except BaseException:  # KeyboardInterrupt, after which nothing can be yielded
            for event in self._interrupted(calls, known, futures):
                self._publish(event)
            raise
        return [known[number] for number in range(len(calls))]

    def _interrupted(
        self,
        calls: Sequence[Entry],
        known: dict[int, ToolOutput],
        futures: "Mapping[int, Future[ToolOutput]]",
    ) -> Events:
        """Append what is known of calls that were interrupted."""
        known |= {n: each.result() for n, each in futures.items() if _is_well(each)}
        for number, call in enumerate(calls):
            output = known.get(number)
            entry = output.entry if output else failed_result(call, INTERRUPTED)
            yield self._append(entry, None)

    def _run(self, call: Entry, stop: Flag | None) -> ToolOutput:
        key, began = partial(self._key, call), time.monotonic()
        output = run_tool(self._agent.tools, call, key=key, stop=stop)
        return replace(output, seconds=time.monotonic() - began)

    def _append_output(self, output: ToolOutput) -> Events:
        yield replace(self._append(output.entry, None), seconds=output.seconds)
        yield from self._shorten(output.shown)

    def _refused(self, call: Entry, stop: Flag | None) -> Entry | None:
        """The result of a call that may not run; None if it may."""
        tools = (each for each in self._agent.tools if each.name == call.tool_name)
        called, approve = next(tools, None), self._agent.approve
        if called is None or called.read_only:
            return None
        if approve is None:
            is_safe = called.read_only is None and not called.server
            return None if is_safe else failed_result(call, NEEDS_APPROVAL)
        try:
            may_run = is_approved(
                call, approve=approve, tool=called, agent=self._agent, stop=stop
            )
        except PreviewFailed as error:
            return failed_result(call, f"not run: {error}")
        if may_run:
            return None
        approvals = approvals_of(approve)
        return denied_result(call, approvals.reason(call) if approvals else "")

    def _key(self, call: Entry) -> str:
        """The idempotency key of a call.

        The same calls before it count that have not failed and were not interrupted.
        """
        session = self._agent.session
        entries = session.transcript[:]
        place = next(n for n in reversed(range(len(entries))) if entries[n] is call)
        results = {c: entries[r] for r, c in calls_by_result(entries).items()}
        same = (
            number
            for number, entry in enumerate(entries[:place])
            if entry.is_call
            and entry.tool_name == call.tool_name
            and entry.arguments == call.arguments
        )
        succeeded = sum(
            number not in results or not results[number].is_error for number in same
        )
        return key_of(session.session_id or self._unsaved_id, call, succeeded)


def _started(
    work: Mapping[int, Callable[[], ToolOutput]],
) -> "dict[int, Future[ToolOutput]]":
    """Calls that run on threads, with the context variables of this one."""
    pool = ThreadPoolExecutor(min(len(work), MOST_PARALLEL), "nbchat-tools")
    futures = {
        number: pool.submit(copy_context().run, each) for number, each in work.items()
    }
    pool.shutdown(wait=False)
    return futures


def _is_well(future: "Future[ToolOutput]") -> bool:
    return future.done() and not future.cancelled() and future.exception() is None
