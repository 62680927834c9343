"""Tools: Python functions that a model may call, with a JSON schema.

    @tool(read_only=True, timeout_seconds=20, parallel=True)
    async def look_up(order: Annotated[str, Field(description="as in W100")]) -> Order:
        "Find an order."

The schema is made by pydantic from the signature, descriptions also from the docstring.
Arguments are validated before the function is called. A coroutine runs on the event
loop of the caller if the chat was begun there with `await`, else on a loop of our own,
so that async tools work in every chat.
"""

import asyncio
import inspect
import json
import os
import queue
import re
import threading
import time
import unicodedata
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
)
from concurrent.futures import CancelledError, Future
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from importlib import import_module
from threading import Event as Flag
from types import FunctionType
from typing import Any, NamedTuple, overload
from weakref import WeakKeyDictionary

import docstring_parser
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from nbchat.conversation.entries import Entry, failed_result
from nbchat.conversation.json_schemas import (
    arguments_adapter,
    closed_arguments,
    faults,
    fitted,
    json_schema,
    object_text,
    type_hints,
)
from nbchat.conversation.returned_values import ToolOutput, error_line, output_of
from nbchat.errors import ConfigError, NbchatError, PreviewFailed, Stopped

NAME_LENGTH = 64
"""Characters of a tool's name; OpenAI and Anthropic refuse more."""

Function = Callable[..., object]

MOST_ITEMS, MOST_CHARACTERS = 10_000, 200_000
"""The most that is taken from a generator, which may not end."""

STEP_SECONDS = 0.05
"""How often the stop and the timeout are checked."""

CALLERS_LOOP: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar(
    "callers_loop", default=None
)
"""The event loop on which a chat was awaited."""


@dataclass(frozen=True, slots=True)
class Preview:
    """All that a call would do, for the person who approves it."""

    title: str
    text: str
    language: str = ""
    place: str = ""
    """The id of the cell that this is about; empty for none."""
    draft: str = ""
    """A text that the person may change before approving."""
    take: Callable[[str], object] | None = None
    """Takes a changed draft, which is then what the call does."""


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A function as a model sees it: name, purpose and JSON schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]
    function: Function
    arguments: TypeAdapter[Any] | None = None
    """Validates the arguments; None passes on any JSON object."""
    read_only: bool | None = None
    """True: it changes nothing, and runs unasked. False: it changes something, and
    runs only when it is approved. None: not declared."""
    timeout_seconds: float | None = None
    parallel: bool = False
    """True if several calls of one reply may run at the same time."""
    idempotent: bool = False
    """True if a call may run again where a crash has lost its result."""
    server: str = ""
    """The MCP server that has it and does not say that it only reads; empty for others
    and for servers that are trusted. It runs only when it is approved."""
    preview: Callable[..., Preview] | None = None
    """Makes what a person sees before approving, of the same arguments."""
    group: str = ""
    """Tools of a group are approved together for the rest of a turn."""
    effect: Callable[..., str] | None = None
    """Names what a call does, of the same arguments: "always" holds for its like."""

    def __repr__(self) -> str:
        """Name, arguments ("?" marks optional ones), and what is declared."""
        needed = self.parameters.get("required", ())
        names = self.parameters.get("properties", {})
        arguments = ", ".join(n if n in needed else f"{n}?" for n in names)
        effect = ", read-only" if self.read_only else ", changes something"
        declared = effect if self.read_only is not None else ""
        return f"<Tool {self.name}({arguments}){declared}>"

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the function, as if it were no tool."""
        return self.function(*args, **options)

    def __reduce__(self) -> Any:
        """Pickled by the function's name in its module; arguments stay with it."""
        module, name = self.function.__module__, self.function.__qualname__
        options = (self.name, self.description, *self._options)
        if _found(module, name) is self:
            return _found, (module, name)
        return _made, (self.function, *options)

    @property
    def _options(self) -> tuple[object, ...]:
        return self.read_only, self.timeout_seconds, self.parallel, self.idempotent


@overload
def tool(function: Function, /) -> Tool: ...


@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    read_only: bool | None = None,
    timeout_seconds: float | None = None,
    parallel: bool = False,
    idempotent: bool = False,
) -> Callable[[Function], Tool]: ...


def tool(
    function: Function | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    read_only: bool | None = None,
    timeout_seconds: float | None = None,
    parallel: bool = False,
    idempotent: bool = False,
) -> Tool | Callable[[Function], Tool]:
    """A tool made from a function with type hints and a docstring; also a decorator.

    An argument may have any type that pydantic knows, also `Annotated` with `Field`;
    the docstring's `Args:` (any common style) describe the others. `read_only` says
    whether it changes nothing: True runs unasked, False needs an approval. A call that
    takes longer than `timeout_seconds` fails. `parallel` lets calls of one reply run at
    the same time. An `idempotent` tool does the same thing once however often a call is
    repeated, so a call whose result a crash has lost runs again. Raises ConfigError for
    what cannot be a tool.
    """
    options = read_only, timeout_seconds, parallel, idempotent
    if function is None:
        return lambda given: _made(given, name, description, *options)
    return _made(function, name, description, *options)


def as_tools(functions: Iterable[Function]) -> tuple[Tool, ...]:
    """Tools made from functions; raises ConfigError if two have the same name."""
    tools = tuple(tool(function) for function in functions)
    names = [each.name for each in tools]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigError(
            f"Two tools are named {', '.join(sorted(twice))}. Rename one."
        )
    return tools


def run_tool(
    tools: Iterable[Tool],
    call: Entry,
    *,
    key: Callable[[], str] | None = None,
    stop: Flag | None = None,
) -> ToolOutput:
    """Run a call and return its result; an error becomes a result of one line.

    `key` gives what `idempotency_key` returns meanwhile. Raises Stopped when `stop` is
    set while an async tool or one with a timeout runs; a plain function ends by itself.
    """
    known = {each.name: each for each in reversed([*tools])}  # approval asks the first
    called = known.get(call.tool_name)
    if called is None:
        return _failed(
            call, f"there is no tool {call.tool_name!r}; use {_names(known)}"
        )
    try:
        values = _arguments(called, call)
    except ValidationError as error:
        return _failed(call, f"bad arguments: {faults(error)}")
    except ValueError as error:
        return _failed(call, f"bad arguments: {error}")
    token, stopping = _KEY.set(key), _STOP.set(stop)
    try:
        return _output(called, call, values, stop)
    finally:
        _KEY.reset(token)
        _STOP.reset(stopping)


def _output(
    called: Tool, call: Entry, values: dict[str, Any], stop: Flag | None
) -> ToolOutput:
    """The result of a call; an error becomes its result, but for an interrupt."""
    try:
        value = finished(_bound(called, values), called.timeout_seconds, stop)
    except ToolTimeout as error:
        return _failed(call, str(error))
    except SystemExit as error:
        return _exited(call, error)
    except (Exception, GeneratorExit, asyncio.CancelledError) as error:
        if isinstance(error, Stopped) and stop is not None and stop.is_set():
            raise
        return _failed(call, error_line(error))
    return output_of(call, value)


def preview_of(called: Tool, call: Entry) -> Preview | None:
    """The preview of a call before it runs; raises PreviewFailed."""
    if called.preview is None:
        return None
    try:
        return called.preview(**_arguments(called, call))
    except ValidationError as error:
        raise PreviewFailed(f"bad arguments: {faults(error)}") from error
    except NbchatError as error:
        raise PreviewFailed(str(error)) from error
    except Exception as error:
        raise PreviewFailed(error_line(error)) from error


def effect_of(called: Tool, call: Entry) -> str:
    """The effect of a call with the arguments with which it would run; raises nothing.

    Of arguments with which it cannot run it is like no other call's.
    """
    if called.effect is None:
        return ""
    try:
        return called.effect(**_arguments(called, call))
    except Exception:  # noqa: BLE001  # a model's arguments are of any kind
        return f"unknown {id(call)}"


_KEY: ContextVar[Callable[[], str] | None] = ContextVar("key", default=None)


def idempotency_key() -> str:
    """A key for the call that runs, the same when the model repeats it after a crash.

    Give it to the service that the tool changes, which then does the same thing only
    once. Raises NbchatError outside of a tool.
    """
    key = _KEY.get()
    if key is None:
        raise NbchatError("idempotency_key() has a value only while a tool runs.")
    return key()


_STOP: ContextVar[Flag | None] = ContextVar("stop", default=None)


def is_stopped() -> bool:
    """True if the turn of the tool that runs was stopped, so that it can end."""
    stop = _STOP.get()
    return stop is not None and stop.is_set()


def key_of(session_id: str, call: Entry, repetition: int) -> str:
    """The key of a call: of its session, tool and arguments.

    `repetition` counts the same calls before it that have succeeded.
    """
    arguments = json.dumps(call.arguments, sort_keys=True)
    text = json.dumps([session_id, call.tool_name, arguments, repetition])
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _made(function: Function, name: str, description: str, *options: Any) -> Tool:
    """A tool; `options` are those that a `Tool` has after its arguments."""
    if isinstance(function, Tool):
        return function
    name = name or _name_of(function)
    said, schema, adapter = _read(function, name)
    return Tool(name, description or said or name, schema, function, adapter, *options)


_Signature = tuple[str, dict[str, Any], TypeAdapter[dict[str, Any]]]

_READ: WeakKeyDictionary[Function, tuple[object, _Signature]] = WeakKeyDictionary()
"""Signatures of functions, each with all it was read from: one takes 2 ms, and a
service makes an agent for each request."""


def _read(function: Function, name: str) -> _Signature:
    """The description of a function, and the schema and check of its arguments."""
    if not isinstance(function, FunctionType):  # a bound method is new each time
        return _read_anew(function, name)
    source = name, function.__doc__, type_hints(function)
    known, found = _READ.get(function, (None, None))
    if found is None or known != source:
        found = _read_anew(function, name)
        _READ[function] = source, found
    return found


def _read_anew(function: Function, name: str) -> _Signature:
    text = docstring_parser.parse(inspect.getdoc(function) or "")
    said = "\n".join(filter(None, (text.short_description, text.long_description)))
    adapter = arguments_adapter(function, name)
    schema = closed_arguments(json_schema(adapter))
    for each in text.params:
        definition = schema["properties"].get(each.arg_name)
        if definition is not None and each.description:
            definition.setdefault("description", each.description)
    return said, schema, adapter


def _name_of(function: Function) -> str:
    """The function's name in letters, digits and `_`, which every API takes."""
    plain = getattr(function, "func", function)
    name = str(getattr(plain, "__name__", "") or type(plain).__name__)
    if not callable(function) or not name.isidentifier():
        raise ConfigError(f"A tool must be a function with a name, not {function!r}.")
    latin = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    safe = re.sub(r"\W", "_", latin, flags=re.ASCII)[:NAME_LENGTH]
    if not safe.strip("_"):
        raise ConfigError(
            f"No provider accepts the tool name {name!r}. Use tool(name='...') with "
            "Latin letters."
        )
    return safe


def _arguments(called: Tool, call: Entry) -> dict[str, Any]:
    """The arguments of a call; raises ValidationError or ValueError.

    What is wrong as it was sent may be right once strings are decoded.
    """
    text = object_text(call.tool_args or "{}")
    if called.arguments is None:
        found = fitted(from_json(text), called.parameters)
        if not isinstance(found, dict):
            raise ValueError(
                "the arguments must be a JSON object"
            )  # as pydantic's errors
        return found
    try:
        values: dict[str, Any] = called.arguments.validate_json(text)
    except ValidationError:
        try:
            changed = fitted(from_json(text), called.parameters)
            return dict(called.arguments.validate_json(json.dumps(changed)))
        except ValueError:  # what is wrong with the arguments as they were sent
            pass
        raise
    return values


def _bound(called: Tool, values: dict[str, Any]) -> Callable[[], object]:
    """The call with its arguments, positional-only ones first."""
    if called.arguments is None:
        return partial(called.function, **values)
    positional = [
        values.pop(each.name, each.default)
        for each in inspect.signature(called.function).parameters.values()
        if each.kind is each.POSITIONAL_ONLY
    ]
    return partial(called.function, *positional, **values)


def _failed(call: Entry, reason: str) -> ToolOutput:
    return ToolOutput(failed_result(call, reason))


def _exited(call: Entry, error: SystemExit) -> ToolOutput:
    """The result of a tool that ended as a program does: its exit status.

    0 is a success: a command line that is called as a function ends so, too.
    """
    code = error.code if isinstance(error.code, int) else int(bool(error.code))
    line = f"exit code {code}"
    said = error.code if isinstance(error.code, str) else _last_words(error)
    text = f"{line}: {said}" if said else line
    return _failed(call, text) if code else output_of(call, text)


def _last_words(error: SystemExit) -> str:
    """The last words of a command line before it ended, from argparse and click.

    What they write to stderr is not caught: other threads write there, too.
    """
    if (cause := error.__context__) is not None:
        formatted = getattr(cause, "format_message", None)
        return str(formatted() if callable(formatted) else cause).strip()
    trace, said = error.__traceback__, ""
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_globals.get("__name__") == "argparse":
            said = str(frame.f_locals.get("message") or said)
        trace = trace.tb_next
    return said.strip()


def _names(known: dict[str, Tool]) -> str:
    return ", ".join(sorted(known)) or "none: no tools are offered"


def _found(module: str, name: str) -> object:
    found: object = import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


class ToolTimeout(NbchatError):
    """A tool took too long."""


def finished(
    call: Callable[[], object],
    timeout_seconds: float | None = None,
    stop: Flag | None = None,
) -> object:
    """The final value of a call: a coroutine's result, a generator's items.

    Raises what it raises, ToolTimeout, or Stopped where it can be left: coroutines are
    cancelled, a plain function with a timeout continues in its thread.
    """
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    if deadline is not None and not _is_async(call):
        return _in_thread(lambda: _collected(call()), deadline, timeout_seconds, stop)
    value = call()
    if inspect.isasyncgen(value):
        value = _all_of(value)
    if inspect.iscoroutine(value):
        return _awaited(value, deadline, timeout_seconds, stop)
    return _collected(value)


def answer_of(call: Callable[[], object], stop: Flag | None = None) -> object:
    """The value of a function, awaited if it is async; raises Stopped on a stop."""
    value = call()
    if not inspect.isawaitable(value):
        return value
    return _awaited(_result_of(value), None, None, stop)


async def _result_of(value: Awaitable[object]) -> object:
    return await value


def _awaited(
    coroutine: Coroutine[Any, Any, object],
    deadline: float | None,
    timeout_seconds: float | None,
    stop: Flag | None,
) -> object:
    future = asyncio.run_coroutine_threadsafe(_contained(coroutine), _loop())
    try:
        value = _result(future, deadline, timeout_seconds, stop)
    except BaseException:
        future.cancel()
        raise
    if isinstance(value, _Ended):
        raise value.error
    return value


class _Ended(NamedTuple):
    """The exception with which a coroutine ends the program."""

    error: BaseException


async def _contained(work: Coroutine[Any, Any, object]) -> object:
    """The result of a coroutine; one that exits must not end its event loop."""
    try:
        return await work
    except (SystemExit, GeneratorExit) as error:
        return _Ended(error)


def _collected(value: object) -> object:
    return _all_items(value) if isinstance(value, Iterator) else value


def _all_items(items: Iterable[object]) -> object:
    """All items of a generator: one text if all are texts, else a list."""
    found: list[object] = []
    length = 0
    for item in items:
        found.append(item)
        length += len(item) if isinstance(item, str) else 1
        if len(found) >= MOST_ITEMS or length > MOST_CHARACTERS:
            break
    if found and all(isinstance(item, str) for item in found):
        return "".join(map(str, found))
    return found


def _is_async(call: Callable[[], object]) -> bool:
    function = getattr(call, "func", call)
    plain = getattr(function, "__call__", function)  # noqa: B004  # of an object
    return any(
        inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each)
        for each in (function, plain)
    )


async def _all_of(items: AsyncIterator[object]) -> object:
    found: list[object] = []
    async for item in items:
        found.append(item)
        if len(found) >= MOST_ITEMS:
            break
    return _all_items(found)


def _in_thread(
    call: Callable[[], object],
    deadline: float,
    timeout_seconds: float | None,
    stop: Flag | None,
) -> object:
    """Call on a thread of its own, with the context variables of this one."""
    future: Future[object] = Future()
    context = copy_context()

    def work() -> None:
        try:
            future.set_result(context.run(call))
        except BaseException as error:  # noqa: BLE001  # raised again by the caller
            future.set_exception(error)

    threading.Thread(target=work, name="nbchat-tool", daemon=True).start()
    return _result(future, deadline, timeout_seconds, stop)


def _result(
    future: "Future[object]",
    deadline: float | None,
    timeout_seconds: float | None,
    stop: Flag | None,
) -> object:
    arrived: queue.SimpleQueue[None] = queue.SimpleQueue()
    future.add_done_callback(lambda _future: arrived.put(None))
    while not future.done():
        if stop is not None and stop.is_set():
            raise Stopped("stopped")
        if deadline is not None and time.monotonic() >= deadline:
            raise ToolTimeout(
                f"no result within {timeout_seconds:g} s; whether it had an effect is "
                "unknown"
            )
        try:
            arrived.get(timeout=STEP_SECONDS)
        except queue.Empty:
            continue
    try:
        return future.result()
    except CancelledError:
        raise NbchatError("the tool was cancelled") from None


def _loop() -> asyncio.AbstractEventLoop:
    callers = CALLERS_LOOP.get()
    is_here = callers is not None and callers.is_running()
    if is_here and callers is not _running_loop():
        return callers  # type: ignore[return-value]  # checked above
    return _own_loop(os.getpid())


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@cache
def _own_loop(_process: int) -> asyncio.AbstractEventLoop:
    """A loop on a thread of its own, one for each process."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="nbchat-loop", daemon=True).start()
    return loop


def argument_names(tools: Iterable[Tool]) -> frozenset[str]:
    """The names of all arguments that tools take, nested ones included."""
    names: set[str] = set()
    waiting: list[object] = [each.parameters for each in tools]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            properties = node.get("properties")
            names |= set(properties) if isinstance(properties, dict) else set()
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return frozenset(names)
