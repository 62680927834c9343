"""One row of a run of many agents: its prompt, its agent and its turn.

`run_row` is all that a worker does, in whatever thread, process or machine.
"""

import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from hashlib import sha256
from itertools import chain, count
from threading import Event as Flag
from types import CodeType
from typing import Any, cast

import cloudpickle
from pydantic_core import to_jsonable_python

from nbchat.agent.agent import Agent
from nbchat.agent.budget import Meter
from nbchat.agent.map_results import Failure, Result, ResultStore, RowAutosave
from nbchat.agent.running_turn import STOP_NOTES, Turn
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
    StoreError,
    UnknownModel,
)
from nbchat.providers.retries import with_jitter

MakeAgent = Agent | Callable[..., Agent]

KEY_LENGTH = 200
"""Characters of a key; a longer one is cut and gets a hash."""


MOST_RETRIES = 3
"""Turns after the first one in which a row is tried while its server fails."""

RETRY_SECONDS = 1.0
"""Before the first of them, and doubled for each other."""


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
    """Why it cannot be asked."""

    @property
    def input_hash(self) -> str:
        """A hash of what is asked."""
        return _hash(self.prompt)


class Prompts:
    """Reads rows one by one, with their keys and prompts."""

    def __init__(
        self,
        make_agent: MakeAgent,
        rows: Iterable[Any],
        key: str | Callable[[Any], object] | None,
        prompt: str | Callable[[Any], str] | None,
    ) -> None:
        """`rows` may be a DataFrame, a generator, or anything else that is iterated."""
        self.make_agent = make_agent
        self.total = len(rows) if isinstance(rows, Sized) else None
        self.again = partial(Prompts, make_agent, rows, key, prompt)
        """Reads a list or a DataFrame from its beginning."""
        self._rows = rows
        self._key = key
        self._prompt = prompt
        self._left: Iterator[Row] = self._read()

    def __iter__(self) -> Iterator[Row]:
        """The rows that were not read yet."""
        return self._left

    def first(self) -> Row | None:
        """The first row, which stays to be read; None without one."""
        try:
            row = next(self._left, None)
        except Exception as error:  # noqa: BLE001  # whatever reading a row raises
            self._left = _raising(error)
            return None
        self._left = chain([] if row is None else [row], self._left)
        return row

    def _read(self) -> Iterator[Row]:
        """The rows; one without a key or a prompt has a `problem`."""
        for number, item in zip(count(), _items(self._rows), strict=False):
            try:
                key = str(number) if self._key is None else str(_part(item, self._key))
            except Exception as error:  # noqa: BLE001  # a user's function, or a field
                yield Row(f"row {number}", number, "", item, _no("key", error))
                continue
            try:
                prompt = _text(
                    item if self._prompt is None else _part(item, self._prompt)
                )
            except Exception as error:  # noqa: BLE001  # the same
                yield Row(_short(key), number, "", item, _no("prompt", error))
            else:
                yield Row(_short(key), number, prompt, item)


class Control:
    """What stops the rows of a run; in another process only the budget's rest."""

    def __init__(self, meter: Meter | None) -> None:
        """`meter` counts for all rows together."""
        self.meter = meter
        self.stop = Flag()
        self.began = Flag()
        """Set when a model has answered, or a row has ended."""
        self.refused_schemas: set[tuple[str, str]] = set()
        """What one row has learned of the server, all others need not."""

    def __reduce__(self) -> Any:
        """Send what is left of the budget."""
        return Control, (self.meter,)

    def count(self, result: Result) -> None:
        """Count what a row has used in another process."""
        if self.meter is not None and result.is_remote:
            self.meter.add(result.usage, steps=result.steps)


@dataclass(frozen=True, slots=True)
class RowTask:
    """All that a worker needs for a row."""

    make_agent: MakeAgent
    row: Row
    output: Any
    session_id: str
    recipe: str
    attempt: int
    store: ResultStore | None
    control: Control
    run: str
    is_new: bool = False
    """Whether the store has no session of it."""

    def __reduce__(self) -> Any:
        """Pickled with the code of functions that no module has, as a notebook's."""
        values = [getattr(self, each.name) for each in fields(self)]
        return _task, (cloudpickle.dumps(values),)

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
            recipe=self.recipe,
            attempt=self.attempt,
            **known,
        )


def _task(pickled: bytes) -> RowTask:
    return RowTask(*cloudpickle.loads(pickled))


def run_row(task: RowTask) -> Result:
    """Ask the agent of a row, or continue with its session; never raises an error."""
    began = time.monotonic()
    agent: Agent | None = None
    turns: list[Turn] = []
    try:
        task, agent = asked_of(task)
        output = output_type(task.output)
        known = known_result(agent.session, task, output)
        if known is not None:
            return known
        for turn in _tried(agent, task, output):
            turns.append(turn)
            for event in turn:
                observe(event, agent, task.control)
        result = finished(turns[-1], task, turns)
    except Exception as error:  # noqa: BLE001  # a row of the table, whatever it was
        result = failed(error, task, turns)
    return kept(
        replace(result, seconds=round(time.monotonic() - began, 3)), agent, task
    )


def _tried(agent: Agent, task: RowTask, output: OutputType | None) -> Iterator[Turn]:
    """The row's turn, and others that continue it while passing failures end it.

    Its requests were tried again by then; a server may be away for longer.
    """
    for attempt in count():
        turn = begun_turn(agent, task, output)
        yield turn
        error, stop = turn.error, task.control.stop
        may_pass = isinstance(error, ProviderError) and error.is_retryable
        if not may_pass or attempt == MOST_RETRIES or not agent.can_retry:
            return
        if stop.wait(pause_before(attempt)):
            return


def observe(event: Event, agent: Agent, control: Control) -> None:
    """Save a call before its tool runs: after a kill its result must be unknown.

    Raises ConfigError where the server refuses a tool: rows without it would be wrong.
    """
    match event:
        case ToolRequested():
            if agent.autosave is not None:
                with suppress(StoreError):  # a broken store does not end the run
                    agent.autosave.save()
        case UsageReported():
            control.began.set()
        case ContentLeftOut(parts, model, reason):
            if refused := [each for each in parts if each.startswith("the tool ")]:
                raise ConfigError(
                    f"{model} doesn't take {refused[0]}, so no row was asked without "
                    f"it. Change its arguments or remove it. ({reason})"
                )


def failed(error: Exception, task: RowTask, turns: Sequence[Turn]) -> Result:
    """The result of a row that an error has ended."""
    for turn in turns[-1:]:
        turn.close()
    calls = any(isinstance(e, ToolRequested) for turn in turns for e in turn.events)
    failure = failure_of(error)
    if failure == "passing" and calls and task.store is None:
        failure = "row"  # it would begin anew, and call its tools again
    return task.failed(error_line(error), failure=failure, **used(turns, task))


def failure_of(error: Exception) -> Failure:
    """What an error is about."""
    if isinstance(error, AuthenticationFailed | QuotaExhausted):
        return "account"
    if isinstance(error, ConfigError | UnknownModel):
        return "setup"
    is_passing = isinstance(error, ProviderError) and error.is_retryable
    return "passing" if is_passing else "row"


def kept(result: Result, agent: Agent | None, task: RowTask) -> Result:
    """The result, kept with the session where it is final; else with a note."""
    saver = None if agent is None else agent.autosave
    if saver is None or task.store is None:
        return result
    is_final = result.stop_reason == "end_turn"
    try:
        if is_final:
            cast("RowAutosave", saver).finish(task.run, result)
        else:
            saver.save()
    except StoreError as error:
        return replace(result, note=f"Not saved. {error.line}")
    return replace(result, is_kept=is_final)


def asked_of(task: RowTask) -> tuple[RowTask, Agent]:
    """The task and its agent; in another session where this one has another prompt.

    The input of a row may change after it was interrupted, or failed.
    """
    agent, prompt = _agent_of(task), task.row.prompt
    prompts = [e.content for e in agent.session.transcript if e.is_prompt]
    if not prompts or prompt in prompts or task.store is None:
        return task, agent
    own_id = _hash(repr([task.session_id, prompt]))[:24]
    own = replace(task, session_id=own_id, is_new=False)
    return own, _agent_of(own)


def _agent_of(task: RowTask) -> Agent:
    """The agent of a row, in its session, which a store may have kept."""
    agent = new_agent(task.make_agent, task.row)
    agent.refused_schemas = task.control.refused_schemas
    if task.store is None:
        agent.session.session_id = agent.session.session_id or task.session_id
        return agent
    session = agent.session
    session.session_id = ""
    if not task.is_new:
        with suppress(SessionNotFound):
            session = task.store.load(task.session_id)
    autosave = task.store.row_saver(
        session, session_id=task.session_id, model=agent.provider.name
    )
    agent.switch(session, autosave)
    return agent


def begun_turn(agent: Agent, task: RowTask, output: OutputType | None) -> Turn:
    """The row's turn: a new one, or the rest of one that was interrupted."""
    stop, meter = task.control.stop, task.control.meter
    if has_unfinished_turn(agent.session.transcript):
        turn = agent.retry(stop=stop, output=output, budget=meter)
    else:
        prompt = task.row.prompt  # data: what a ticket asks is no rule of the person
        turn = agent.run(
            prompt, stop=stop, pasted=[prompt], output=output, budget=meter
        )
    return turn.hold_back()


def finished(turn: Turn, task: RowTask, turns: Sequence[Turn]) -> Result:
    """The result of a turn that has ended; raises the error that ended it.

    `turns` are all that the row took.
    """
    answer = turn.result()
    reason = answer.stop_reason
    is_over = reason in ("end_turn", "stopped", "budget")
    value = answer.value if task.output is not None else str(answer)
    return task.result(
        value=to_jsonable_python(value, fallback=str) if reason == "end_turn" else None,
        stop_reason=reason,
        error="" if is_over else STOP_NOTES.get(reason, reason),
        **used(turns, task),
    )


def new_agent(make_agent: MakeAgent, row: Row) -> Agent:
    """A new agent for a row; a function may take the row or nothing."""
    if isinstance(make_agent, Agent):
        return make_agent.another()
    made = make_agent(row.item) if takes_row(make_agent) else make_agent()
    if not isinstance(made, Agent):
        raise ConfigError(f"make_agent returned {type(made).__name__}, not an Agent")
    return made


def takes_row(make_agent: Callable[..., object]) -> bool:
    """Whether a function that makes an agent wants the row."""
    return any(
        each.default is each.empty and each.kind in (0, 1)
        for each in inspect.signature(make_agent).parameters.values()
    )


def first_agent(make_agent: MakeAgent, row: Row) -> Agent:
    """The agent of the first row; raises ConfigError if there is none."""
    try:
        agent = new_agent(make_agent, row)
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
    is_same = isinstance(make_agent, Agent) or not takes_row(make_agent)
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
    return _hash(repr(parts))


def session_id_of(run: str, key: str, attempt: int) -> str:
    """The id of a row's session, the same in every run of this name."""
    return _hash(repr([run, key, attempt]))[:24]


def known_result(
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
    usage = session.usage
    return task.result(
        value=to_jsonable_python(value, fallback=str),
        stop_reason="end_turn",
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        dollars=usage.dollars,
        is_priced=usage.is_priced,
    )


def used(turns: Sequence[Turn], task: RowTask) -> dict[str, Any]:
    """What turns have cost, as fields of a result."""
    if not turns:
        return {}
    usage, meter = sum((each.usage for each in turns), Usage()), task.control.meter
    usage = meter.budget.priced(usage) if meter else usage
    said = [*chain.from_iterable(each.events for each in turns)]
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "dollars": usage.dollars,
        "is_priced": usage.is_priced,
        "steps": sum(isinstance(each, UsageReported) for each in said),
        "repairs": sum(isinstance(e, EntryAdded) and _is_repair(e) for e in said),
        "is_remote": meter is not None and meter.is_copy,
    }


def _items(rows: Iterable[Any]) -> Iterator[Any]:
    """The rows; those of a DataFrame as dictionaries, one by one."""
    columns = getattr(rows, "columns", None)
    if columns is None or not hasattr(rows, "itertuples"):
        yield from rows
        return
    names = [str(each) for each in columns]
    for values in rows.itertuples(index=False, name=None):
        yield dict(zip(names, values, strict=True))


def _is_repair(added: EntryAdded) -> bool:
    """Whether nbchat has asked for an answer again."""
    return added.entry.role == "user" and added.entry.is_by_nbchat


def _raising(error: Exception) -> Iterator[Row]:
    raise error
    yield  # a generator: it raises when it is read


def _part(item: Any, field: str | Callable[[Any], Any]) -> Any:
    """A field of a row, or the result of a function of it; raises what that raises."""
    if not isinstance(field, str):
        return field(item)
    return item[field] if isinstance(item, Mapping) else getattr(item, field)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, not {type(value).__name__}")
    return value


def _no(what: str, error: Exception) -> str:
    return f"no {what} for this row: {error_line(error)}"


def _short(key: str) -> str:
    return key if len(key) <= KEY_LENGTH else f"{key[:KEY_LENGTH]}#{_hash(key)[:12]}"


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


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
