"""A turn in a cell: the text that is printed, and how often it is flushed."""

import contextlib
import io

import pytest
from IPython.core.error import UsageError

from nbchat.agent.agent import Agent
from nbchat.chat.commands import Commands
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import EntryAdded, TextDelta
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError, RequestRefused
from nbchat.jupyter.cell_output import WIDTH, Conversation, WrappedText, show
from nbchat.storage.store import SessionStore
from nbchat.testing import ScriptedProvider, fails, says

ANSWER = "A plain word of text, and another. " * 300


class CountingStream(io.StringIO):
    """A standard output that counts how often it is flushed."""

    flushes = 0

    def flush(self) -> None:
        self.flushes += 1
        super().flush()


def printed(*pieces: str) -> CountingStream:
    events = [*map(TextDelta, pieces), EntryAdded(0, Entry("assistant", ANSWER))]
    with contextlib.redirect_stdout(CountingStream()) as stream:
        show(iter(events))
    return stream


def test_a_fast_answer_is_not_flushed_word_by_word():
    pieces = [ANSWER[place : place + 4] for place in range(0, len(ANSWER), 4)]
    stream = printed(*pieces)
    assert stream.getvalue().split() == ANSWER.split()
    assert stream.flushes < len(pieces) / 20


def test_the_first_words_are_flushed_at_once():
    with contextlib.redirect_stdout(CountingStream()) as stream:
        WrappedText().write("Hello there, ")
    assert stream.flushes == 1


@pytest.mark.parametrize("fault", [KeyboardInterrupt, NbchatError("lost")])
def test_an_interrupted_answer_is_printed_to_its_last_word(fault):
    def events():
        yield TextDelta("The answer is forty-two")
        raise fault

    with (
        contextlib.redirect_stdout(CountingStream()) as stream,
        contextlib.suppress(NbchatError, KeyboardInterrupt),
    ):
        show(events())
    assert stream.getvalue() == "The answer is forty-two\n"


def test_lines_wrap_between_words_and_code_stays_unchanged():
    code = "```\n" + "x = 1; " * 30 + "\n```"
    text, _, rest = printed(ANSWER[:700], f"\n{code}\n").getvalue().partition("```")
    assert max(len(line.rstrip()) for line in text.splitlines()) <= WIDTH
    assert f"```{rest}".strip() == code


def test_a_conversation_can_be_shown_without_widgets():
    said = [
        Entry("user", "What is in *ticket* 42?"),
        Entry("assistant", "", "c1", "look_up", '{"ticket": 42}'),
        Entry("tool", "The printer is <offline>.", "c1"),
        Entry("assistant", "It is **offline**."),
    ]
    shown = Conversation(Session(said))
    assert (
        repr(shown) == "You: What is in *ticket* 42?\n\nAssistant: It is **offline**."
    )
    html = shown._repr_html_()
    for part in ("*ticket*", "look_up", "&lt;offline&gt;", "<strong>offline</strong>"):
        assert part in html
    assert repr(Conversation(Session())) == "no messages yet"


class ClosedStream(io.StringIO):
    """A standard output whose reader interrupts at the first word."""

    def write(self, text: str) -> int:
        raise KeyboardInterrupt


def test_a_failed_turn_releases_the_chat_while_its_traceback_is_kept():
    agent = Agent(ScriptedProvider(fails(RequestRefused("no such model")), says("ok")))
    with pytest.raises(UsageError, match="no such model") as kept:
        show(agent.run("hello"))
    assert agent.ask("again") == "ok"
    assert kept.tb  # IPython keeps it, too: as sys.last_traceback


@pytest.mark.parametrize("command", ["", "/again"])
def test_an_interrupt_while_printing_releases_the_chat(tmp_path, command):
    agent = Agent(ScriptedProvider(says("one"), says("two words"), says("ok")))
    agent.ask("hello")
    with contextlib.closing(SessionStore(f"sqlite:///{tmp_path}/s.db")) as store:
        commands = Commands(store)
        turn = commands(agent, command) if command else agent.run("hi")
        with (
            contextlib.redirect_stdout(ClosedStream()),
            pytest.raises(KeyboardInterrupt) as kept,
        ):
            show(turn)
    assert agent.ask("again") == "ok"
    assert kept.tb
