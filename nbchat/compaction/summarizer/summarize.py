"""Ask models for a summary until one is accepted.

    the chat's own request with one more message, where its cache is warm
    -> the conversation as data, in parts when it is longer than a request
    -> once more with the reason of the refusal: shorter, or with a higher limit
    -> once more with the values that the conversation does not hold, then with marks
    -> the other shape -> the fallback model
    -> a summary without a model, where the chat could not continue otherwise

Transient faults of a server are retried at each step. One compaction makes at most
MAX_ANSWERS requests.
"""

import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from threading import Event as Flag
from typing import TypeVar

from nbchat.compaction.policies import Shape
from nbchat.compaction.summarizer.prompts import SAMPLE, Assignment, instruction
from nbchat.compaction.summarizer.reply_validation import (
    LONG_CONVERSATION,
    Sources,
    check_facts,
    check_summary,
    read_summary,
)
from nbchat.compaction.summarizer.requests import (
    LEAST_CONVERSATION,
    MAX_PARTS,
    PlainSteps,
    Sizes,
    SummaryStep,
    plain_steps,
)
from nbchat.compaction.summarizer.structured_summary import (
    StructuredAnswer,
    as_text,
    merged,
    read_answer,
)
from nbchat.compaction.triggers.context_tracker import ContextTracker
from nbchat.conversation.entries import Entry, Status, SummaryFields, Usage
from nbchat.conversation.events import CompactionProgress, RetryScheduled
from nbchat.conversation.values import Value, values
from nbchat.errors import (
    CompactionError,
    ContextOverflow,
    NbchatError,
    RequestRefused,
    Stopped,
)
from nbchat.providers.base import Provider, Reply, Request, RequestOptions, for_summary
from nbchat.providers.retries import stream_with_retries

HARD_TRIGGERS = ("window", "overflow")
"""Triggers after which the chat could not continue without a summary."""

SOFT_REFUSALS, MAX_REFUSALS = 2, 4
"""Refused answers of one model after which it is not asked again: where no person waits
for the summary, and where one does (each shape, and each once more). The first is one
after a failure and for the fallback model, so that constant failures cost little."""

MAX_ANSWERS = MAX_PARTS + MAX_REFUSALS + SOFT_REFUSALS
"""Requests of one compaction, the fallback model included; transient faults may repeat
each of them, see `stream_with_retries`."""

OVERFLOW_SHARE = 3
"""After a request was over the window the next holds a third of it: the window is
unknown, or smaller than configured."""

SMALL_WINDOW = 16_000
"""Tokens; models with less are small ones. With the shared shape they tend to continue
the chat, and there is little to save (tried with SmolLM2-135M)."""

INVENTED = "invented"
"""Code of an answer with values that the conversation does not hold."""

NO_VALUES, MANY_VALUES = "no-values", 10
"""Code of an answer without a value, or with empty lists, and the values of a
conversation from which one without any says nothing that the work can go on from."""

_SCHEMA_REFUSED = re.compile(r"schema|format|grammar|output_config|json", re.IGNORECASE)
"""In what a server says that knows no schemas for answers."""

ModelChoice = str | Provider | None
"""Another model of the chat's provider by name, a provider, or the chat's own model."""

Progress = CompactionProgress | RetryScheduled
EntryRun = Generator[Progress, None, Entry]
Accepted = TypeVar("Accepted")

CreateRequest = Callable[[SummaryStep], Request]
"""Returns the request to send for a step."""

OnUsage = Callable[[Usage], object]
"""Called with the usage of each answer at once, so that an interrupted compaction
records what it has cost."""


@dataclass(frozen=True, slots=True)
class SummaryModel:
    """A model that may write the summary."""

    provider: Provider
    sizes: Sizes
    model: str = ""
    """Another model of the same provider; empty for its own."""
    shapes: tuple[Shape, ...] = ("plain",)
    """Shapes of its requests, in the order they are tried."""
    refusals: int = MAX_REFUSALS
    """Answers that may be refused before the next model is asked."""
    options: RequestOptions = field(default_factory=RequestOptions)
    """Options of the chat's requests; those about patience hold for summaries, too."""

    @property
    def name(self) -> str:
        """Provider and model."""
        kind = self.provider.name.partition(":")[0]
        return f"{kind}:{self.model}" if self.model else self.provider.name


@dataclass(frozen=True, slots=True)
class Chat:
    """The chat to summarize, as far as it decides who writes the summary."""

    provider: Provider
    tracker: ContextTracker
    trigger: str
    usage: Usage | None
    """Usage of its last answer, if the history is still the same."""
    count_error: float
    """The server's count divided by the local one."""

    @property
    def is_requested(self) -> bool:
        """True if a person waits for this summary."""
        return self.trigger == "manual"


def summary_models(
    chat: Chat, summary_model: ModelChoice, fallback_model: ModelChoice
) -> list[SummaryModel]:
    """The models to ask, in order, with more attempts when a person waits."""
    soft = 1 if chat.tracker.failures else SOFT_REFUSALS
    first = _summary_model(chat, summary_model)
    models = [replace(first, refusals=MAX_REFUSALS if chat.is_requested else soft)]
    if fallback_model is not None:
        second = _summary_model(chat, fallback_model)
        last = SOFT_REFUSALS if chat.is_requested else 1
        models.append(replace(second, refusals=last))
    return models


def _summary_model(chat: Chat, choice: ModelChoice) -> SummaryModel:
    """The chosen model; only the chat's own may share the chat's request."""
    tracker = chat.tracker
    model = partial(SummaryModel, options=tracker.request_options)
    if isinstance(choice, str):
        return model(chat.provider, Sizes(tracker.info, tracker.counter), choice)
    if choice is not None:
        return model(choice, Sizes(choice.info(), tracker.counter))
    sizes = Sizes(tracker.info, tracker.counter, chat.count_error)
    return model(chat.provider, sizes, shapes=_shapes(chat))


def _shapes(chat: Chat) -> tuple[Shape, ...]:
    if chat.trigger == "overflow":
        return ("plain",)  # the server has just refused the other one as too long
    is_warm = chat.usage is not None and chat.usage.cache_read_tokens > 0
    window = chat.tracker.info.window
    is_small = window is not None and window < SMALL_WINDOW
    pays = is_warm and not is_small
    return ("shared", "plain") if pays else ("plain", "shared")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of writing a summary: an entry, or none and the reason."""

    entry: Entry | None
    cost: Usage
    """Usage of all answers."""
    model: str
    status: Status = "done"
    reason: str = ""
    code: str = ""
    note: str = ""
    """A note on a summary that was accepted."""
    fields: SummaryFields | None = None
    """The fields of a structured summary."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A summary with marks, for when no true one is written."""

    entry: Entry
    fields: SummaryFields | None
    marks: int
    note: str


class SummaryRun:
    """Writes one summary entry: keeps the parts that are done, refusals and the cost.

    `create_request` makes each request that is sent. `entry_of` makes the entry from a
    text or raises CompactionError. `base` is the chat's own next request; without it
    there are plain requests only.
    """

    def __init__(
        self,
        assignment: Assignment,
        *,
        create_request: CreateRequest,
        entry_of: Callable[[str], Entry],
        stop: Flag | None,
        base: Request | None = None,
        on_usage: OnUsage = lambda _usage: None,
    ) -> None:
        """Ask nothing yet."""
        self.cost = Usage()
        self._on_usage = on_usage
        self.note = ""
        self.fields: SummaryFields | None = None
        self._known = assignment.earlier
        self._assignment, self._base = assignment, base
        self._create_request = create_request
        self._entry_of, self._stop = entry_of, stop
        self._rest, self._previous = assignment.entries, assignment.previous
        self._parts_done = self._omitted = self._refusals_left = 0
        self._refusal: CompactionError | None = None
        self._draft: _Draft | None = None

    def outcome(
        self,
        models: Sequence[SummaryModel],
        *,
        without_model: Sequence[Callable[[], Entry]],
        without_values: Callable[[], Entry],
    ) -> Generator[Progress, None, Outcome]:
        """Ask the models in turn; raises only Stopped and interrupts.

        When no answer is accepted, the first of `without_model` that does not raise
        makes the entry, and `without_values` where the answers named no value.
        """
        failure = NbchatError("the summary failed before, so no model was asked")
        name = ""
        for model in models:
            name = model.name
            try:
                entry = yield from self._summarize_with(model)
                return Outcome(
                    entry, self.cost, name, note=self.note, fields=self.fields
                )
            except Stopped:
                raise
            except NbchatError as error:
                failure = error
        if _code(failure) == NO_VALUES:
            without_model = [without_values, *without_model]
        found = _written_by_code(without_model, self.cost, name, failure)
        is_kept = self._assignment.is_structured and found.entry is not None
        return replace(found, fields=self._assignment.earlier) if is_kept else found

    def _summarize_with(self, model: SummaryModel) -> EntryRun:
        """The entry by one model, if need be with marks; raises why it failed."""
        try:
            return (yield from self._in_any_shape(model))
        except Stopped:
            raise
        except NbchatError:
            if self._draft is None:
                raise
            self.note = _joined(self.note, self._draft.note)
            self.fields = self._draft.fields
            return self._draft.entry

    def _in_any_shape(self, model: SummaryModel) -> EntryRun:
        """The entry in one shape of request or another; raises why it failed."""
        self._refusals_left = model.refusals
        failure = NbchatError("no summary request was possible")
        for shape in model.shapes:
            if shape == "shared" and self._shared_request(model) is None:
                continue
            ask = self._shared if shape == "shared" else self._plain
            try:
                return (yield from ask(model))
            except CompactionError as error:
                failure = error
            except (ContextOverflow, RequestRefused) as error:
                if shape == "plain":  # the shortest request there is
                    raise
                failure = error
                self._refusals_left -= 1
            if self._draft or not self._refusals_left:
                break
        raise failure

    def _shared_request(
        self, model: SummaryModel, refusal: CompactionError | None = None
    ) -> Request | None:
        """The request that shares the chat's; None without one that fits."""
        if self._base is None:
            return None
        step = SummaryStep(
            self._assignment, model.sizes, refusal=refusal, base=self._base
        )
        request = self._create_request(step)
        return request if model.sizes.fits(request) else None

    def _shared(self, model: SummaryModel) -> EntryRun:
        """The summary as the next message of the chat; asked again if it was cut.

        It is also asked for again when it holds values that were never said.
        """
        is_second = self._refusal is not None
        while True:
            request = self._shared_request(model, self._refusal)
            if request is None:
                raise self._refusal or CompactionError(
                    "no-space", "the request for a summary does not fit the window"
                )
            reply = yield from self._reply(model, request)
            try:
                entry = self._final(reply)
            except CompactionError as error:
                self._refuse(error)
                if is_second or error.reason not in ("max-tokens", INVENTED):
                    raise
                is_second = True
            else:
                self.note = ""  # earlier parts, if any, were not needed
                return entry

    def _plain(self, model: SummaryModel) -> EntryRun:
        """The summary of a transcript; in smaller parts when the server refuses it."""
        limit: int | None = None
        while True:
            steps = plain_steps(
                self._assignment,
                model.sizes,
                rest=self._rest,
                previous=self._previous,
                model=model.model,
                done=self._parts_done,
                limit=limit,
            )
            try:
                return (yield from self._all_parts(model, steps))
            except ContextOverflow:
                self._refusals_left -= 1
                limit = max(part.tokens for part in steps.parts) // OVERFLOW_SHARE
                if not self._refusals_left or limit < LEAST_CONVERSATION:
                    raise

    def _all_parts(self, model: SummaryModel, steps: PlainSteps) -> EntryRun:
        """Summarize part after part, each with the summary of those before it."""
        *earlier, last = range(len(steps.parts))
        for index in earlier:
            summary = yield from self._asked(model, steps, index, self._checked)
            self._finish_part(steps, index)
            self._previous = summary
        entry = yield from self._asked(model, steps, last, self._final)
        self._finish_part(steps, last)
        self.note = _note(self._parts_done, self._omitted)
        return entry

    def _finish_part(self, steps: PlainSteps, index: int) -> None:
        part, previous = steps.parts[index], self._previous
        cut = max(0, len(previous) - len(steps.shown(index, previous)))
        self._omitted += part.omitted + cut
        self._rest = self._rest[part.entries :]
        self._known = self.fields or self._known
        self._parts_done += 1

    def _asked(
        self,
        model: SummaryModel,
        steps: PlainSteps,
        index: int,
        accept: Callable[[Reply], Accepted],
    ) -> Generator[Progress, None, Accepted]:
        """The accepted answer for one part; after a refusal it is asked for again."""
        if steps.total > 1:
            yield CompactionProgress(steps.done + index, steps.total)
            if self._stop is not None and self._stop.is_set():
                raise Stopped("stopped")
        tried: set[bool] = set()
        while True:
            step = steps.at(index, self._previous, self._refusal)
            reply = yield from self._reply(model, self._create_request(step))
            try:
                accepted = accept(reply)
            except CompactionError as error:
                self._refuse(error)
                is_invented = error.reason == INVENTED
                if is_invented in tried or not self._refusals_left:
                    raise
                tried.add(is_invented)
            else:
                self._refusal = None
                return accepted

    def _refuse(self, refusal: CompactionError) -> None:
        """Remember why an answer was refused, for the next request."""
        self._refusals_left -= 1
        self._refusal = refusal

    def _checked(self, reply: Reply) -> str:
        """The text of a summary; of JSON its fields as text.

        JSON with empty lists, as very small models write it, says nothing about a long
        conversation.
        """
        assignment = self._assignment
        text = read_summary(reply, is_structured=assignment.is_structured)
        answer = read_answer(text) if assignment.is_structured else None
        if assignment.is_structured:
            prose = StructuredAnswer(SummaryFields(overview=text))
            text = self._merged(prose if answer is None else answer)
        check_summary(
            text,
            tokens=assignment.tokens,
            newest=assignment.newest,
            instruction=instruction(assignment),
        )
        if answer is not None and assignment.tokens >= LONG_CONVERSATION:
            both = (answer.fields, self._known)
            if not any(as_text(replace(each, overview="")) for each in both):
                raise CompactionError(NO_VALUES, "the lists of the summary are empty")
        return text

    def _merged(self, answer: StructuredAnswer) -> str:
        """The text of an answer, with what holds of the summary before.

        An answer in prose is its overview, and ends nothing.
        """
        self.fields = None
        if not as_text(answer.fields):
            return ""
        assignment = self._assignment
        items = enumerate(assignment.earlier.open_items, 1)
        ended = tuple(item for number, item in items if number in answer.resolved)
        self.fields = merged(self._known, answer, ended, assignment.max_tokens)
        return as_text(self.fields)

    def _final(self, reply: Reply) -> Entry:
        """The entry of a true summary; keeps another one as a draft and refuses it."""
        text = self._checked(reply)
        if not any(map(_is_telling, values(text))) and self._has_many_values:
            raise CompactionError(
                NO_VALUES,
                "the summary has no name, number or identifier of the conversation",
            )
        found = check_facts(text, self._sources)
        entry = self._entry_of(found.marked)
        if not found.findings:
            return entry
        if self._draft is None or len(found.names) < self._draft.marks:
            fields = self.fields
            if fields is not None:
                fields = fields.mapped(
                    lambda text: check_facts(text, self._sources).marked
                )
            self._draft = _Draft(entry, fields, len(found.names), found.note)
        raise CompactionError(INVENTED, found.refusal)

    @cached_property
    def _has_many_values(self) -> bool:
        """True if a summary that names no value would say nothing."""
        found: set[str] = set()
        for entry in self._assignment.covered:
            text = f"{entry.content}\n{entry.tool_args if entry.is_call else ''}"
            found.update(v.text for v in values(text[:SAMPLE]) if _is_telling(v))
            if len(found) >= MANY_VALUES:
                return True
        return False

    @cached_property
    def _sources(self) -> Sources:
        """The values that the summary may state: read once, when there is a summary."""
        assignment = self._assignment
        asked = (assignment.system, assignment.prompt, assignment.focus)
        texts = [Entry("user", text) for text in asked]
        sources = Sources(assignment.other)
        sources.add([*assignment.covered, *assignment.recent, *texts])
        return sources

    def _reply(
        self, model: SummaryModel, request: Request
    ) -> Generator[RetryScheduled, None, Reply]:
        """The reply; without a schema where the server refuses the schema."""
        try:
            return (yield from self._streamed(model, request))
        except RequestRefused as error:
            if request.output_schema is None or not _SCHEMA_REFUSED.search(str(error)):
                raise
            request = replace(request, output_schema=None)
            return (yield from self._streamed(model, request))

    def _streamed(
        self, model: SummaryModel, request: Request
    ) -> Generator[RetryScheduled, None, Reply]:
        """The reply; of its events only retries are passed on."""
        options = for_summary(request.options, model.options)
        request = replace(request, options=options)
        stream = stream_with_retries(model.provider, request, stop=self._stop)
        while True:
            try:
                delta = next(stream)
            except StopIteration as finished:
                reply: Reply = finished.value
                break
            if isinstance(delta, RetryScheduled):
                yield delta
        self.cost += reply.usage
        self._on_usage(reply.usage)
        return reply


def _written_by_code(
    without_model: Sequence[Callable[[], Entry]],
    cost: Usage,
    model: str,
    failure: NbchatError,
) -> Outcome:
    """The first entry that can be made without a model, or the last failure."""
    reason, code = str(failure), _code(failure)
    for make_entry in without_model:
        try:
            return Outcome(make_entry(), cost, model, "degraded", reason, code)
        except CompactionError as error:
            failure = error
    return Outcome(None, cost, model, "failed", str(failure), _code(failure))


def _note(parts: int, omitted: int) -> str:
    """A note on what was unusual, in one line; empty when nothing was."""
    split = f"summarized in {parts} parts" if parts > 1 else ""
    cut = f"about {omitted:,} characters of long texts omitted" if omitted else ""
    return _joined(split, cut)


def _is_telling(value: Value) -> bool:
    return not value.is_count


def _joined(*notes: str) -> str:
    return ", ".join(filter(None, notes))


def _code(error: NbchatError) -> str:
    return error.reason if isinstance(error, CompactionError) else type(error).__name__
