"""%%chat in a real kernel: interrupts, restarts, and what a saved output holds."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernels import Kernel

from nbchat.compaction.memory.memory import TITLES

NEW = """
import os
from IPython import get_ipython
os.environ.clear()
os.environ.update({environment})
get_ipython().run_line_magic("unload_ext", "nbchat")
get_ipython().reset()
"""
"""Ends the chat, is another notebook, and counts cells from 1 again."""

SCRIPT = """
from nbchat.testing import ScriptedProvider, says
agent = %chat agent
agent.use(ScriptedProvider({lines}))
"""

TALK = """
%config NbChat.notebook_context = "outline"
from nbchat.testing import ScriptedProvider, says
orders = {"W100": "late"}
agent = %chat agent
agent.use(ScriptedProvider(says("They are loaded. " * 80), says("<summary>x</summary>")))
agent.ask("Load the orders.")
"""


@pytest.fixture(scope="module")
def started() -> Iterator[Kernel]:
    running = Kernel("shared.ipynb")
    yield running
    running.close()


@pytest.fixture
def kernel(started: Kernel, tmp_path: Path) -> Kernel:
    """A kernel as good as new, which must outlive the test."""
    environment = {**os.environ, "JPY_SESSION_NAME": f"{tmp_path.name}.ipynb"}
    started.run(NEW.format(environment=environment), silent=True)
    assert started.run("%load_ext nbchat") == ""
    return started


@pytest.fixture
def own_kernel(tmp_path: Path) -> Iterator[Kernel]:
    """A kernel that the test may restart."""
    running = Kernel(f"{tmp_path.name}.ipynb")
    assert running.run("%load_ext nbchat") == ""
    yield running
    running.close()


def test_the_interrupt_button_ends_an_answer_and_keeps_what_had_arrived(kernel):
    kernel.run(
        SCRIPT.format(lines="says('word ' * 200, delay_seconds=0.05), says('fine')")
    )
    shown = kernel.run("%%chat\ntell me", interrupt_on="word word word")
    assert shown.count("word") < 200
    assert "Stopped" in shown
    assert "Traceback" not in shown
    kept = kernel.run("agent.session.transcript[-1].is_incomplete")
    assert kept == "True"
    assert kernel.run("%%chat\ngo on").startswith("fine")


def test_a_session_continues_after_the_kernel_was_restarted(own_kernel):
    own_kernel.run("import os; os.environ['OPENAI_API_KEY'] = 'sk-test'")
    own_kernel.run(SCRIPT.format(lines="says('I am well.')"))
    own_kernel.run("%%chat\nhow are you?")
    for line in (
        "/policy token-window",
        "/model openai:gpt-5-mini",
        "/set attempts 7 for session",
        "/set automatic false for session",
        "/set max_output_tokens 900 for openai",
        "/set window 90000 for openai:gpt-5-mini",
    ):
        assert "unknown" not in own_kernel.run(f"%chat {line}")
    state = (
        "agent = %chat agent\nengine = agent.engine\n"
        "(agent.provider.name, engine.policy.name, agent.options['attempts'], "
        "engine.policy.meter, agent.max_output_tokens, engine.tracker.info.window)"
    )
    kept = "('openai:gpt-5-mini', 'token-window', 7, 'off', 900, 90000)"
    assert own_kernel.run(state).endswith(kept)
    own_kernel.restart()
    own_kernel.run("import os; os.environ['OPENAI_API_KEY'] = 'sk-test'")
    own_kernel.run("%load_ext nbchat")
    assert own_kernel.run(state).endswith(kept)  # with all that was set for it
    shown = own_kernel.run("[entry.content for entry in agent.session.transcript]")
    assert shown == "['how are you?', 'I am well.']"


def test_a_failed_turn_shows_one_line_and_no_traceback(kernel):
    shown = kernel.run("%chat /model openai:gpt-5-mini")
    assert "OPENAI_API_KEY" in shown
    assert "Traceback" not in shown
    assert len(shown.strip().splitlines()) == 1


def test_the_panel_shows_itself_in_a_plain_text_form_that_never_changes(kernel):
    assert kernel.run("%chat") == "ChatUI()"


def test_the_last_cell_and_error_are_brought_in_as_the_person_saw_them(kernel):
    kernel.run(SCRIPT.format(lines="says('I see.'), says('I see.')"))
    kernel.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7")
    kernel.run("%%chat\nWhat does @cell do?")
    read = "from nbchat.providers.base import user_text\nprint(user_text({}))"
    shown = kernel.run(read.format("agent.session.transcript[0]"))
    assert shown.endswith("6 * 7\n\nIts output:\nout\nerr\n42\n")
    assert "there is no error" not in kernel.run("print('before')\n1 / 0")
    assert "There's no file gone" in kernel.run("%%chat\nSee @file:gone")
    assert "Attached @error" in kernel.run("%%chat\nWhy @error in @cell:4?")
    shown = kernel.run(read.format("agent.session.transcript[-4]"))
    assert "ZeroDivisionError: division by zero" in shown
    assert "\x1b" not in shown
    shown = kernel.run(read.format("agent.session.transcript[-3]"))
    assert shown.startswith("The cell run as [4]")


def test_a_panel_on_ones_own_agent_attaches_what_is_mentioned(kernel, tmp_path):
    kernel.run(f"import os; os.chdir({str(tmp_path)!r})")
    kernel.run(
        "%load_ext nbchat\nfrom nbchat import Agent, ChatUI\n"
        "from nbchat.testing import ScriptedProvider, says\n"
        "mine = ScriptedProvider(says('ok')); ui = ChatUI(Agent(mine))\n"
        "own = [1, 2, 3]; open('own.txt', 'w').write('outer')"
    )
    kernel.run("ui.ask('see @file:own.txt and @own'); print(ui.wait(50))")
    shown = kernel.run("print([e.tool_name for e in mine.requests[-1].history])")
    assert shown == "['file', 'file', '']\n"


def test_the_line_for_where_there_is_no_panel_is_the_same_in_every_run(kernel):
    first, second = (kernel.outputs("%chat") for _ in range(2))
    assert [sorted(output) for output in first] == [
        ["application/vnd.jupyter.widget-view+json", "text/plain"],
        ["text/html"],
    ]
    assert "%load_ext nbchat\n%chat" in first[1]["text/html"]
    assert first[1] == second[1]


def test_a_summary_knows_what_the_cells_made(kernel):
    kernel.run(TALK)
    kernel.run("orders['W200'] = 'lost'")
    kernel.run("%chat /compact")
    shown = kernel.run("print(agent.session.compaction.summary)")
    line = "- orders: dict of 2 items: {'W100': 'late', 'W200': 'lost'}"
    assert f"{TITLES['variables']}\n{line}\n" in shown
