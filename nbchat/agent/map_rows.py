"""One row of a run of many agents: its input, its turn in a worker, and its result.

`run_row` is all that a worker does, in whatever thread, process or machine. `row_steps`
is the same step by step, for rows whose requests go through a batch API.
"""

import inspect
import time
from collections.abc import (
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from hashlib import sha256
from itertools import chain, count
from threading import Event as Flag
from types import CodeType
from typing import Any, Literal, Protocol, cast

import cloudpickle
from pydantic_core import to_jsonable_python

from nbchat.agent.agent import Agent
from nbchat.agent.budget import Meter
from nbchat.agent.running_turn import STOP_NOTES, SessionAutosave, Turn
from nbchat.agent.structured_output import InvalidValue, OutputType, output_type
from nbchat.conversation.entries import Usage
from nbchat.conversation.events import (
    ContentLeftOut,
    EntryAdded,
    Event,
    ToolRequested,
    UsageReported,
)
from nbchat.conversation.json_schemas import schema_text
from nbchat.conversation.returned_values import error_line
from nbchat.conversation.session import Session
from nbchat.conversation.tools import Tool
from nbchat.conversation.turns import has_unfinished_turn
from nbchat.errors import (
    AuthenticationFailed,
    ConfigError,
    ProviderError,
    QuotaExhausted,
    SessionNotFound,
    SessionTaken,
    StoreError,
    UnknownModel,
)
from nbchat.providers.base import ServedProvider
from nbchat.providers.retries import SharedPace, with_jitter

MakeAgent = Agent | Callable[..., Agent]

Part = str | Callable[[Any], Any] | None
"""A field of a row, or a function of the row."""

Failure = Literal["row", "passing", "lost", "setup", "account", "run"]
"""Kind of failure: this row, a server that may work soon, a dead worker, how
every row is asked, the key, or a run that stopped because its first rows failed so."""

DOUBTS = ("failed", "disagrees", "repaired")
"""Reasons for a person to look at a row, in the order of a review."""

KEY_LENGTH = 200
"""Characters of a key; a longer one is cut and gets a hash."""

MOST_RETRIES = 3
"""Turns after the first one in which a row is tried while its server fails."""

RETRY_SECONDS = 1.0
"""Seconds before the first of them, doubled for each other."""


def pause_before(attempt: int) -> float:
    """Seconds until a row is tried again, from 0 for its first attempt."""
    return with_jitter(RETRY_SECONDS * 2**attempt, RETRY_SECONDS)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the input."""

    key: str
    number: int
    prompt: str
    item: Any
    problem: str = ""
    """Reason why it can't be asked."""

    @property
    def input_hash(self) -> str:
        """A hash of what is asked."""
        return hash_of(self.prompt)


def read_rows(rows: Iterable[Any], key: Part, prompt: Part) -> Iterator[Row]:
    """The rows of a DataFrame, a list, a generator or anything else, one by one."""
    items: Iterable[Any] = rows
    if names := column_names(rows):
        frame: Any = rows
        values = (
            frame.itertuples(index=False, name=None)
            if hasattr(rows, "itertuples")
            else frame.iter_rows()
        )
        items = (dict(zip(names, each, strict=True)) for each in values)
    for number, item in enumerate(items):
        yield _row(number, item, key, prompt)


def column_names(rows: Any) -> list[str]:
    """The columns of a DataFrame of pandas or polars; empty for other rows."""
    is_frame = hasattr(rows, "itertuples") or hasattr(rows, "iter_rows")
    return [str(each) for each in rows.columns] if is_frame else []


def _row(number: int, item: Any, key: Part, prompt: Part) -> Row:
    """A row; one without a key or a prompt has a `problem`."""
    name = f"row {number}"
    found, problem = (number, "") if key is None else _part(item, key, "key")
    if problem:
        return Row(name, number, "", item, problem)
    name = str(found)
    if len(name) > KEY_LENGTH:
        name = f"{name[:KEY_LENGTH]}#{hash_of(name)[:12]}"
    text, problem = _part(item, prompt, "prompt")
    if not problem and not isinstance(text, str):
        problem = f"The prompt of this row is {type(text).__name__}, not text."
    return Row(name, number, "" if problem else text, item, problem)


def _part(item: Any, field: Part, part: str) -> tuple[Any, str]:
    """A field of a row, or the result of a function of it; and why there is none."""
    try:
        if not isinstance(field, str):
            found = item if field is None else field(item)
        else:
            found = item[field] if isinstance(item, Mapping) else getattr(item, field)
    except Exception as error:  # noqa: BLE001  # a user's function, or a field
        if isinstance(field, str) and isinstance(error, KeyError | AttributeError):
            return None, f"This row has no {field} to use as its {part}."
        return None, f"No {part} for this row: {error_line(error)}"
    return found, f"The {part} of this row is empty." if is_missing(found) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one row."""

    key: str
    number: int
    """Position of the row, from 0."""
    session_id: str = ""
    value: Any = None
    """The answer's value as JSON has it; its text where no `output` was asked for."""
    others: Sequence[Any] = ()
    """The values of the other samples."""
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
    """Number of times that its answer was invalid and asked for again."""
    correction: Any = None
    """The value that a person has put in its place."""
    is_kept: bool = False
    """True if it is in the store, with its session."""
    is_remote: bool = False
    """True if its usage was counted in another process."""

    @property
    def usage(self) -> Usage:
        """The tokens and dollars of its turns."""
        total = self.input_tokens + self.output_tokens
        return Usage(
            self.input_tokens,
            self.output_tokens,
            dollars=self.dollars,
            priced_tokens=total if self.is_priced else 0,
        )

    def as_row(self) -> dict[str, Any]:
        """A row of the table; the fields of the value are columns."""
        row: dict[str, Any] = {"key": self.key}
        if self.value is not None:
            is_record = isinstance(self.value, Mapping)
            row |= self.value if is_record else {"value": self.value}
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
        return row | about | row  # what a value says counts

    def as_json(self) -> dict[str, Any]:
        """All fields, for a store."""
        return asdict(self)

    def doubt(self, field: str) -> Literal["failed", "disagrees", "repaired", ""]:
        """Reason for a person to look at it; empty without one.

        Samples disagree where they differ in this field.
        """
        if self.error or self.value is None:
            return "failed"
        own = field_of(self.value, field)
        if any(field_of(each, field) != own for each in self.others):
            return "disagrees"
        return "repaired" if self.repairs else ""

    def has_ended(self, samples: int) -> bool:
        """True if the row isn't asked again unless a retry is requested."""
        return self.failure != "run" and (
            bool(self.error) or len(self.others) + 1 >= samples
        )


def field_of(value: Any, name: str) -> Any:
    """A field of a value, or the value where it is no record."""
    return value.get(name) if isinstance(value, Mapping) else value


def is_missing(value: Any) -> bool:
    """True for None, NaN, and what pandas has instead of them."""
    return str(value) in ("None", "nan", "<NA>", "NaT") and not isinstance(value, str)


def as_json(value: Any) -> Any:
    """A person's value as JSON has it; None for a missing one. Raises ConfigError."""
    try:
        plain = value.item() if hasattr(value, "item") else value  # of numpy
        return None if is_missing(plain) else to_jsonable_python(plain)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{type(value).__name__} can't be kept: {error_line(error)}. Use a text, a "
            "number or a record."
        ) from None


def is_same(value: Any, label: Any) -> bool:
    """True if a value is what a label says, which may be its text or number."""
    return value is not None and (value == label or str(value) == str(label))


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
        """The autosave of a row's session; a new session gets the id."""

    def shared_pace(self, address: str) -> SharedPace:
        """The pace at which all processes of this store ask a server."""

    def known(self, session_ids: Sequence[str]) -> set[str]:
        """The sessions among these that are stored."""


class Control:
    """Stops the rows of a run; in another process only by the rest of the budget."""

    def __init__(self, meter: Meter | None) -> None:
        """`meter` counts for all rows together."""
        self.meter = meter
        self.stop = Flag()
        self.began = Flag()
        """Set when a model has answered, or a row has ended."""
        self.refused_schemas: set[tuple[str, str]] = set()
        """Models that have refused a schema, learned by one row for all."""

    def __reduce__(self) -> Any:
        """Send what is left of the budget."""
        return Control, (self.meter,)

    def count(self, result: Result) -> None:
        """Count what a row has used in another process."""
        if self.meter is not None and result.is_remote:
            self.meter.add(result.usage, steps=result.steps)


@dataclass(frozen=True, slots=True)
class Plan:
    """Settings that all rows of a run share; each worker gets them with its row."""

    name: str
    make_agent: MakeAgent
    output: Any
    samples: int
    """Number of times that each row is asked."""
    store: ResultStore | None
    control: Control
    recipe: str = ""
    """A hash of how rows are worked on."""

    def session_id(self, key: str, attempt: int = 0, sample: int = 0) -> str:
        """The id of a row's session, the same in every run of this name."""
        named = [self.name, key, attempt, *([sample] if sample else [])]
        return hash_of(repr(named))[:24]


@dataclass(frozen=True, slots=True)
class RowTask:
    """All that a worker needs for a row."""

    plan: Plan
    row: Row
    session_id: str
    attempt: int = 0
    sample: int = 0
    is_new: bool = False
    """True if the store has no session of it."""

    def __reduce__(self) -> Any:
        """Pickle with the code of functions outside of modules, as in a notebook."""
        values = [getattr(self, each.name) for each in fields(self)]
        return _task, (cloudpickle.dumps(values),)

    @property
    def samples(self) -> Iterator["RowTask"]:
        """Tasks for all samples but the first, each with its own session.

        They come before it, so that its result is kept with all values.
        """
        for number in range(1, self.plan.samples):
            named = self.plan.session_id(self.row.key, self.attempt, number)
            yield replace(self, session_id=named, sample=number, is_new=False)

    def failed(self, reason: str, **known: Any) -> Result:
        """The result of a row that ended in an error."""
        return self.result(error=reason, **known)

    def result(self, **known: Any) -> Result:
        """A result of this row."""
        return Result(
            key=self.row.key,
            number=self.row.number,
            session_id=self.session_id,
            input_hash=self.row.input_hash,
            recipe=self.plan.recipe,
            attempt=self.attempt,
            **known,
        )


def _task(pickled: bytes) -> RowTask:
    return RowTask(*cloudpickle.loads(pickled))


Steps = Generator[Event, None, Result]
"""The events of a row, and its result; never raises an error."""

Sending = Callable[[RowTask, Agent], Callable[..., Any]]
"""Makes the function that sends the requests of a row."""


def run_row(task: RowTask) -> Result:
    """Ask the agent of a row, or continue with its session; never raises an error."""
    steps = row_steps(task)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("Result", end.value)


def row_steps(task: RowTask, sending: Sending | None = None) -> Steps:
    """The same, event by event; `sending` makes what sends the requests."""
    if task.row.problem:
        return task.failed(task.row.problem)
    earlier: list[Result] = []
    for each in task.samples:
        earlier.append((yield from _one_sample(each, (), sending)))
        if earlier[-1].stop_reason != "end_turn":
            return _with(earlier.pop(), earlier)
    return (yield from _one_sample(task, earlier, sending))


def _one_sample(
    task: RowTask, earlier: Sequence[Result], sending: Sending | None
) -> Steps:
    began = time.monotonic()
    agent: Agent | None = None
    turns: list[Turn] = []
    try:
        task, agent = _asked_of(task)
        output = output_type(task.plan.output)
        known = _known_result(agent.session, task, output)
        if known is not None:
            return _with(known, earlier)
        if sending is not None:
            agent.send = sending(task, agent)
        retries = MOST_RETRIES if sending is None else 0  # a batch sends again itself
        for turn in _tried(agent, task, output, retries):
            turns.append(turn)
            for event in turn:
                _observe(event, agent, task.plan.control)
                yield event
        result = _finished(turns[-1], task, turns)
    except Exception as error:  # noqa: BLE001  # a row of the table, whatever it was
        result = _failed(error, task, turns)
    result = replace(result, seconds=round(time.monotonic() - began, 3))
    return _kept(_with(result, earlier), agent, task)


def _with(result: Result, earlier: Sequence[Result]) -> Result:
    """The result of a row with the values and the cost of its other samples."""
    if not earlier:
        return result
    every = [*earlier, result]
    added = ("input_tokens", "output_tokens", "dollars", "seconds", "steps", "repairs")
    sums = {name: sum(getattr(each, name) for each in every) for name in added}
    return replace(
        result,
        others=[each.value for each in earlier],
        is_priced=all(each.is_priced for each in every),
        **sums,
    )


def _tried(
    agent: Agent, task: RowTask, output: OutputType | None, retries: int
) -> Iterator[Turn]:
    """The row's turn, and others that continue it while passing failures end it.

    Its requests were tried again by then; a server may be away for longer.
    """
    for attempt in count():
        turn = _begun_turn(agent, task, output)
        yield turn
        error, stop = turn.error, task.plan.control.stop
        may_pass = isinstance(error, ProviderError) and error.is_retryable
        if not may_pass or attempt == retries or not agent.can_retry:
            return
        if stop.wait(pause_before(attempt)):
            return


def _observe(event: Event, agent: Agent, control: Control) -> None:
    """Save a call before its tool runs: after a kill its result must be unknown.

    Raises ConfigError where the server refuses a tool: rows without it would be wrong.
    And SessionTaken, so that the tool runs in one of two runs of this row.
    """
    match event:
        case ToolRequested():
            if agent.autosave is not None:
                try:
                    agent.autosave.save()
                except StoreError as error:  # a broken store does not end the run
                    if isinstance(error, SessionTaken):
                        raise
        case UsageReported():
            control.began.set()
        case ContentLeftOut(parts, model, reason):
            if refused := [each for each in parts if each.startswith("the tool ")]:
                raise ConfigError(
                    f"{model} doesn't accept {refused[0]}, so the run stopped. Change "
                    f"the tool's arguments, or remove it. ({reason})"
                )


def _failed(error: Exception, task: RowTask, turns: Sequence[Turn]) -> Result:
    """The result of a row that an error has ended."""
    for turn in turns[-1:]:
        turn.close()
    calls = any(isinstance(e, ToolRequested) for turn in turns for e in turn.events)
    failure = _failure_of(error)
    if failure == "passing" and calls and task.plan.store is None:
        failure = "row"  # it would begin again and repeat its calls
    return task.failed(error_line(error), failure=failure, **_used(turns, task))


def _failure_of(error: Exception) -> Failure:
    if isinstance(error, AuthenticationFailed | QuotaExhausted):
        return "account"
    if isinstance(error, ConfigError | UnknownModel):
        return "setup"
    is_passing = isinstance(error, ProviderError) and error.is_retryable
    return "passing" if is_passing or isinstance(error, SessionTaken) else "row"


def _kept(result: Result, agent: Agent | None, task: RowTask) -> Result:
    """The result, kept with the session where it is final; else with a note."""
    if agent is None or agent.autosave is None or task.plan.store is None:
        return result
    is_final = result.stop_reason == "end_turn" and not task.sample
    try:
        if is_final:
            cast("RowAutosave", agent.autosave).finish(task.plan.name, result)
        else:
            agent.autosave.save()
    except SessionTaken as error:  # the answer of the other run counts
        reason, failure = result.error or error.line, _failure_of(error)
        return replace(
            result, value=None, stop_reason="", error=reason, failure=failure
        )
    except StoreError as error:
        return replace(result, note=f"Not saved. {error.line}")
    return replace(result, is_kept=is_final)


def _asked_of(task: RowTask) -> tuple[RowTask, Agent]:
    """The task and its agent; in another session where this one has another prompt.

    The input of a row may change after it was interrupted, or failed.
    """
    agent, prompt = _agent_of(task), task.row.prompt
    prompts = [e.content for e in agent.session.transcript if e.is_prompt]
    if not prompts or prompt in prompts or task.plan.store is None:
        return task, agent
    own_id = hash_of(repr([task.session_id, prompt]))[:24]
    own = replace(task, session_id=own_id, is_new=False)
    return own, _agent_of(own)


def _agent_of(task: RowTask) -> Agent:
    """The agent of a row, in its session, which a store may have kept."""
    plan = task.plan
    agent = _new_agent(plan.make_agent, task.row)
    agent.refused_schemas = plan.control.refused_schemas
    session = agent.session
    if plan.store is None:
        session.session_id = session.session_id or task.session_id
        return agent
    session.session_id = ""
    if not task.is_new:
        with suppress(SessionNotFound):
            session = plan.store.load(task.session_id)
    autosave = plan.store.row_saver(
        session, session_id=task.session_id, model=agent.provider.name
    )
    agent.switch(session, autosave)
    if isinstance(agent.provider, ServedProvider):
        agent.provider.limiter.share(plan.store.shared_pace)
    return agent


def _begun_turn(agent: Agent, task: RowTask, output: OutputType | None) -> Turn:
    """The row's turn: a new one, or the rest of one that was interrupted."""
    stop, meter = task.plan.control.stop, task.plan.control.meter
    if has_unfinished_turn(agent.session.transcript):
        turn = agent.retry(stop=stop, output=output, budget=meter)
    else:
        prompt = task.row.prompt  # data: what a ticket asks is no rule of the person
        turn = agent.run(
            prompt, stop=stop, pasted=[prompt], output=output, budget=meter
        )
    return turn.hold_back()


def _finished(turn: Turn, task: RowTask, turns: Sequence[Turn]) -> Result:
    """The result of a turn that has ended; raises the error that ended it.

    `turns` are all that the row took.
    """
    answer = turn.result()
    reason = answer.stop_reason
    is_over = reason in ("end_turn", "stopped", "budget")
    value = answer.value if task.plan.output is not None else str(answer)
    return task.result(
        value=to_jsonable_python(value, fallback=str) if reason == "end_turn" else None,
        stop_reason=reason,
        error="" if is_over else STOP_NOTES.get(reason, reason),
        **_used(turns, task),
    )


def _known_result(
    session: Session, task: RowTask, output: OutputType | None
) -> Result | None:
    """The result of a session that an earlier run has finished but not reported."""
    entries = session.transcript
    if not entries or has_unfinished_turn(entries) or not entries[-1].is_answer:
        return None
    try:
        value = output.value(entries[-1].content) if output else session.last_answer
    except InvalidValue:
        return None
    value = to_jsonable_python(value, fallback=str)
    return task.result(value=value, stop_reason="end_turn", **_cost(session.usage))


def _used(turns: Sequence[Turn], task: RowTask) -> dict[str, Any]:
    """Usage and cost of turns, as fields of a result."""
    if not turns:
        return {}
    usage = sum((each.usage for each in turns), Usage())
    meter = task.plan.control.meter
    said = [*chain.from_iterable(each.events for each in turns)]
    added = [each.entry for each in said if isinstance(each, EntryAdded)]
    return {
        **_cost(meter.budget.priced(usage) if meter else usage),
        "steps": sum(isinstance(each, UsageReported) for each in said),
        "repairs": sum(e.role == "user" and e.is_by_nbchat for e in added),
        "is_remote": meter is not None and meter.is_copy,
    }


def _cost(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "dollars": usage.dollars,
        "is_priced": usage.is_priced,
    }


def _new_agent(make_agent: MakeAgent, row: Row) -> Agent:
    """A new agent for a row; a function may take the row or nothing."""
    if isinstance(make_agent, Agent):
        return make_agent.another()
    made = make_agent(row.item) if _takes_row(make_agent) else make_agent()
    if not isinstance(made, Agent):
        raise ConfigError(
            f"make_agent returned {type(made).__name__}. It must return an Agent."
        )
    return made


def _takes_row(make_agent: Callable[..., object]) -> bool:
    """True if a function that makes an agent takes the row."""
    return any(
        each.default is each.empty and each.kind in (0, 1)
        for each in inspect.signature(make_agent).parameters.values()
    )


def first_agent(make_agent: MakeAgent, row: Row) -> Agent:
    """The agent of the first row; raises ConfigError if there is none."""
    try:
        agent = _new_agent(make_agent, row)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"make_agent failed for the first row: {error_line(error)}"
        ) from error
    for each in agent.tools:
        if names := _without_type(each):
            raise ConfigError(
                f"The argument {names[0]} of the tool {each.name} has no type, so the "
                f"model would always pass text. Write {names[0]}: int, for example."
            )
    return agent


def _without_type(tool: Tool) -> list[str]:
    if tool.arguments is None:  # its schema came from elsewhere
        return []
    parameters = inspect.signature(tool.function).parameters.values()
    return [
        each.name
        for each in parameters
        if each.annotation is each.empty
        and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]


def recipe_of(agent: Agent, make_agent: MakeAgent, output: Any) -> str:
    """A hash of how rows are worked on: code, model, prompt, tools and output."""
    is_same = isinstance(make_agent, Agent) or not _takes_row(make_agent)
    wanted = output_type(output)
    parts = [
        agent.provider.name,
        agent.system if is_same else "",
        agent.engine.policy.name,
        [[t.name, t.description, schema_text(t.parameters)] for t in agent.tools],
        [_code(each.function) for each in agent.tools],
        schema_text(wanted.schema) if wanted else "",
        "" if isinstance(make_agent, Agent) else _code(make_agent),
    ]
    return hash_of(repr(parts))


def _code(function: Callable[..., object]) -> str:
    """The code of a function without its place in the file."""
    plain = getattr(function, "__wrapped__", getattr(function, "func", function))
    code = getattr(plain, "__code__", None)
    return repr(_parts(code)) if code is not None else type(plain).__qualname__


def _parts(code: CodeType) -> list[Any]:
    constants = [
        _parts(each) if isinstance(each, CodeType) else repr(each)
        for each in code.co_consts
    ]
    return [code.co_code, code.co_names, constants]


def hash_of(text: str) -> str:
    """A short hash of a text."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
