"""What is tried, in order, until there is a summary.

    the chat's own request and one message more, where its cache is warm
    -> the plain transcript, in parts when it is longer than a request
    -> once more, told why: shorter, with more room, when it was too long
    -> the other shape -> a second model
    -> no model, where the chat could not go on otherwise

Passing faults of a server are waited out at each step. A model is asked at most
MOST_ANSWERS times in one compaction.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from threading import Event as Flag
from typing import TypeVar, assert_never

from nbchat.compaction.summarizer.chunking import MOST_PARTS
from nbchat.compaction.summarizer.prompts import Assignment, instruction
from nbchat.compaction.summarizer.strategies import (
    LEAST_ROOM,
    MOST_REFUSALS,
    SOFT_REFUSALS,
    Draft,
    Shape,
    Writer,
    make_draft,
    shared_draft,
)
from nbchat.compaction.summarizer.structured import rendered
from nbchat.compaction.summarizer.validation import Source, check_story, read_summary
from nbchat.conversation.entries import Entry, Status, Usage
from nbchat.conversation.events import CompactionProgress, RetryScheduled
from nbchat.errors import (
    CompactionError,
    ContextOverflow,
    NbchatError,
    RequestRefused,
    Stopped,
)
from nbchat.providers.base import Reply, ReplyStream, Request
from nbchat.providers.streaming import stream_with_retries

MOST_ANSWERS = MOST_PARTS + MOST_REFUSALS + SOFT_REFUSALS
"""Requests of one compaction, those to a second model included; passing faults may
make each of them several, see `providers.streaming.ATTEMPTS`."""

OVERFLOW_SHARE = 3
"""After a request was over the window the next holds a third of it: the window is
unknown, or smaller than somebody said."""

Progress = CompactionProgress | RetryScheduled
Attempt = Generator[Progress, None, Entry]
Judged = TypeVar("Judged")
OnUsage = Callable[[Usage], object]
"""Told what each answer has cost, at once: whatever is broken off was paid for."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended: an entry, or none and why; `cost` is of all answers together."""

    entry: Entry | None
    cost: Usage
    model: str
    status: Status = "done"
    reason: str = ""
    code: str = ""
    note: str = ""
    """What a person should know of a summary that is there."""


def write_summary(
    assignment: Assignment,
    writers: Sequence[Writer],
    *,
    entry_of: Callable[[str], Entry],
    without_model: Sequence[Callable[[], Entry]],
    stop: Flag | None,
    on_usage: OnUsage = lambda _usage: None,
) -> Generator[Progress, None, Outcome]:
    """The summary entry by whatever means; raises nothing but Stopped and interrupts.

    `entry_of` makes the entry from a text or raises CompactionError. When no answer
    will do, the first of `without_model` that does not raise makes it.
    """
    work = _Work(assignment, entry_of, stop, on_usage)
    name, refusal = (
        "",
        NbchatError("the summariser has failed before and was not asked"),
    )
    for writer in writers:
        name = writer.name
        try:
            entry = yield from work.written_by(writer)
            return Outcome(entry, work.cost, name, note=work.note)
        except Stopped:
            raise
        except NbchatError as error:
            refusal = error
    why = refusal
    for made in without_model:
        try:
            told = str(why), _code(why)
            return Outcome(made(), work.cost, name, "degraded", *told)
        except CompactionError as error:
            refusal = error
    return Outcome(None, work.cost, name, "failed", str(refusal), _code(refusal))


class _Work:
    """One summary while it is written: what is told, what is left, what it cost."""

    def __init__(
        self,
        assignment: Assignment,
        entry_of: Callable[[str], Entry],
        stop: Flag | None,
        on_usage: OnUsage,
    ) -> None:
        """Begin with nothing but the earlier summary told."""
        self.cost = Usage()
        self._on_usage = on_usage
        self.note = ""
        self._assignment, self._entry_of, self._stop = assignment, entry_of, stop
        self._rest, self._told = assignment.said, assignment.previous
        self._parts_done = self._left_out = self._refusals_left = 0
        self._refusal: CompactionError | None = None
        self._source = Source(
            assignment.tokens, assignment.newest, instruction(assignment)
        )

    def written_by(self, writer: Writer) -> Attempt:
        """The entry by one writer in one shape or another; raises why it cannot."""
        self._refusals_left = writer.refusals
        failure = NbchatError("there was no shape to ask in")
        for shape in self._shapes(writer):
            try:
                return (yield from self._written_as(shape, writer))
            except CompactionError as error:
                failure = error
            except (ContextOverflow, RequestRefused) as error:
                if shape == "plain":  # which asks for the least that there is
                    raise
                failure = error
                self._refusals_left -= 1
            if not self._refusals_left:
                break
        raise failure

    def _shapes(self, writer: Writer) -> list[Shape]:
        """The writer's shapes without one that its window has no room for."""
        has_room = shared_draft(self._assignment, writer.sizes) is not None
        return [shape for shape in writer.shapes if shape == "plain" or has_room]

    def _written_as(self, shape: Shape, writer: Writer) -> Attempt:
        match shape:
            case "plain":
                return self._in_parts(writer)
            case "shared":
                return self._in_place(writer)
            case _:
                assert_never(shape)

    def _in_place(self, writer: Writer) -> Attempt:
        """The summary as the next message of the chat itself; asked again if cut."""
        is_second = self._refusal is not None
        while True:
            request = shared_draft(self._assignment, writer.sizes, self._refusal)
            if request is None:
                raise self._refusal or CompactionError("no-room", "it does not fit")
            reply = yield from self._reply(writer, request)
            try:
                entry = self._final(reply)
            except CompactionError as error:
                self._refuse(error)
                if is_second or error.reason != "max-tokens":
                    raise
                is_second = True
            else:
                self.note = ""  # it was told in one piece after all
                return entry

    def _in_parts(self, writer: Writer) -> Attempt:
        """The summary of a transcript; in smaller parts when the server has no room."""
        limit: int | None = None
        while True:
            draft = make_draft(
                self._assignment,
                writer.sizes,
                rest=self._rest,
                previous=self._told,
                model=writer.model,
                done=self._parts_done,
                limit=limit,
            )
            try:
                return (yield from self._all_parts(writer, draft))
            except ContextOverflow:
                self._refusals_left -= 1
                limit = max(part.tokens for part in draft.parts) // OVERFLOW_SHARE
                if not self._refusals_left or limit < LEAST_ROOM:
                    raise

    def _all_parts(self, writer: Writer, draft: Draft) -> Attempt:
        """Each part folded into the summary of those before it."""
        *earlier, last = range(len(draft.parts))
        for place in earlier:
            told = yield from self._asked(writer, draft, place, self._judged)
            self._tick_off(draft, place)
            self._told = told
        entry = yield from self._asked(writer, draft, last, self._final)
        self._tick_off(draft, last)
        self.note = _note(self._parts_done, self._left_out)
        return entry

    def _tick_off(self, draft: Draft, place: int) -> None:
        """Note that a part has been told."""
        part = draft.parts[place]
        shown = draft.shown(self._told)
        self._left_out += part.left_out + max(0, len(self._told) - len(shown))
        self._rest = self._rest[part.entries :]
        self._parts_done += 1

    def _asked(
        self,
        writer: Writer,
        draft: Draft,
        place: int,
        judge: Callable[[Reply], Judged],
    ) -> Generator[Progress, None, Judged]:
        """What passes of an answer; after a refusal it is asked for once more."""
        if draft.total > 1:
            yield CompactionProgress(draft.done + place, draft.total)
            if self._stop is not None and self._stop.is_set():
                raise Stopped("stopped")
        is_second = False
        while True:
            request = draft.request(place, self._told, self._refusal)
            reply = yield from self._reply(writer, request)
            try:
                passed = judge(reply)
            except CompactionError as error:
                self._refuse(error)
                if is_second or not self._refusals_left:
                    raise
                is_second = True
            else:
                self._refusal = None
                return passed

    def _refuse(self, refusal: CompactionError) -> None:
        """Keep why an answer was refused, for the next one to be better."""
        self._refusals_left -= 1
        self._refusal = refusal

    def _judged(self, reply: Reply) -> str:
        is_structured = self._assignment.is_structured
        text = read_summary(reply, is_structured=is_structured)
        text = rendered(text) if is_structured else text
        check_story(text, self._source)
        return text

    def _final(self, reply: Reply) -> Entry:
        return self._entry_of(self._judged(reply))

    def _reply(
        self, writer: Writer, request: Request
    ) -> Generator[Progress, None, Reply]:
        """An answer, its waits shown, its text only when it has passed the gates."""
        stream = stream_with_retries(writer.provider, request, stop=self._stop)
        reply = yield from _without_text(stream)
        self.cost += reply.usage
        self._on_usage(reply.usage)
        return reply


def _without_text(stream: ReplyStream) -> Generator[RetryScheduled, None, Reply]:
    while True:
        try:
            delta = next(stream)
        except StopIteration as finished:
            reply: Reply = finished.value
            return reply
        if isinstance(delta, RetryScheduled):
            yield delta


def _note(parts: int, left_out: int) -> str:
    """What was not as usual, in one line; empty when all was."""
    told = f"told in {parts} parts" if parts > 1 else ""
    cut = f"about {left_out:,} characters of long texts left out" if left_out else ""
    return ", ".join(filter(None, (told, cut)))


def _code(error: NbchatError) -> str:
    return error.reason if isinstance(error, CompactionError) else type(error).__name__
