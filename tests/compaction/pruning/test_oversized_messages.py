"""Results and messages that do not fit the window by themselves."""

import re
from itertools import cycle

import pytest

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import PRESETS
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import TurnFailed
from nbchat.conversation.session import Session
from nbchat.errors import ContextOverflow, RequestRefused
from nbchat.providers.base import ReplyStream, Request
from nbchat.testing import Line, ScriptedProvider, ScriptedReply, calls, fails, says

POLICIES = [name for name in PRESETS if name != "off"]
FILE = "\n".join(
    f"line {number}: all is well, and nothing new was seen" for number in range(450)
)


class Windowed(ScriptedProvider):
    """A model that refuses what is longer than its window, whether it tells it or not."""

    def __init__(self, *lines: ScriptedReply, limit: int, tells: bool = True) -> None:
        super().__init__(*lines, window=limit if tells else None)
        self.limit = limit

    def stream(self, request: Request, **options: object) -> ReplyStream:
        if self.count_tokens(request) > self.limit:
            self.requests.append(request)
            raise ContextOverflow("the request is too long")
        if request.answer_tag:
            self.requests.append(request)
            told = says("<summary>The customer wants all 449 lines read.</summary>")
            return self._reply(request, told)
        return (yield from super().stream(request, **options))


def read(path: str) -> str:
    """Read a file."""
    return f"{path}\n{FILE}"


def chat(provider: ScriptedProvider, policy: str = "single-summary") -> Agent:
    engine = CompactionEngine(context_token_threshold=None, policy=policy)
    return Agent(provider, engine=engine, tools=[read])


def last_read(request: Request) -> str:
    return next(e.content for e in reversed(request.history) if e.role == "tool")


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "tells"), [*zip(POLICIES, cycle([True, False]))])
def test_a_result_that_alone_is_longer_than_the_window_is_shortened_and_read(
    policy: str, *, tells: bool
):
    lines = [calls("read", path="a.txt"), calls("read", path="b.txt"), says("Read.")]
    model = Windowed(*lines, limit=4_200, tells=tells)
    agent = chat(model, policy)
    assert agent.ask("Read a.txt and b.txt.") == "Read."
    shown = last_read(model.requests[-1])
    assert shown.startswith("b.txt\nline 0: all is well")
    assert "line 449: all is well" in shown
    note = re.search(r"\[[\d,]+ of ([\d,]+) tokens omitted; recall\((\d+)\)", shown)
    assert note is not None
    assert agent.session.transcript[int(note[2])].content == f"b.txt\n{FILE}"


def test_a_result_that_fits_stays_whole_if_little_space_is_left():
    model = Windowed(calls("read", path="a.txt"), says("Read."), limit=11_200)
    said = [Entry("user", "One. " * 1_050), Entry("assistant", "Two. " * 1_050)]
    agent = chat(model)
    agent.session = Session(said)
    assert agent.ask("Read a.txt.") == "Read."
    assert agent.session.compaction is not None
    assert last_read(model.requests[-1]) == f"a.txt\n{FILE}"


def test_of_parallel_results_only_the_large_ones_are_shortened():
    texts = {"a": FILE, "b": "nothing here", "c": FILE}

    def part(name: str) -> str:
        """Read a part of a file."""
        return texts[name]

    asked = [
        Entry("assistant", "", f"c{name}", "part", f'{{"name": "{name}"}}')
        for name in texts
    ]
    model = Windowed(Line(calls=tuple(asked)), says("Read."), limit=4_200)
    agent = Agent(model, engine=CompactionEngine(None), tools=[part])
    assert agent.ask("Read all parts.") == "Read."
    shown = [e.content for e in model.requests[-1].history if e.role == "tool"]
    assert shown[1] == "nothing here"
    assert all("tokens omitted" in shown[index] for index in (0, 2))
    assert model.count_tokens(model.requests[-1]) > 2_000


def test_off_shortens_nothing():
    model = Windowed(calls("read", path="a.txt"), says("Read."), limit=4_200)
    agent = chat(model, "off")
    assert isinstance(list(agent.run("Read a.txt."))[-1], TurnFailed)
    assert agent.session.compactions == []


def test_an_overflow_names_the_message_that_is_too_long_and_how_to_exclude_it():
    model = Windowed(says("ok"), limit=2_000)
    agent = chat(model)
    failure = list(agent.run(f"Look at this:\n{FILE}"))[-1]
    assert isinstance(failure, TurnFailed)
    assert re.search(
        r'the request is too long The largest is #0, "Look at this: line 0: '
        r'all is well, .*…", with about [4-6],\d{3} tokens. '
        r"/exclude 0 hides it from the model",
        failure.message,
    )
    list(agent.exclude(0))
    assert agent.ask("Hello?") == "ok"


@pytest.mark.parametrize(("policy", "tells"), [*zip(POLICIES, cycle([False, True]))])
def test_a_paste_that_is_too_long_ends_its_turn_and_no_later_one(
    policy: str, *, tells: bool
):
    model = Windowed(*[says("ok")] * 9, limit=4_200, tells=tells)
    agent = chat(model, policy)
    assert isinstance(list(agent.run(FILE))[-1], TurnFailed)
    assert [agent.ask("Hello?"), agent.ask("And now?")] == ["ok", "ok"]
    assert agent.session.transcript[0].content == FILE


def test_a_pile_of_failed_turns_does_not_end_the_chat():
    down = [fails(RequestRefused("the server is down"))] * 6
    model = Windowed(*down, *[says("ok")] * 9, limit=4_200)
    agent = chat(model)
    attached = [Entry("user", "b.txt", "", "file", f'{{"data": "{"word " * 1_050}"}}')]
    for number in range(6):
        list(agent.run(f"Read it, try {number}.", attached=attached))
    assert agent.ask("Once more, please?") == "ok"
