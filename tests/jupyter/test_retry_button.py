"""*Try again* below a cell whose turn has failed."""

from collections.abc import Iterator
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from ipywidgets import Button

from nbchat.conversation.events import TextDelta
from nbchat.errors import ConnectionFailed, RequestRefused
from nbchat.jupyter.retry_button import ANSWERED, HOW
from nbchat.providers.base import ReplyStream, Request
from nbchat.testing import ScriptedProvider, fails, says

VIEW = "application/vnd.jupyter.widget-view+json"


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


@pytest.mark.parametrize("cell", ["%%chat\nhello", "%chat fix"])
def test_a_click_answers_the_message_below_the_failed_cell(shell, cell, capsys):
    agent = failed(shell, says("**Yes.**", tokens=20), cell=cell)
    assert "no such model" in capsys.readouterr().err
    displays = shell.display_pub
    assert HOW in displays.texts  # for a page that draws no widgets
    before, session = len(displays.shown), agent.session
    displays.button.click()
    assert len(displays.shown) == before
    assert agent.session is session
    assert session.last_answer == "**Yes.**"
    assert displays.texts[-1].startswith("**Yes.**\n\n")
    assert "<strong>Yes.</strong>" in list(displays.shown.values())[-1]["text/html"]
    assert not any(VIEW in each for each in displays.shown.values())
    assert ANSWERED in displays.texts  # the error stays above it
    assert HOW not in displays.texts


class BreakingOff(ScriptedProvider):
    """Breaks off in its first answer, then follows the script."""

    has_broken = False

    def stream(self, request: Request, *, stop: Event | None = None) -> ReplyStream:
        if not self.has_broken:
            self.has_broken = True
            yield TextDelta("It is ")
            raise ConnectionFailed("the line broke")
        return (yield from super().stream(request, stop=stop))


def test_a_click_also_continues_a_turn_that_broke_in_its_answer(shell):
    agent = shell.run_line_magic("chat", "agent")
    agent.use(BreakingOff(says("It is late.")))
    shell.run_cell("%%chat\nWhere is W1?")
    shell.display_pub.button.click()
    assert agent.session.last_answer == "It is late."


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


def test_a_click_after_the_chat_went_on_changes_nothing(shell):
    agent = failed(shell, says("Other."), says("never asked for"))
    button = shell.display_pub.button
    shell.run_cell("%%chat\nanother message")
    said = agent.session.transcript[:]
    button.click()
    told = "the chat has continued since; run the cell again"
    assert told in shell.display_pub.texts
    assert agent.session.transcript[:] == said


def test_an_answer_has_no_button(shell):
    agent = shell.run_line_magic("chat", "agent")
    agent.use(ScriptedProvider(says("Yes.")))
    shell.run_cell("%%chat\nhello")
    shell.run_cell("x = 1")
    assert HOW not in shell.display_pub.texts


@pytest.mark.parametrize("is_kernel", [True, False])
def test_without_widgets_a_line_says_how_to_try_again(shell, capsys, is_kernel):
    shell.kernel = (
        SimpleNamespace(get_parent=dict, _allow_stdin=False) if is_kernel else None
    )
    failed(shell)
    shown = shell.display_pub.texts if is_kernel else capsys.readouterr().out
    assert HOW in shown
    assert not any(VIEW in each for each in shell.display_pub.shown.values())
