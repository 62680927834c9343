"""Plain functions as tools: schema, validation, and faults told to the model."""

import argparse
import asyncio
import base64
import dataclasses
import functools
import io
import json
import pickle
import sys
import threading
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from matplotlib.figure import Figure
from PIL import Image
from pydantic import BaseModel, Field
from tables import every

from nbchat.conversation.entries import Entry
from nbchat.conversation.returned_values import output_of
from nbchat.conversation.tools import Tool, as_tools, run_tool, tool
from nbchat.errors import ConfigError, Stopped


def set_priority(
    ticket_id: str, priority: Literal["low", "high"], note: str = ""
) -> str:
    """Set how urgent a ticket is.

    Args:
        ticket_id: The ticket, as in T1.
        priority: How urgent.
    """
    return f"{ticket_id} is {priority}{note}"


def call(name: str, arguments: str) -> Entry:
    return Entry("assistant", "", "call_1", name, arguments)


def result(tools: Iterable[Tool], entry: Entry) -> Entry:
    return run_tool(tools, entry).entry


def test_the_schema_comes_from_signature_and_docstring():
    made = tool(set_priority)
    assert (made.name, made.description) == (
        "set_priority",
        "Set how urgent a ticket is.",
    )
    assert made.parameters["required"] == ["ticket_id", "priority"]
    assert made.parameters["properties"]["priority"] == {
        "description": "How urgent.",
        "enum": ["low", "high"],
        "type": "string",
    }


def test_a_tool_shows_its_arguments_on_one_line():
    assert repr(tool(set_priority)) == "<Tool set_priority(ticket_id, priority, note?)>"
    assert repr(tool(read_only=False)(set_priority)).endswith(", changes something>")


def test_the_result_of_a_call_has_the_id_of_the_call():
    done = result(
        as_tools([set_priority]),
        call("set_priority", '{"ticket_id": "T1", "priority": "low"}'),
    )
    assert done == ("tool", "T1 is low", "call_1", "set_priority", "")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (
            call("set_priority", '{"ticket_id": "T1", "priority": "huge"}'),
            "'low' or 'high'",
        ),
        (call("set_priority", '{"ticket_id": "T1"'), "bad arguments"),
        (
            call("set_priority", '{"ticket_id":"T","priority":"low","x":1}'),
            "x: Unexpected keyword argument",
        ),
        (call("format_disk", "{}"), "no tool 'format_disk'; use set_priority"),
    ],
)
def test_wrong_calls_become_one_line_for_the_model(entry: Entry, said: str):
    done = result(as_tools([set_priority]), entry)
    assert done.is_error
    assert said in done.content
    assert "\n" not in done.content


def test_a_tool_that_raises_becomes_an_error_entry():
    def explode() -> str:
        raise ZeroDivisionError("by zero")

    done = result(as_tools([explode]), call("explode", ""))
    assert done.is_error
    assert done.content == "error: ZeroDivisionError: by zero"


def test_values_that_are_not_text_come_as_json_and_long_ones_are_cut_with_a_note():
    def numbers() -> dict[str, int]:
        return {"a": 1}

    def flood() -> str:
        return "x" * 300_000

    tools = as_tools([numbers, flood])
    assert result(tools, call("numbers", "{}")).content == '{"a": 1}'
    flooded = result(tools, call("flood", "{}")).content
    assert "x\n[100,000 characters removed]\nx" in flooded


class Mute:
    """Something that cannot be written at all."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def circle() -> list[object]:
    inside: list[object] = []
    inside.append(inside)
    return inside


@pytest.mark.parametrize(
    ("output", "content"),
    [({("a", 1): 3}, "{('a', 1): 3}"), (circle(), "[[...]]")],
    ids=["tuples for keys", "a circle"],
)
def test_what_json_has_no_form_for_comes_as_python_writes_it(
    output: object, content: str
):
    def give() -> object:
        return output

    done = result(as_tools([give]), call("give", "{}"))
    assert done == ("tool", content, "call_1", "give", "")


def test_of_an_output_that_cannot_be_written_the_model_reads_that_the_tool_ran():
    def give() -> object:
        return [Mute()]

    done = result(as_tools([give]), call("give", "{}"))
    assert done.is_error
    assert done.content == (
        "error: it ran, but its output cannot be shown as text: RuntimeError: no words"
    )


def test_of_a_fault_without_words_the_model_reads_the_name():
    def explode() -> str:
        raise MuteError

    done = result(as_tools([explode]), call("explode", "{}"))
    assert (done.content, done.is_error) == ("error: MuteError", True)


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="Two tools are named set_priority"):
        as_tools([set_priority, set_priority])


def test_a_lambda_cannot_be_a_tool():
    with pytest.raises(ConfigError, match="function with a name"):
        tool(lambda: "x")


class Size(Enum):
    small = "small"
    large = "large"


@dataclasses.dataclass
class Part:
    name: str
    amounts: list[int] = dataclasses.field(default_factory=list)


class Order(BaseModel):
    placed: date
    parts: list[Part] = []


class Address(TypedDict):
    street: str
    floor: NotRequired[int]


def everything(
    order_id: int,
    /,
    note: Annotated[str, Field(description="what was said", max_length=5)],
    size: Size = Size.small,
    *,
    order: Order | None = None,
    address: Address | None = None,
    tree: list[list[Part]] = [],  # noqa: B006
    schema: str = "x",
    **_others: object,
) -> str:
    """Do everything.

    Args:
        order_id: the number
        note: the docstring's own words
    """
    return f"{order_id} {note} {size} {order} {address} {tree} {schema}"


def test_arguments_may_have_every_type_that_people_write():
    made = tool(everything)
    properties = made.parameters["properties"]
    assert made.parameters["required"] == ["order_id", "note"]
    assert properties["order_id"] == {"type": "integer", "description": "the number"}
    assert properties["note"] == {
        "type": "string",
        "maxLength": 5,
        "description": "what was said",
    }
    assert made.parameters["$defs"]["Size"]["enum"] == ["small", "large"]
    assert "title" not in json.dumps(made.parameters)
    arguments = {
        "order_id": 1,
        "note": "late",
        "size": "large",
        "order": {"placed": "2026-11-23", "parts": [{"name": "p"}]},
        "address": {"street": "s"},
        "tree": [[{"name": "q", "amounts": [1]}]],
    }
    done = result([made], call("everything", json.dumps(arguments)))
    assert done.content == (
        f"1 late {Size.large} {Order(placed=date(2026, 11, 23), parts=[Part('p')])} "
        f"{{'street': 's'}} {[[Part('q', [1])]]} x"
    )
    wrong = arguments | {"note": "too long", "size": "huge"}
    refused = result([made], call("everything", json.dumps(wrong))).content
    assert "note: String should have at most 5 characters" in refused
    assert "size: Input should be 'small' or 'large'" in refused


def test_an_argument_without_a_schema_is_refused_with_its_tool():
    def give(lock: type(threading.Lock())) -> None:  # type: ignore[valid-type]
        pass

    with pytest.raises(ConfigError, match="an argument of the tool 'give' has a type"):
        tool(give)


class Caller:
    def __call__(self, number: int) -> int:
        return number + 1

    def add(self, number: int) -> int:
        return number + 2


@pytest.mark.parametrize(
    ("function", "name", "content"),
    [
        (Caller(), "Caller", "2"),
        (Caller().add, "add", "3"),
        (functools.partial(everything, 7, note="n"), "everything", "7 n"),
    ],
    ids=["an object", "a method", "a partial"],
)
def test_everything_callable_with_a_name_is_a_tool(function, name: str, content: str):
    made = tool(function)
    given = "{}" if name == "everything" else '{"number": 1}'
    assert made.name == name
    assert result([made], call(name, given)).content.startswith(content)


def test_names_are_what_every_api_takes():
    def change() -> None:
        pass

    change.__name__ = "größe_ändern"
    assert tool(change).name == "groe_andern"
    change.__name__ = "大きさ"
    with pytest.raises(ConfigError, match="No provider accepts the tool name"):
        tool(change)
    assert tool(name="size")(change).name == "size"


def forever() -> Iterator[str]:
    while True:
        yield "x" * 1_000


@every(
    ("output", "content"),
    [
        (None, "ok"),
        ("text", "text"),
        (b"\xc3\xa4", "ä"),
        (b"\xff\x00", "[2 bytes that are not text]"),
        ((n for n in range(3)), "[0, 1, 2]"),
        (iter(["a", "b"]), "ab"),
        (Part("p", [1]), '{"name": "p", "amounts": [1]}'),
        (Order(placed=date(2026, 1, 2)), '{"placed": "2026-01-02", "parts": []}'),
        (
            {"at": datetime(2026, 1, 2, tzinfo=UTC), "size": Size.small},
            '{"at": "2026-01-02T00:00:00Z", "size": "small"}',
        ),
        (
            pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}),
            "2 rows x 2 columns, as CSV:\na,b\n1,x\n2,y",
        ),
        (pd.Series([1], index=["k"], name="n"), "1 rows x 1 columns, as CSV:\n,n\nk,1"),
        (np.array([[1, 2], [3, 4]]), "[[1, 2], [3, 4]]"),
        (np.float64(0.5), "0.5"),
    ],
)
def test_outputs_become_text(output: object, content: str):
    def give() -> object:
        return output

    assert result(as_tools([give]), call("give", "")) == (
        "tool",
        content,
        "call_1",
        "give",
        "",
    )


def test_large_outputs_and_errors_are_bounded():
    def large() -> object:
        return np.zeros(100_000)

    def explode() -> None:
        raise ValueError("x" * 300_000)

    tools = as_tools([forever, large, explode])
    assert len(result(tools, call("forever", "")).content) < 210_000
    assert len(result(tools, call("large", "")).content) < 1_000
    failed = result(tools, call("explode", "")).content
    assert "[100,000 characters removed]" in failed


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        Figure,
        lambda: Image.new("RGB", (4_000, 10)),
        lambda: pd.Series([1, 2]).plot(ax=Figure().subplots()),
    ],
)
def test_figures_and_images_become_pictures(make):
    def give() -> object:
        return make()

    done = run_tool(as_tools([give]), call("give", ""))
    assert done.entry.content == "[1 picture follows]"
    (picture,) = done.pictures
    data = base64.b64decode(picture.arguments["data"])
    assert picture.arguments["media_type"] == "image/png"
    assert max(Image.open(io.BytesIO(data)).size) <= 1_568


def test_a_call_that_takes_too_long_fails_and_says_that_the_effect_is_unknown():
    ending = threading.Event()

    @tool(timeout_seconds=0.05)
    def wait() -> None:
        ending.wait(10)

    @tool(timeout_seconds=0.05)
    async def await_long() -> None:
        await asyncio.sleep(10)

    for each in (wait, await_long):
        content = result([each], call(each.name, "")).content
        assert (
            content
            == "error: no result within 0.05 s; whether it had an effect is unknown"
        )
    ending.set()


def test_a_stop_ends_an_async_tool():
    stop = threading.Event()

    async def work() -> None:
        stop.set()
        await asyncio.sleep(10)

    with pytest.raises(Stopped):
        run_tool(as_tools([work]), call("work", ""), stop=stop)


@tool(read_only=True, timeout_seconds=3)
def decorated(number: int) -> int:
    """Count."""
    return number + 1


def test_tools_are_sent_to_another_process_by_the_name_of_their_function():
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    (same,) = pickle.loads(pickle.dumps(as_tools([everything])))
    assert (same.function, same.name) == (everything, "everything")
    assert decorated(1) == 2


def by_argparse(line: str) -> None:
    parser = argparse.ArgumentParser(prog="convert")
    parser.add_argument("--n", type=int, required=True)
    parser.parse_args(line.split())
    sys.exit()


@pytest.mark.parametrize(
    ("line", "text", "is_error"),
    [
        ("--n 3", "exit code 0", False),
        ("--n x", "error: exit code 2: argument --n: invalid int value: 'x'", True),
        ("", "required: --n", True),
    ],
)
def test_a_tool_that_exits_returns_its_status(line, text, is_error):
    call = Entry("assistant", "", "c", "by_argparse", json.dumps({"line": line}))
    found = run_tool(as_tools([by_argparse]), call).entry
    assert text in found.content
    assert found.is_error is is_error


@pytest.mark.parametrize(
    "error", [SystemExit("no disk"), GeneratorExit(), asyncio.CancelledError("late")]
)
def test_a_tool_that_raises_what_ends_programs_has_failed(error: BaseException):
    def fail() -> None:
        raise error

    call = Entry("assistant", "", "c", "fail", "{}")
    found = run_tool(as_tools([fail]), call).entry
    assert found.is_error
    words = {"SystemExit": "exit code 1: no disk"}.get(type(error).__name__)
    assert (words or type(error).__name__) in found.content


def test_an_interrupt_of_a_tool_passes_through():
    def fail() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_tool(as_tools([fail]), Entry("assistant", "", "c", "fail", "{}"))


def test_an_async_tool_that_exits_leaves_the_others_their_event_loop():
    async def leave() -> None:
        raise SystemExit(3)

    async def stay() -> str:
        return "here"

    tools = as_tools([leave, stay])
    left = run_tool(tools, Entry("assistant", "", "a", "leave", "{}"))
    assert left.entry.content == "error: exit code 3"
    stayed = run_tool(tools, Entry("assistant", "", "b", "stay", "{}"))
    assert stayed.entry.content == "here"


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table])
def test_a_frame_of_polars_or_pyarrow_is_csv_of_which_20_rows_are_shown(make: Any):
    rows = 30
    frame = make({"order": [f"A{n}" for n in range(rows)], "amount": [1.5] * rows})
    output = output_of(call("read", "{}"), frame)
    assert output.entry.content.startswith("30 rows x 2 columns, as CSV:\norder,amount")
    assert output.entry.content.endswith("A29,1.5")
    assert output.shown.endswith("A19,1.5\n... 10 more rows")
    assert output_of(call("read", "{}"), frame[:2]).shown == ""


def test_a_function_whose_type_is_defined_anew_gets_the_new_schema():
    def decide(kind: "Kind") -> str:  # noqa: F821
        """Decide."""
        return kind

    places = decide.__globals__
    try:
        places["Kind"] = Literal["card", "transfer"]
        first, same = tool(decide), tool(decide)
        places["Kind"] = Literal["card", "loan"]
        second = tool(decide)
    finally:
        places.pop("Kind")
    assert first.parameters is same.parameters
    assert second.parameters["properties"]["kind"]["enum"] == ["card", "loan"]
