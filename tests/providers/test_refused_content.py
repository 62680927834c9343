"""Content that a server refuses leaves the request; the transcript keeps it."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from fault_server import AnthropicDialect, Response
from model_switches import switched
from provider_kit import DIALECTS
from refusing_server import (
    Json,
    RefusingServer,
    Rule,
    has_own_thinking,
    has_readable_pictures,
    picture,
    pictures_in,
    png,
    takes_no_pictures,
)

from nbchat.agent.agent import Agent
from nbchat.agent.map_agents import map_agents
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import Compacted, ContentLeftOut, TurnFailed
from nbchat.conversation.session import Session
from nbchat.errors import (
    AuthenticationFailed,
    ContextOverflow,
    ProviderError,
    RequestRefused,
)
from nbchat.providers.base import Request, image_of
from nbchat.providers.error_mapping import Refusal
from nbchat.providers.refused_content import OLD_NOTE, REFUSED_NOTE

Made = Callable[..., RefusingServer]

WIRES = ["openai", "responses", "gemini", "anthropic"]

CUT = png()[:60]

A = AnthropicDialect()


@pytest.fixture
def serving() -> Iterator[Made]:
    made: list[RefusingServer] = []

    def serve(kind: str, rule: Rule | None = None, **options: Any) -> RefusingServer:
        made.append(RefusingServer(kind, rule, **options))
        return made[-1]

    yield serve
    for server in made:
        server.close()


def session_with(*entries: Entry) -> Session:
    """A session in which each of these had an answer."""
    session = Session()
    for entry in entries:
        session.append(entry)
        session.append(Entry("user", "look"))
        session.append(Entry("assistant", "I see."))
    return session


def left_out(agent: Agent, text: str = "what is 2+2?") -> list[ContentLeftOut]:
    answer = agent.ask(text)
    assert answer == "fine"
    return [e for e in answer.events if isinstance(e, ContentLeftOut)]


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("kind", WIRES)
def test_a_picture_that_cannot_be_read_leaves_the_request(serving, kind, is_named):
    def rule(body: Json) -> str | None:
        return has_readable_pictures(body, is_named=is_named)

    server = serving(kind, rule)
    agent = Agent(server.provider(), session=session_with(picture(CUT, "cut.png")))
    before = agent.session.transcript[:]
    (event,) = left_out(agent)
    assert event.parts == ("the picture cut.png",)
    assert "Could not process image" in event.reason
    assert left_out(agent) == []
    assert len(server.refused) == 1
    assert agent.session.transcript[: len(before)] == before
    assert REFUSED_NOTE in str(server.requests[-1].body)


@pytest.mark.parametrize("kind", WIRES)
def test_of_several_pictures_only_the_named_one_leaves(serving, kind):
    entries = [
        picture(png(), "a.png"),
        picture(CUT, "cut.png"),
        picture(png(), "b.png"),
    ]
    server = serving(kind, has_readable_pictures)
    agent = Agent(server.provider(), session=session_with(*entries))
    assert [e.parts for e in left_out(agent)] == [("the picture cut.png",)]
    assert len(pictures_in(server.requests[-1].body)) == 2


def test_without_an_index_the_newest_picture_leaves_first_then_all(serving):
    def rule(body: Json) -> str | None:
        return has_readable_pictures(body, is_named=False)

    entries = [
        picture(CUT, "cut.png"),
        picture(png(), "a.png"),
        picture(png(), "b.png"),
    ]
    server = serving("anthropic", rule)
    agent = Agent(server.provider(), session=session_with(*entries))
    left_out(agent)
    sent = [len(pictures_in(each.body)) for each in server.requests]
    assert sent == [3, 2, 0]


TEXT_ONLY = {
    "OpenAI": (
        400,
        "Invalid content type. image_url is only supported by certain models.",
    ),
    "vLLM": (400, "m is not a multimodal model"),
    "OpenRouter": (404, "No endpoints found that support image input"),
    "llama.cpp": (
        500,
        "image input is not supported - you may need to provide the mmproj",
    ),
    "another language": (422, "画像には対応していません"),
    "no reason": (400, ""),
}


@pytest.mark.parametrize("name", TEXT_ONLY)
def test_a_model_without_pictures_answers_and_compacts_whatever_its_words(
    serving, name
):
    status, words = TEXT_ONLY[name]
    sighted = serving("openai")
    blind = serving("openai", takes_no_pictures(words), status=status)
    entries = [picture(png(colour=each), f"{each}.png") for each in ("red", "blue")]
    agent = Agent(sighted.provider(model="eyes"), session=session_with(*entries))
    agent.use(blind.provider(model="m"))
    (event,) = left_out(agent)
    assert event.parts == ("the picture red.png", "the picture blue.png")
    assert len(blind.requests) <= 4
    assert any(isinstance(each, Compacted) for each in agent.compact())
    assert len(blind.refused) <= 3


def test_a_model_that_takes_pictures_is_sent_them_again(serving):
    sighted, blind = serving("openai"), serving("openai", takes_no_pictures())
    eyes, none = sighted.provider(model="eyes"), blind.provider(model="none")
    agent = Agent(none, session=session_with(picture(png())))
    left_out(agent)
    agent.use(eyes)
    left_out(agent)
    assert len(pictures_in(sighted.requests[-1].body)) == 1
    agent.use(none)
    assert left_out(agent) == []
    assert len(blind.refused) == 1


def test_after_two_refused_pictures_none_is_sent_to_a_model_that_never_took_one(
    serving,
):
    server = serving("openai", takes_no_pictures())
    agent = Agent(server.provider())
    for number in range(5):
        list(agent.run("look", attached=[picture(png(), f"{number}.png")]))
    assert len(server.refused) == 2


@pytest.mark.slow
def test_of_many_large_pictures_none_ends_the_chat(serving):
    server = serving("anthropic", has_readable_pictures)
    wide = [png((2_400, 13), colour) for colour in ("red", "green", "blue")]
    entries = [picture(wide[n % 3] + b"\0" * n, f"{n}.png") for n in range(25)]
    agent = Agent(server.provider(), session=session_with(*entries))
    left_out(agent)
    left_out(agent)
    assert len(server.refused) <= 4


def thinking(signature: str) -> Any:
    start = {"type": "thinking", "thinking": "", "signature": ""}
    deltas = [
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": signature},
    ]
    return start, deltas


def said(text: str) -> Any:
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": text}]


@pytest.mark.slow
@pytest.mark.parametrize("is_named", [True, False])
def test_thinking_of_another_model_leaves_the_request(serving, is_named):
    opus = serving("anthropic", has_own_thinking("opus", is_named=is_named))
    sonnet = serving("anthropic", has_own_thinking("sonnet", is_named=is_named))
    opus.script(*(A.stream(thinking(f"opus{n}"), said("I saw.")) for n in range(3)))
    agent = Agent(opus.provider(model="claude-opus-5"))
    for _ in range(3):
        agent.ask("look")
    before = agent.provider
    agent.use(sonnet.provider(model="claude-sonnet-5"))
    sonnet.script(A.stream(thinking("sonnet1"), said("fine")), A.text("fine"))
    (event,) = left_out(agent)
    assert event.parts == ("the thinking of an earlier model",)
    assert left_out(agent) == []
    assert "sonnet1" in str(sonnet.requests[-1].body)
    assert len(sonnet.refused) == 1
    assert any(isinstance(each, Compacted) for each in agent.compact())
    list(agent.undo_compaction())
    agent.use(before)
    opus.script(A.text("fine"))
    left_out(agent)
    assert "opus2" in str(opus.requests[-1].body)


def test_pictures_that_were_not_the_cause_are_sent_again(serving):
    """No index and no word says that the thinking is meant."""

    def rule(body: Json) -> str | None:
        return "no" if has_own_thinking("sonnet")(body) else None

    server = serving("anthropic", rule)
    block = '{"type": "thinking", "thinking": "hm", "signature": "opus1"}'
    session = session_with(picture(png()))
    session.append(Entry("user", "and now?"))
    session.append(Entry("thinking", "hm", "", "anthropic", block))
    session.append(Entry("assistant", "Yes."))
    agent = Agent(server.provider(), session=session)
    assert [e.parts for e in left_out(agent)] == [("the thinking of an earlier model",)]
    assert len(pictures_in(server.requests[-1].body)) == 1


def test_a_server_that_refuses_everything_is_one_error_and_nothing_is_lost(serving):
    numbers = itertools.count()
    server = serving("openai", lambda _body: f"reason {next(numbers)}")
    agent = Agent(server.provider(), session=session_with(*[picture(png())] * 3))
    before = agent.session.transcript[:]
    events = list(agent.run("hello"))
    assert isinstance(events[-1], TurnFailed)
    assert "reason 0" in events[-1].message
    assert len(server.requests) <= 4
    assert agent.session.transcript[: len(before)] == before
    server.rule = None
    assert left_out(agent) == []
    assert len(pictures_in(server.requests[-1].body)) == 3


@pytest.mark.parametrize(
    ("status", "words", "error"),
    [
        (401, "invalid key for this image", AuthenticationFailed),
        (404, "no model m for images", RequestRefused),
        (413, "the images are too large", ContextOverflow),
    ],
)
def test_refusals_about_key_model_or_length_leave_nothing_out(
    serving, status, words, error: type[ProviderError]
):
    server = serving("openai", takes_no_pictures(words), status=status)
    history = (picture(png()), Entry("user", "look"))
    agent = Agent(server.provider())
    request = agent.next_request()
    with pytest.raises(error):
        list(agent.provider.stream(replace(request, history=history)))
    assert len(server.requests) == 1


def test_of_too_many_pictures_the_old_ones_leave(serving):
    def rule(body: Json) -> str | None:
        found = len(pictures_in(body))
        return f"At most 3 image(s) may be provided, not {found}" if found > 3 else None

    server = serving("openai", rule)
    entries = [picture(png(colour=f"#0000{n:02}"), f"{n}.png") for n in range(10, 16)]
    agent = Agent(server.provider(), session=session_with(*entries))
    (event,) = left_out(agent)
    assert event.parts == tuple(f"the picture {n}.png" for n in (10, 11, 12))


def test_beyond_a_known_limit_old_pictures_leave_before_the_server_refuses(serving):
    server = serving(
        "anthropic", lambda b: "many" if len(pictures_in(b)) > 100 else None
    )
    entries = [picture(png() + bytes(n), f"{n}.png") for n in range(101)]
    agent = Agent(server.provider(), session=session_with(*entries))
    assert left_out(agent) == []
    assert len(pictures_in(server.requests[-1].body)) == 76
    assert str(server.requests[-1].body).count(OLD_NOTE) == 25


def test_a_file_that_is_refused_leaves_too(serving):
    server = serving("anthropic", lambda b: "no" if "forbidden" in str(b) else None)
    details = '{"media_type": "text/plain", "name": "a.txt", "data": "forbidden"}'
    file = Entry("user", "The file a.txt", "", "file", details)
    agent = Agent(server.provider(), session=session_with(file))
    assert [each.parts for each in left_out(agent)] == [("the file a.txt",)]


def test_an_error_after_a_200_counts_as_well(serving):
    server = serving("openai")
    wire = DIALECTS["openai"]
    broken = (
        wire.text()
        .after(0)
        .plus(wire.error_event("invalid_request_error", "Could not process image"))
    )
    server.script(broken, wire.text("fine"))
    agent = Agent(server.provider(), session=session_with(picture(png())))
    assert [each.parts for each in left_out(agent)] == [("the picture plot.png",)]


def shot() -> bytes:
    """Take a picture of the screen."""
    return png()


@pytest.mark.slow
def test_rows_of_many_agents_share_what_was_learned(serving):
    wire = DIALECTS["openai"]

    def first_a_call(body: Json) -> Response | None:
        is_new = not any(each["role"] == "tool" for each in body["messages"])
        return wire.calls(("c1", "shot", "{}")) if is_new else None

    server = serving("openai", takes_no_pictures())
    server.reply = first_a_call
    agent = Agent(server.provider(), tools=[shot])
    rows = map_agents(agent, [str(n) for n in range(20)], workers=2).wait().rows()
    assert [row["value"] for row in rows] == ["fine"] * 20
    assert len(server.refused) <= 4


def test_what_another_thread_has_learned_meanwhile_helps_at_once(serving):
    provider = serving("openai").provider()
    request = Request((picture(png()), Entry("user", "look")))
    one, other = (provider._refused.trial("m", request) for _ in "12")
    refusal = Refusal(400, (), "no pictures")
    assert one.learn(refusal, dict)
    one.accepted([])
    assert other.learn(refusal, dict)
    assert not any(image_of(entry) for entry in other.request.history)
    assert not other.learn(refusal, dict)


def test_a_summary_in_the_background_leaves_the_same_out(serving):
    sonnet = serving("anthropic", has_own_thinking("sonnet"))
    block = '{"type": "thinking", "thinking": "hm", "signature": "opus1"}'
    session = session_with(picture(CUT))
    session.append(Entry("user", "x"))
    session.append(Entry("thinking", "hm", "", "anthropic", block))
    session.append(Entry("assistant", "a" * 4_000))
    agent = Agent(sonnet.provider(), session=session, engine=CompactionEngine(10))
    agent.compacts_later = True
    agent.ask("hello")
    assert agent.wait_for_background(30)
    assert any(isinstance(e, Compacted) for e in agent.commit_background())
    assert len(sonnet.refused) == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7, 8])
def test_no_turn_fails_however_models_are_switched(seed: int):
    _, refused, _, failures = switched(seed, 25)
    assert failures == []
    assert refused
