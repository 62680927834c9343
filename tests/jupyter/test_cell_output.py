"""A turn in a cell: the text that is printed, how often it is flushed, Try again."""

import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from ipywidgets import Button
from nbconvert import HTMLExporter

from nbchat.agent.agent import Agent
from nbchat.agent.live_output import NotebookOutput, PrintedOutput
from nbchat.chat.commands import Commands
from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.events import (
    CompactionFailed,
    CompactionSkipped,
    ContentLeftOut,
    EntryAdded,
    PinsChanged,
    RetryScheduled,
    SavingFailed,
    TextDelta,
    TurnFinished,
)
from nbchat.conversation.session import Session
from nbchat.errors import ConnectionFailed, NbchatError, RequestRefused
from nbchat.jupyter.cell_output import (
    HOW_TO_RETRY,
    RETRY_ANSWERED,
    Conversation,
    KeptTranscript,
    show,
)
from nbchat.providers.base import ReplyStream, Request
from nbchat.rendering.conversation import kept_html
from nbchat.rendering.markdown import markdown_cell_html
from nbchat.storage.store import SessionStore
from nbchat.testing import ScriptedProvider, fails, says

ANSWER = "A plain word of text, and another. " * 300

VIEW = "application/vnd.jupyter.widget-view+json"


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
        PrintedOutput().text("Hello there, ")
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


class Publisher:
    """IPython's publisher of displays; keeps what it is given."""

    def __init__(self) -> None:
        self.calls: list[tuple[dict[str, str], bool]] = []

    def publish(self, data, *, transient, update) -> None:
        assert transient["display_id"]
        self.calls.append((data, update))


TABLE = "| a | b |\n|---|---|\n| 1 | **2** |\n\n```python\nx = 1\n```\n"


def shown_in(publisher: Publisher, turn, *, is_watched: bool) -> list[dict[str, str]]:
    """The outputs of a cell after a turn, as a front end keeps them."""
    output = NotebookOutput(publisher, is_watched=is_watched)
    with contextlib.suppress(UsageError):
        show(turn, output)
    kept: list[dict[str, str]] = []
    for data, is_update in publisher.calls:
        if is_update:
            kept.pop()
        kept.append(data)
    return kept


@pytest.mark.parametrize("is_watched", [True, False])
def test_an_answer_is_rendered_markdown_with_a_plain_fallback_and_its_usage(is_watched):
    agent = Agent(ScriptedProvider(says(TABLE, tokens=20)))
    publisher = Publisher()
    answer, usage = shown_in(publisher, agent.run("hi"), is_watched=is_watched)
    assert answer["text/plain"] == answer["text/markdown"] == TABLE
    assert "<table>" in answer["text/html"]
    assert "<strong>2</strong>" in answer["text/html"]
    assert "nbc-code" in answer["text/html"]
    assert "20" in usage["text/plain"]
    assert publisher.calls[0][0]["text/plain"].startswith("Waiting") is is_watched


def test_a_run_without_a_display_updates_none():
    agent = Agent(ScriptedProvider(says("word " * 500, delay_seconds=0.0001)))
    publisher = Publisher()
    shown_in(publisher, agent.run("hi"), is_watched=False)
    assert [is_update for _, is_update in publisher.calls] == [False, False]


def test_a_turn_without_an_answer_leaves_no_waiting_line():
    agent = Agent(ScriptedProvider(fails(RequestRefused("no such model"))))
    kept = shown_in(Publisher(), agent.run("hi"), is_watched=True)
    assert [each["text/plain"] for each in kept] == [""]


DONE = [
    ContentLeftOut(("the picture a.png",), "openai:m", "no images"),
    CompactionSkipped("nothing new to compact"),
    PinsChanged(("a rule",)),
    RetryScheduled(1, 2.0, "busy"),
    SavingFailed("everything is saved again", is_resolved=True),
]

NOT_DONE = [
    CompactionFailed(Compaction("c", 0, 1, "", status="failed", reason="busy")),
    SavingFailed("the disk is full"),
    TurnFinished("max_tokens", 1),
]


def test_only_failures_and_incomplete_answers_go_to_stderr(capsys):
    show(iter(DONE))
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == len(DONE)
    assert shown.err == ""
    show(iter(NOT_DONE))
    shown = capsys.readouterr()
    assert len(shown.err.splitlines()) == len(NOT_DONE)
    assert shown.out == ""


def test_no_picture_of_an_answer_is_fetched_and_no_html_of_it_runs():
    text = "![x](https://evil.example/?q=1) <img src=x onerror=alert(1)>"
    agent = Agent(ScriptedProvider(says(text)))
    answer, *_ = shown_in(Publisher(), agent.run("hi"), is_watched=False)
    assert "<img" not in answer["text/html"]
    assert "onerror" not in answer["text/html"].replace("&lt;img src=x onerror", "")


BLOCKS = "First:\n\n```python\nx = 1\n```\n\n```sql\nSELECT 1\n```\n\nThen prose."


@pytest.mark.slow
@pytest.mark.parametrize(
    "html",
    [
        Conversation(Session([Entry("assistant", BLOCKS)]))._repr_html_(),
        markdown_cell_html(BLOCKS),
    ],
    ids=["a transcript", "a cell"],
)
def test_code_blocks_are_boxes_where_a_page_drops_style_sheets(html):
    assert ".nbc-code .k" in html  # coloured where they are kept
    output = nbformat.v4.new_output("display_data", {"text/html": html})
    cell = nbformat.v4.new_code_cell("%%chat\nhi", outputs=[output])
    saved = nbformat.v4.new_notebook(cells=[cell])
    page, _ = HTMLExporter(template_name="basic").from_notebook_node(saved)
    shown = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    boxes = re.findall(r'<pre [^>]*style="([^"]+)"', shown)
    assert len(boxes) == 2
    assert all("border:1px" in box and "background" in box for box in boxes)


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
    # `/again` prints its branch before it asks the model.
    assert agent.ask("again") == ("two words" if command else "ok")
    assert kept.tb


class Displays:
    """What a page shows below a cell: displays in order, by their ids."""

    def __init__(self) -> None:
        self.shown: dict[str, dict[str, Any]] = {}
        self.is_publishing = False

    def publish(self, data, *, transient, update, **_others) -> None:
        name = transient["display_id"]
        assert update is (name in self.shown)
        self.shown[name] = data

    @property
    def texts(self) -> list[str]:
        return [each["text/plain"] for each in self.shown.values()]

    @property
    def button(self) -> Button:
        (model,) = (
            each[VIEW]["model_id"] for each in self.shown.values() if VIEW in each
        )
        from ipywidgets.widgets.widget import _instances

        return _instances[model]


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    shell = InteractiveShell()
    shell.display_pub = Displays()
    shell.kernel = SimpleNamespace(get_parent=dict, _allow_stdin=True)
    shell.run_line_magic("load_ext", "nbchat")
    yield shell
    shell.run_line_magic("unload_ext", "nbchat")
    shell.history_manager.end_session()


def failed(shell: InteractiveShell, *lines: Any, cell: str = "%%chat\nhello") -> Any:
    """The agent after a cell whose first turn failed."""
    shell.run_cell("1 / 0")  # what `%chat fix` asks about
    agent = shell.run_line_magic("chat", "agent")
    agent.use(ScriptedProvider(fails(RequestRefused("no such model")), *lines))
    shell.run_cell(cell)
    return agent


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["%%chat\nhello", "%chat fix"])
def test_a_click_answers_the_message_below_the_failed_cell(shell, cell, capsys):
    agent = failed(shell, says("**Yes.**", tokens=20), cell=cell)
    assert "no such model" in capsys.readouterr().err
    displays = shell.display_pub
    assert HOW_TO_RETRY in displays.texts  # for a page that draws no widgets
    before, session = len(displays.shown), agent.session
    displays.button.click()
    assert len(displays.shown) == before
    assert agent.session is session
    assert session.last_answer == "**Yes.**"
    assert displays.texts[-1].startswith("**Yes.**\n\n")
    assert "<strong>Yes.</strong>" in list(displays.shown.values())[-1]["text/html"]
    assert not any(VIEW in each for each in displays.shown.values())
    assert RETRY_ANSWERED in displays.texts  # the error stays above it
    assert HOW_TO_RETRY not in displays.texts


class BreakingOff(ScriptedProvider):
    """Breaks off in its first answer, then follows the script."""

    has_broken = False

    def stream(self, request: Request, *, stop: Event | None = None) -> ReplyStream:
        if not self.has_broken:
            self.has_broken = True
            yield TextDelta("It is ")
            raise ConnectionFailed("the line broke")
        return (yield from super().stream(request, stop=stop))


@pytest.mark.slow
def test_a_click_also_continues_a_turn_that_broke_in_its_answer(shell):
    agent = shell.run_line_magic("chat", "agent")
    agent.use(BreakingOff(says("It is late.")))
    shell.run_cell("%%chat\nWhere is W1?")
    shell.display_pub.button.click()
    assert agent.session.last_answer == "It is late."


@pytest.mark.slow
def test_the_button_stays_while_the_turn_fails_again(shell):
    again = fails(RequestRefused("still <no> model"))
    agent = failed(shell, again, says("Yes."))
    displays, button = shell.display_pub, shell.display_pub.button
    button.click()
    assert displays.texts[-1] == "still <no> model"
    assert "still &lt;no&gt; model" in list(displays.shown.values())[-1]["text/html"]
    assert not button.disabled
    button.click()
    assert displays.texts[-1].startswith("Yes.")
    assert agent.session.last_answer == "Yes."


@pytest.mark.slow
def test_a_click_after_the_chat_went_on_changes_nothing(shell):
    agent = failed(shell, says("Other."), says("never asked for"))
    button = shell.display_pub.button
    shell.run_cell("%%chat\nanother message")
    said = agent.session.transcript[:]
    button.click()
    told = "The chat has newer messages than this cell. Run the cell again."
    assert told in shell.display_pub.texts
    assert agent.session.transcript[:] == said


@pytest.mark.slow
def test_an_answer_has_no_button(shell):
    agent = shell.run_line_magic("chat", "agent")
    agent.use(ScriptedProvider(says("Yes.")))
    shell.run_cell("%%chat\nhello")
    shell.run_cell("x = 1")
    assert HOW_TO_RETRY not in shell.display_pub.texts


@pytest.mark.slow
@pytest.mark.parametrize("is_kernel", [True, False])
def test_without_widgets_a_line_says_how_to_try_again(shell, capsys, is_kernel):
    shell.kernel = (
        SimpleNamespace(get_parent=dict, _allow_stdin=False) if is_kernel else None
    )
    failed(shell)
    shown = shell.display_pub.texts if is_kernel else capsys.readouterr().out
    assert HOW_TO_RETRY in shown
    assert not any(VIEW in each for each in shell.display_pub.shown.values())


def test_a_kept_transcript_is_written_again_after_each_turn_without_secrets():
    key = "sk-proj-" + "aB3dE6gH9kL2nP5q" * 2
    session = Session([Entry("user", f"My key is {key}. Is *it* fine?")])
    kept, publisher = KeptTranscript(), Publisher()
    kept.write(session)
    assert publisher.calls == []
    kept.begin(publisher, session)
    kept.write(session)
    session.transcript.append(Entry("assistant", "Change it:\n\n```python\nx = 1\n```"))
    kept.write(session)
    (first, is_new), (second, is_update) = publisher.calls
    assert (is_new, is_update) == (False, True)
    assert key not in first["text/html"] + second["text/html"]
    assert "Is *it* fine?" in first["text/html"]
    assert "border:1px" in second["text/html"]


def test_a_kept_transcript_has_at_most_the_newest_200_kb():
    said = [Entry("user", f"Message {n}: " + "words " * 200) for n in range(400)]
    html = kept_html(Session(said))
    assert len(html.encode()) <= 200_000
    assert "Message 399:" in html
    assert "Message 9:" not in html
    assert "Earlier messages aren" in html


def test_a_removed_text_leaves_the_kept_transcript_and_a_file_that_has_it_is_named(
    tmp_path: Path,
):
    session = Session([Entry("user", 'Say "hunter2 & co", please.')])
    kept, publisher, file = KeptTranscript(), Publisher(), tmp_path / "orders.ipynb"
    text = 'hunter2 & co"'
    assert kept.without(text, session, file) == ""
    kept.begin(publisher, session)
    file.write_text(json.dumps({"html": publisher.calls[0][0]["text/html"]}))
    gone = Session([Entry("user", "Say [removed], please.")])
    assert "Save the notebook" in kept.without(text, gone, file)
    assert "hunter2" not in publisher.calls[-1][0]["text/html"]
    assert "Clear the output" in KeptTranscript().without(text, gone, file)
    file.write_text("{}")
    assert kept.without(text, gone, file) == ""
