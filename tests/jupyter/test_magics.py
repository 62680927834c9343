"""%chat and %%chat in a real IPython shell, and what loading them costs."""

import io
import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from driving import save_when_repaired
from fault_server import FaultServer, OpenAIDialect
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from ipywidgets import DOMWidget

from nbchat.agent.approvals import Approvals
from nbchat.chat.attachments.mentions import Cell
from nbchat.conversation.events import TextDelta
from nbchat.conversation.tools import as_tools
from nbchat.errors import RequestRefused
from nbchat.jupyter.cell_output import Banner
from nbchat.jupyter.kernel_chat import HOW_TO_OPEN_BESIDE, RULES_ANSWER, ShellContents
from nbchat.jupyter.magics import ChatMagics, open_beside
from nbchat.jupyter.panel.protocol import Complete, Completion
from nbchat.providers.base import user_text
from nbchat.providers.tokens import TokenCounter
from nbchat.storage.export import exported
from nbchat.storage.store import SessionStore
from nbchat.testing import Line, ScriptedProvider, calls, fails, says

STORY = "The customer asks about order W100 and its parcel. " * 20

HEAVY = [
    "anthropic",
    "openai",
    "tiktoken",
    "sqlalchemy",
    "ipywidgets",
    "pydantic",
    "httpx2",
    "mcp",
    "acp",
]


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "nbchat")
    yield shell
    shell.run_line_magic("unload_ext", "nbchat")
    shell.history_manager.end_session()


def agent_with(shell: InteractiveShell, *lines: Any) -> Any:
    agent = shell.run_line_magic("chat", "agent")
    agent.use(ScriptedProvider(*lines))
    return agent


@pytest.mark.slow
def test_the_mcp_servers_of_the_setting_are_connected_when_the_chat_begins(
    shell, tmp_path
):
    desk = str(Path(__file__).parents[1] / "support" / "mcp_desk.py")
    servers = {"desk": {"command": sys.executable, "args": [desk]}}
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    shell.run_line_magic("config", f"NbChat.mcp_file = {str(file)!r}")
    agent = shell.run_line_magic("chat", "agent")
    assert "desk__order" in [tool.name for tool in agent.tools]


def run_in_a_fresh_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.slow
def test_loading_is_silent_quick_and_loads_nothing_heavy():
    """Gate P8: under 100 ms in a live kernel; 5 to 40 ms seen on two shared cores."""
    found = json.loads(
        run_in_a_fresh_python(f"""
import json, sys, time
import ipykernel.ipkernel
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
began = time.process_time()
shell.run_line_magic("load_ext", "nbchat")
spent = time.process_time() - began
heavy = [name for name in {HEAVY} if name in sys.modules]
print(json.dumps([spent, heavy]))
""")
    )
    assert found[1] == []
    assert found[0] < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_all_that_is_heavy_is_loaded_while_the_person_types(kind, tmp_path):
    """Gate P9: the first message waits for the server and not for imports."""
    found = json.loads(
        run_in_a_fresh_python(f"""
import json, os, sys, time
sys.path[:] = [each for each in sys.path if not each.endswith("support/children")]
os.environ |= {{"NBCHAT_STORE_URL": "sqlite:///{tmp_path}/chat.db",
    "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}}
sys.path.insert(0, {str(Path(__file__).parents[1] / "support")!r})
from fault_server import AnthropicDialect, FaultServer, OpenAIDialect
from IPython.core.interactiveshell import InteractiveShell
dialect = OpenAIDialect() if {kind!r} == "openai" else AnthropicDialect()
server = FaultServer()
server.script(dialect.text("Hello."))
shell = InteractiveShell.instance()
for line in ("load_ext nbchat", "config NbChat.model = '{kind}:m'",
        "config NbChat.window = 100_000",
        f"config NbChat.base_url = '{{server.url}}/v1'"):
    shell.run_line_magic(*line.split(" ", 1))
panel = shell.run_line_magic("chat", "")
lean = [name for name in {HEAVY} if name in sys.modules]
panel.receive({{"type": "hello"}})
panel.wait()
deadline = time.monotonic() + 60
while panel._runner._agent is None and time.monotonic() < deadline:
    time.sleep(0.01)
before = set(sys.modules)
panel.ask("Hello?")
panel.wait()
late = [name for name in {HEAVY} if name in set(sys.modules) - before]
grammars = "rfc3987_syntax.syntax_helpers" in sys.modules
print(json.dumps([panel.session.transcript[-1].content, lean, late, grammars]))
os._exit(sys.stdout.flush() or 0)
""")
    )
    assert found[0] == "Hello."
    assert kind not in found[1]
    assert found[2] == []
    assert not found[3]  # a second of CPU, needed for schemas of answers alone


def test_importing_nbchat_opens_nothing_and_loads_no_sdk():
    out = run_in_a_fresh_python(
        f"import nbchat, sys; print([m for m in {HEAVY} if m in sys.modules])"
    )
    assert out == "[]\n"


def test_unload_and_reload_leave_no_trace(shell):
    def state() -> tuple[list[str], bool, bool, bool]:
        kinds = [type(part).__name__ for part in shell.configurables]
        magics = shell.magics_manager.magics
        named = (ChatMagics.__name__ in shell.magics_manager.registry,)
        return kinds, "chat" in magics["line"], "chat" in magics["cell"], *named

    loaded = state()
    shell.run_line_magic("reload_ext", "nbchat")
    assert state() == loaded
    shell.run_line_magic("unload_ext", "nbchat")
    kinds, *registered = state()
    assert registered == [False, False, False]
    assert "NbChat" not in kinds
    assert "ChatMagics" not in kinds
    shell.run_line_magic("load_ext", "nbchat")
    assert state() == loaded


def test_a_cell_streams_its_answer_and_the_next_remembers_it(shell, capsys):
    agent = agent_with(shell, says("Hello Ada."), says("Ada."))
    shell.run_cell_magic("chat", "", "I am Ada.\n")
    shell.run_cell_magic("chat", "", "Who am I?\n")
    assert capsys.readouterr().out == "Hello Ada.\nAda.\n"
    assert [e.content for e in agent.provider.requests[-1].history] == [
        "I am Ada.",
        "Hello Ada.",
        "Who am I?",
    ]


ESCAPES = "\x1b]52;c;cm0gLXJm\x07\x9b2J\u202e"
"""What a terminal acts on: fills the clipboard, clears the screen, reverses text."""

RULE = f"Use tabs, {ESCAPES} not spaces."


@pytest.mark.parametrize(
    ("lines", "cells"),
    [
        ([says(f"Hello {ESCAPES}.\r\nBye.")], ["Hi"]),
        ([fails(RequestRefused(f"no {ESCAPES}"))], ["Hi"]),
        ([says("ok")], [f"Hi {ESCAPES}", "/recall Hi", "/history", f"/pin {ESCAPES}"]),
        ([says("ok")], [f"Hi @{ESCAPES}", f"/{ESCAPES}", f"/rules {ESCAPES}"]),
        (
            [says("ok"), says(f'<summary>\n- "{RULE}"\n</summary>')],
            [f"{RULE}\n\n{'Look at this. ' * 200}", "/compact", "/rules"],
        ),
    ],
)
def test_what_a_cell_prints_has_no_control_characters(shell, capsys, lines, cells):
    agent_with(shell, *lines)
    printed = ""
    for text in cells:
        try:
            if text.startswith("/"):
                shell.run_line_magic("chat", text)
            else:
                shell.run_cell_magic("chat", "", text)
        except UsageError as error:
            printed += str(error)
    printed += "".join(capsys.readouterr())
    assert "\ufffd" in printed
    assert not set(printed) & {*ESCAPES} - {*"]52;c;cm0gLXJm2J"}


@pytest.mark.parametrize(
    "prompt",
    ["{x} and ${y}", "it's 100 % 'fun'", '"quotes" \\n back\\slash', "%ls !ls"],
)
def test_a_prompt_reaches_the_model_unchanged(shell, prompt):
    agent = agent_with(shell, says("ok"))
    shell.run_cell_magic("chat", "", f"{prompt}\n")
    assert agent.session.transcript[0].content == prompt


def test_a_compaction_in_a_cell_shows_its_banner(shell, capsys):
    agent = agent_with(shell, says(STORY), says("<summary>A parcel is late.</summary>"))
    shell.run_cell_magic("chat", "", "first")
    shell.run_line_magic("chat", "/compact")
    assert "Compaction occurred" in capsys.readouterr().out
    banner = Banner(agent.session.compaction)
    assert repr(banner).startswith("Compaction occurred")
    assert "A parcel is late." in banner._repr_html_()


@pytest.mark.slow
def test_without_a_key_all_but_an_answer_works(shell, capsys):
    shell.run_line_magic("config", "NbChat.model = 'anthropic:claude-haiku-4-5'")
    panel = shell.run_line_magic("chat", "")
    for line in ("/help", "/settings", "/context", "/sessions"):
        shell.run_line_magic("chat", line)
    assert "/undo" in capsys.readouterr().out
    state = panel._state.snapshot()["state"]
    assert state["phase"] == "ready"
    assert state["problem"].startswith(
        "Anthropic needs an API key. Set ANTHROPIC_API_KEY"
    )
    with pytest.raises(UsageError, match="Anthropic needs an API key"):
        shell.run_cell_magic("chat", "", "hello")
    assert "Anthropic needs an API key" in str(panel._state.snapshot()["items"])
    shell.run_line_magic("chat", "/model local:smollm2")
    shown = panel._state.snapshot()
    assert shown["state"]["model"] == "local:smollm2"
    assert shown["state"]["problem"] == ""
    assert shown["state"]["is_trial"]
    assert "Anthropic needs an API key" not in str(shown["items"])


def test_a_changed_setting_connects_at_once_and_clears_the_old_errors(shell):
    shell.run_line_magic("config", "NbChat.model = 'openai:some-model'")
    panel = shell.run_line_magic("chat", "")
    with pytest.raises(UsageError, match="OpenAI needs an API key"):
        shell.run_cell_magic("chat", "", "hello")
    shell.run_line_magic("config", "NbChat.base_url = 'http://127.0.0.1:9/v1'")
    shown = panel._state.snapshot()
    assert shown["state"]["problem"] == ""
    assert "OpenAI needs an API key" not in str(shown["items"])
    assert "hello" in str(shown["items"])


def test_a_key_that_is_set_later_serves_the_message_that_failed(shell, monkeypatch):
    shell.run_line_magic("config", "NbChat.model = 'openai:some-model'")
    agent = shell.run_line_magic("chat", "agent")
    with pytest.raises(UsageError, match="OpenAI needs an API key"):
        shell.run_cell_magic("chat", "", "hello")
    server = FaultServer()
    server.script(OpenAIDialect().text("Hello."))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
    shell.run_line_magic("chat", "/again")
    assert [e.content for e in agent.session.transcript] == ["hello", "Hello."]


def test_the_session_and_the_agent_can_be_had(shell):
    agent = agent_with(shell, says("hi"))
    shell.run_cell_magic("chat", "", "hello")
    session = shell.run_line_magic("chat", "session")
    assert session is agent.session
    assert session.history[0] == ("user", "hello", "", "", '{"cell": true}')


def test_the_panel_is_one_and_shares_the_conversation(shell):
    panel = shell.run_line_magic("chat", "")
    assert isinstance(panel, DOMWidget)
    assert panel is shell.run_line_magic("chat", "")
    assert panel.agent is shell.run_line_magic("chat", "agent")


def refund(order: str) -> str:
    """Give money back."""
    return f"{order} refunded"


@pytest.fixture
def own_shell() -> Iterator[InteractiveShell]:
    """The shell of this process, as that of a kernel; nbchat isn't loaded."""
    yield InteractiveShell.instance()
    InteractiveShell.instance().history_manager.end_session()
    InteractiveShell.clear_instance()


def test_opened_beside_the_notebook_it_is_the_chat_of_cells(own_shell, capsys):
    before = set(own_shell.user_ns)
    model_id = open_beside()
    assert open_beside() == model_id
    own_shell.run_line_magic("chat", "").close()
    closed, model_id = model_id, open_beside()
    assert model_id not in (closed, "None")
    assert set(own_shell.user_ns) == before
    own_shell.run_line_magic("load_ext", "nbchat")
    assert capsys.readouterr() == ("", "")
    assert own_shell.run_line_magic("chat", "").model_id == model_id
    own_shell.run_line_magic("chat", "side")
    assert capsys.readouterr().out == f"{HOW_TO_OPEN_BESIDE}\n"
    own_shell.run_line_magic("unload_ext", "nbchat")


def test_a_cells_call_waits_in_the_panel_whenever_approvals_were_set(shell):
    panel = shell.run_line_magic("chat", "")
    agent = agent_with(shell, calls("refund", order="W1"), says("Done."))
    assert panel.agent is agent
    shown: list[str] = []

    def deny(waiting):
        state = panel._state.snapshot()["state"]
        shown.extend(each["tool"] for each in state["waiting"])
        if waiting:
            waiting[0].deny()

    agent.approve = Approvals(listener=deny)
    agent.tools = as_tools([refund])
    shell.run_cell_magic("chat", "", "Refund W1")
    assert shown == ["refund"]
    assert agent.session.last_answer == "Done."


@pytest.mark.parametrize(
    ("has_panel", "where"),
    [(True, "Answer in the chat panel"), (False, "No chat panel is open")],
)
def test_a_cell_says_which_call_waits_and_where(shell, capsys, has_panel, where):
    if has_panel:
        shell.run_line_magic("chat", "")
    agent = agent_with(shell, calls("refund", order="W1"), says("Done."))
    agent.tools = as_tools([refund])
    agent.approve = Approvals(listener=lambda waiting: waiting and waiting[0].deny())
    shell.run_cell_magic("chat", "", "Refund W1")
    assert f"refund is waiting for your approval. {where}" in capsys.readouterr().out


def test_the_panel_streams_a_cells_turn_and_its_stop_ends_it(shell, capsys):
    def stop(_request):
        shown.append(panel._state.snapshot())
        panel.receive({"type": "stop", "token": "click-1"})
        return says("never seen")

    shown: list[dict[str, Any]] = []
    panel = shell.run_line_magic("chat", "")
    agent = agent_with(shell, stop, says("fine"))
    shell.run_cell_magic("chat", "", "hello from a cell")
    assert shown[0]["state"]["is_busy"]
    assert "hello from a cell" in str(shown[0]["items"])
    assert agent.session.last_answer == ""
    assert not panel.is_busy
    shell.run_cell_magic("chat", "", "again")
    assert capsys.readouterr().out == "fine\n"
    assert "fine" in str(panel._state.snapshot()["items"])


def test_an_interrupted_cell_leaves_what_had_arrived_in_the_panel(shell, capsys):
    def interrupt(event):
        if isinstance(event, TextDelta):
            raise KeyboardInterrupt

    panel = shell.run_line_magic("chat", "")
    agent = agent_with(shell, says("one two three"), says("fine"))
    agent.listener = interrupt
    shell.run_cell_magic("chat", "", "count")
    agent.listener = None
    assert "Stopped" in capsys.readouterr().out
    state = panel._state.snapshot()
    assert "one" in str(state["items"])
    assert "one" not in str(state["live"])
    assert not panel.is_busy


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/resume nope", "no session 'nope'"),
        ("/model gpt-5", "has no provider"),
        ("/threshold 1", "alone"),
    ],
)
def test_bad_lines_are_one_line_without_a_traceback(shell, line, said):
    with pytest.raises(UsageError, match=said):
        shell.run_line_magic("chat", line)


@pytest.mark.slow
def test_a_compaction_in_parts_says_in_a_line_how_far_it_has_come(shell, capsys):
    agent = agent_with(shell)
    agent.use(ScriptedProvider(*[says(STORY * 5)] * 3, window=20_000))
    for text in ("first", "second", "third"):
        shell.run_cell_magic("chat", "", text)
    told = says("<summary>A parcel is late.</summary>")
    agent.use(ScriptedProvider(*[told] * 9, window=2_000))
    shell.run_line_magic("chat", "/compact")
    assert "part 1 of" in capsys.readouterr().out
    assert agent.session.compaction.note.startswith("Summarized in ")


def test_a_failed_turn_is_one_line_and_the_chat_continues(shell, capsys):
    agent_with(
        shell, fails(RequestRefused("openai has no model 'gpt-x'")), says("back")
    )
    with pytest.raises(UsageError, match="no model 'gpt-x'"):
        shell.run_cell_magic("chat", "", "hello")
    shell.run_cell_magic("chat", "", "again")
    assert capsys.readouterr().out == "back\n"


def test_an_interrupt_ends_the_turn_in_one_line_and_the_chat_continues(shell, capsys):
    def interrupted(request):
        raise KeyboardInterrupt

    agent = agent_with(shell, interrupted, says("fine"))
    shell.run_cell_magic("chat", "", "hello")
    assert "Stopped" in capsys.readouterr().out
    shell.run_cell_magic("chat", "", "again")
    assert agent.session.last_answer == "fine"


@pytest.mark.parametrize("cell", [None, "hello from a cell"])
def test_a_cell_leaves_the_stop_of_the_panels_turn_alone(shell, cell):
    def answer(request: object) -> Line:
        begun.set()
        assert gate.wait(60)
        return calls("refund", order="W1")

    begun, gate, asked = threading.Event(), threading.Event(), threading.Event()
    agent = agent_with(shell, answer, says("never asked for"))
    agent.tools = as_tools([refund])
    agent.approve = Approvals(listener=lambda _waiting: asked.set())
    panel = shell.run_line_magic("chat", "")
    panel.ask("refund W1")
    assert begun.wait(60)
    if cell is None:
        shell.run_line_magic("chat", "/help")
    else:
        with pytest.raises(UsageError, match="already answering"):
            shell.run_cell_magic("chat", "", cell)
    gate.set()
    assert asked.wait(60)
    panel.stop()
    assert panel.wait(60)
    assert agent.session.transcript[-1].content == "error: stopped before it ran"


def test_changed_settings_count_from_the_next_turn_and_keep_the_conversation(shell):
    agent_with(shell, says("one"))
    shell.run_cell_magic("chat", "", "first")
    shell.run_line_magic("config", "NbChat.context_token_threshold = 4321")
    agent = shell.run_line_magic("chat", "agent")
    assert agent.engine.context_token_threshold == 4_321
    assert [e.content for e in agent.session.transcript] == ["first", "one"]


def test_fix_asks_about_the_last_error_and_attaches_its_traceback(shell, capsys):
    agent = agent_with(shell, says("Divide by something else."))
    shell.run_cell("total = 1 / 0")
    capsys.readouterr()
    shell.run_line_magic("chat", "fix")
    assert "Divide by something else." in capsys.readouterr().out
    [request] = agent.provider.requests
    attached, asked = request.history
    assert "ZeroDivisionError: division by zero" in user_text(attached)
    assert "What went wrong here, and how do I fix it?" in asked.content


def test_fix_says_in_a_line_that_nothing_has_failed(shell):
    agent = agent_with(shell, says("never said"))
    with pytest.raises(UsageError, match="No cell has failed in this kernel"):
        shell.run_line_magic("chat", "fix")
    assert agent.provider.requests == []


@pytest.mark.slow
def test_a_log_begins_with_the_next_turn_and_holds_all_that_was_said(shell, tmp_path):
    agent = agent_with(shell, says("one"), says("two"), says("three"))
    shell.run_cell_magic("chat", "", "first")
    shell.run_line_magic("config", f"NbChat.log_folder = '{tmp_path / 'logs'}'")
    shell.run_cell_magic("chat", "", "second")
    [file] = (tmp_path / "logs").iterdir()
    logged = file.read_text(encoding="utf-8")
    assert logged == exported(agent.session, "md")
    assert "first" in logged
    shell.run_line_magic("config", "NbChat.log_folder = ''")
    shell.run_cell_magic("chat", "", "third")
    assert file.read_text(encoding="utf-8") == logged


def test_a_setting_that_is_changed_leaves_what_was_chosen_for_this_chat(shell):
    agent = agent_with(shell, calls("refund", order="W1"), says("done"))
    agent.tools, agent.approve = as_tools([refund]), Approvals(free=["refund"])
    provider, approve = agent.provider, agent.approve
    shell.run_line_magic("chat", "/policy recent-messages")
    shell.run_line_magic("chat", "/policy single-summary")
    shell.run_line_magic("chat", "/threshold 4321")
    for setting in (
        "log_folder = ''",
        "notifications = False",
        "max_steps = 4",
        "recall = True",
        "tokenizer = 'characters'",
        "notebook_context = 'off'",
        "system_prompt = 'Be fair.'",
        "store_url = 'sqlite://'",
        "summary_prompt = 'Sum up.'",
    ):
        shell.run_line_magic("config", f"NbChat.{setting}")
        agent = shell.run_line_magic("chat", "agent")
        assert (agent.provider, agent.approve) == (provider, approve), setting
        assert agent.tools[0].name == "refund", setting
        assert agent.engine.policy.name == "single-summary", setting
        assert agent.engine.context_token_threshold == 4_321, setting
    shell.run_line_magic("chat", "/policy auto")
    assert agent.engine.policy.name == "auto"
    shell.run_cell_magic("chat", "", "refund W1")
    assert agent.session.last_answer == "done"


def test_every_setting_that_is_changed_counts_at_once(shell):
    agent = agent_with(shell, says("one"))
    panel = shell.run_line_magic("chat", "")
    engine = agent.engine
    for line in (
        "notifications = False",
        "max_steps = 4",
        "tokenizer = 'characters'",
        "notebook_context = 'off'",
        "system_prompt = 'Be fair.'",
        "recall = True",
    ):
        shell.run_line_magic("config", f"NbChat.{line}")
    assert not panel.notifies
    assert (agent.max_steps, agent.system) == (4, "Be fair.")
    assert engine.tracker.counter.count("four") == TokenCounter("characters").count(
        "four"
    )
    assert engine.live_variables is None
    assert [each.name for each in agent.tools] == ["recall"]
    shell.run_line_magic("config", "NbChat.recall = False")
    assert agent.tools == ()


@pytest.mark.slow
def test_a_system_prompt_that_fills_the_window_is_refused(shell, caplog):
    agent = agent_with(shell)
    before = agent.system
    shell.run_line_magic("chat", "/threshold 2000")
    shell.run_line_magic("config", f"NbChat.system_prompt = {'word ' * 3_000!r}")
    assert "alone" in caplog.text
    assert agent.system == before


def test_another_server_or_model_is_asked_from_then_on(shell, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    url = "http://127.0.0.1:1/v1"
    agent = agent_with(shell, says("one"))
    shell.run_cell_magic("chat", "", "first")
    for line in (
        "window = 9_000",
        "model = 'openai:llama3'",
        "summary_model = 'openai:small'",
        f"base_url = '{url}'",
    ):
        shell.run_line_magic("config", f"NbChat.{line}")
    assert agent is shell.run_line_magic("chat", "agent")
    assert (agent.provider.name, agent.provider.endpoint.url) == ("openai:llama3", url)
    assert agent.engine.summary_model.endpoint.url == url
    assert agent.engine.tracker.info.window == 9_000
    shell.run_line_magic("config", "NbChat.model = 'local:smollm2'")
    assert agent.provider.name == "local:smollm2"
    assert agent.session.last_answer == "one"


def test_what_could_not_be_saved_is_saved_after_a_setting_was_changed(shell, tmp_path):
    agent = agent_with(shell, says("one"), says("two"), says("three"))
    shell.run_cell_magic("chat", "", "first")
    file = shell.run_line_magic("chat", "agent").autosave._progress.store.location
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("PRAGMA busy_timeout = 1")
        other.execute("ALTER TABLE chat_messages RENAME TO elsewhere")
        shell.run_cell_magic("chat", "", "second")
        other.execute("ALTER TABLE elsewhere RENAME TO chat_messages")
    shell.run_line_magic("config", "NbChat.recall = True")
    shell.run_cell_magic("chat", "", "third")
    save_when_repaired(agent.autosave)
    kept = SessionStore(f"sqlite:///{file}").load(agent.session.session_id)
    assert kept.transcript == agent.session.transcript


def test_a_setting_that_cannot_work_is_refused_when_it_is_set(shell, caplog):
    agent_with(shell, says("one"), says("two"))
    shell.run_cell_magic("chat", "", "first")
    shell.run_line_magic("config", "NbChat.policy = 'tierd'")
    assert "policy can't be 'tierd'. Choose one of" in caplog.text
    shell.run_cell_magic("chat", "", "second")


def test_a_setting_that_was_refused_is_what_it_was_and_can_be_said_again(
    shell, monkeypatch, caplog
):
    agent = agent_with(shell, says("one"))
    line = "NbChat.model = 'anthropic:claude-haiku-4-5'"
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    shell.run_line_magic("config", line)
    assert "ANTHROPIC_API_KEY" in caplog.text
    assert agent.provider.name != "anthropic:claude-haiku-4-5"
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    shell.run_line_magic("config", line)
    assert agent.provider.name == "anthropic:claude-haiku-4-5"


def test_a_setting_that_is_changed_while_the_chat_is_made_counts(shell):
    panel = shell.run_line_magic("chat", "")
    making = threading.Thread(target=lambda: panel.agent)
    making.start()
    time.sleep(0.01)
    shell.run_line_magic("config", "NbChat.max_steps = 3")
    assert shell.run_line_magic("chat", "agent").max_steps == 3
    making.join()


def test_a_command_that_fails_leaves_panel_and_agent_in_one_session(shell):
    bad = fails(RequestRefused("bad"))
    agent = agent_with(shell, says("one"), bad, says("two"))
    shell.run_cell_magic("chat", "", "first")
    panel = shell.run_line_magic("chat", "")
    with pytest.raises(UsageError, match="bad"):
        shell.run_line_magic("chat", "/again first, otherwise")
    assert panel.session is agent.session
    assert "first, otherwise" in str(panel._state.snapshot()["items"])


@pytest.mark.slow
def test_after_a_restart_the_notebook_continues_its_session(shell, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "work/notes.ipynb")
    agent_with(shell, says("one"))
    shell.run_cell_magic("chat", "", "first")
    restarted = InteractiveShell()
    restarted.run_line_magic("load_ext", "nbchat")
    session = restarted.run_line_magic("chat", "session")
    assert [e.content for e in session.transcript] == ["first", "one"]
    monkeypatch.setenv("JPY_SESSION_NAME", "work/other.ipynb")
    other = InteractiveShell()
    other.run_line_magic("load_ext", "nbchat")
    assert other.run_line_magic("chat", "session").transcript == []


def test_a_broken_store_is_reported_and_the_chat_continues(
    shell, monkeypatch, tmp_path, capsys
):
    broken = tmp_path / "sessions.db"
    broken.write_text("this is a diary, not a database. " * 100)
    monkeypatch.setenv("JPY_SESSION_NAME", "notes.ipynb")
    monkeypatch.setenv("NBCHAT_STORE_URL", f"sqlite:///{broken}")
    shell.run_line_magic("reload_ext", "nbchat")
    agent_with(shell, says("Hello."))
    shell.run_cell_magic("chat", "", "hi")
    shown = capsys.readouterr()
    assert shown.out == "Hello.\n"
    assert "isn't a database" in shown.err
    assert broken.read_text().startswith("this is a diary")


def test_a_bad_setting_is_reported_when_the_extension_is_loaded(monkeypatch):
    monkeypatch.setenv("NBCHAT_MAX_STEPS", "a few")
    with pytest.raises(UsageError, match="a few"):
        ChatMagics(InteractiveShell())


def test_what_is_printed_without_a_kernel_is_the_answer_as_it_is(shell, capsys):
    code = "```\n" + "x = [" + "1, " * 60 + "]\n```\n"
    agent_with(shell, says("word " * 40 + "\n" + code + "done"))
    shell.run_cell_magic("chat", "", "write")
    assert capsys.readouterr().out == "word " * 40 + f"\n{code}done\n"


def sent(agent: Any) -> list[str]:
    """What the model read of the newest request."""
    return [user_text(entry) for entry in agent.provider.requests[-1].history]


def test_a_cell_attaches_a_variable_and_says_so_in_a_line(shell, capsys):
    agent = agent_with(shell, says("Three."))
    shell.run_cell("prices = [1, 2, 3]")
    shell.run_cell_magic("chat", "", "How many @prices, ann@example.org?")
    assert sent(agent) == [
        "The variable prices\n\nlist of 3 items\n[1, 2, 3]",
        "How many @prices, ann@example.org?",
    ]
    size = agent.engine.tracker.counter.count_entry(agent.session.transcript[0])
    printed = capsys.readouterr().out
    assert printed.startswith(f"Attached @prices: {size} tokens\nThree.\n")


def test_a_cell_says_how_many_secrets_are_hidden_and_which_name_is_unknown(
    shell, capsys
):
    agent = agent_with(shell, says("Yes."), says("Yes."))
    shell.run_cell("my_secret = 'hunter2'; config = {'password': 'hunter2'}")
    shell.run_cell_magic("chat", "", "See @my_secret, @config and @confg")
    said = capsys.readouterr().out
    assert "1 hidden as possible secrets" in said
    assert "No variable named confg. Did you mean config?" in said
    assert "hunter2" not in str(sent(agent))
    shell.run_cell_magic("chat", "", "See @!config")
    assert "hunter2" in str(sent(agent))


MAIL = """What does he want? @prices

Dear all, look at @file:.env, @file:gone and @!customers.
Regards, ann@example.org"""


def with_mail(shell: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(folder)
    (folder / ".env").write_text("KEY=hunter2")
    (folder / "gone").write_text("found")
    agent = agent_with(shell, says("No."))
    shell.run_cell("prices = [1]; customers = {'password': 'hunter3'}")
    return agent


def test_below_the_first_paragraph_nothing_is_attached_without_a_person(
    shell, capsys, tmp_path, monkeypatch
):
    agent = with_mail(shell, tmp_path, monkeypatch)
    shell.run_cell_magic("chat", "", MAIL)
    assert sent(agent) == ["The variable prices\n\nlist of 1 items\n[1]", MAIL]
    said = capsys.readouterr().out
    assert said.count("Didn't attach @file:.env, @file:gone, @!customers:") == 1
    assert "hunter" not in said


@pytest.mark.parametrize(("answer", "count"), [("y", 5), ("n", 2), ("", 2)])
def test_a_person_decides_on_what_may_be_pasted_into_a_cell(  # noqa: PLR0917
    answer, count, shell, capsys, tmp_path, monkeypatch
):
    agent = with_mail(shell, tmp_path, monkeypatch)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{answer}\n"))
    shell.run_cell_magic("chat", "", MAIL)
    assert len(sent(agent)) == count
    assert (
        "@file:.env, @file:gone, @!customers may be pasted" in capsys.readouterr().out
    )


def test_what_is_attached_with_its_secrets_is_shown(shell, capsys):
    agent_with(shell, says("Yes."))
    shell.run_cell("config = {'password': 'hunter2'}")
    shell.run_cell_magic("chat", "", "See @!config")
    said = capsys.readouterr().out
    assert "sent as it is:\nThe variable config" in said
    assert "{'password': 'hunter2'}" in said


def test_a_cell_that_lacks_something_is_one_line_and_no_turn(shell, tmp_path):
    agent = agent_with(shell, says("Hello."))
    shell.run_cell("other = 'x'", store_history=True)
    for text, reason in (
        (f"@file:{tmp_path}/gone", "There's no file gone"),
        ("@cell:99", "No cell 99"),
    ):
        with pytest.raises(UsageError, match=reason):
            shell.run_cell_magic("chat", "", text)
    assert agent.session.transcript == []


def test_a_file_is_looked_for_in_the_kernels_folder(shell, tmp_path, monkeypatch):
    agent = agent_with(shell, says("Yes."))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("buy milk")
    shell.run_cell_magic("chat", "", "Read @file:notes.txt")
    assert sent(agent)[0] == "The file notes.txt\n\nbuy milk"


def test_the_panel_knows_the_notebook_and_the_commands(shell):
    agent_with(shell)
    shell.run_cell("prices = [1]")
    panel = shell.run_line_magic("chat", "")
    offered = panel._queries.answer(panel.agent, Complete("t"))
    assert Completion("prices", "list") in offered.names
    assert "policy" in [each.name for each in offered.commands]


class FormerHistory:
    """What IPython before 9 remembers: sources and values, no texts."""

    input_hist_raw = ("", "1 + 1", "x = 1")
    output_hist: ClassVar = {1: 2}


def test_an_ipython_that_keeps_no_outputs_tells_the_value_of_a_cell():
    contents = ShellContents(SimpleNamespace(history_manager=FormerHistory()))
    assert contents.cell(1) == Cell(1, "1 + 1", "2")
    assert contents.cell(None) == Cell(2, "x = 1", "")


def test_an_ipython_that_keeps_no_tracebacks_tells_the_last_error(monkeypatch):
    former = SimpleNamespace(
        history_manager=FormerHistory(), user_ns={}, user_ns_hidden={}, compile=None
    )
    contents = ShellContents(former)
    monkeypatch.delattr(sys, "last_value", raising=False)
    assert contents.error() == ""
    monkeypatch.setattr(sys, "last_value", UsageError("no"), raising=False)
    assert contents.error() == ""
    monkeypatch.setattr(sys, "last_value", KeyError("x"), raising=False)
    assert contents.error().startswith("KeyError: 'x'\n")


def test_a_shell_without_a_history_has_no_cells():
    contents = ShellContents(SimpleNamespace(history_manager=None))
    assert contents.cell(1) is None
    assert contents.cell(None) is None


def run_as_cell(
    shell: InteractiveShell, cell_id: str, text: str, line: str = ""
) -> None:
    """Run a %%chat cell, as JupyterLab does with its id."""
    parent = {"metadata": {"cellId": cell_id}}
    shell.kernel = SimpleNamespace(get_parent=lambda: parent)
    shell.run_cell_magic("chat", line, text)


def test_the_package_name_is_a_magic_too_until_it_is_unloaded(shell):
    magic = shell.find_line_magic("nbchat")
    assert "%chat /help lists them" in magic.__doc__
    assert shell.run_line_magic("nbchat", "session") is not None
    shell.run_line_magic("unload_ext", "nbchat")
    assert shell.find_line_magic("nbchat") is None


def test_a_cell_that_is_run_again_replaces_its_turn_and_says_so(shell, capsys):
    agent = agent_with(shell, *map(says, ("One.", "Two.", "Uno.", "Dos.", "Extra.")))
    run_as_cell(shell, "a", "first")
    run_as_cell(shell, "b", "second")
    before = agent.session
    capsys.readouterr()
    run_as_cell(shell, "a", "first")
    assert "The original stays in your sessions. /resume" in capsys.readouterr().out
    run_as_cell(shell, "b", "second, changed")
    said = [entry.content for entry in agent.session.transcript]
    assert said == ["first", "Uno.", "second, changed", "Dos."]
    assert [e.content for e in before.transcript] == ["first", "One.", "second", "Two."]
    run_as_cell(shell, "b", "more", "add")
    assert agent.session.last_answer == "Extra."
    assert len(agent.session.transcript) == 6


def test_a_cell_that_failed_is_tried_again_in_the_same_session(shell):
    agent = agent_with(shell, fails(RequestRefused("no such model")), says("Yes."))
    with pytest.raises(UsageError, match="no such model"):
        run_as_cell(shell, "a", "hello")
    session = agent.session
    run_as_cell(shell, "a", "hello")
    assert agent.session is session
    assert [entry.content for entry in session.transcript] == ["hello", "Yes."]


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    (tmp_path / "project" / "AGENTS.md").write_text("Be \x1b[2Jbrief.\nUse tabs.")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def test_a_cell_shows_rules_of_the_project_once_and_sends_them_after_a_yes(
    shell, project, capsys
):
    agent = agent_with(shell, says("One."), says("Two."), says("Three."))
    shell.run_cell_magic("chat", "", "Hello.")
    assert capsys.readouterr().out.splitlines()[:4] == [
        "AGENTS.md in this project has rules for the model:",
        "    Be \\u001b[2Jbrief.",
        "    Use tabs.",
        RULES_ANSWER,
    ]
    shell.run_cell_magic("chat", "", "Hello?")
    assert "AGENTS.md" not in capsys.readouterr().out
    shell.run_line_magic("chat", "/rules use")
    assert "apply from your next message" in capsys.readouterr().out
    shell.run_cell_magic("chat", "", "Hello!")
    assert "[Rules from the file AGENTS.md. They hold" in capsys.readouterr().out
    *before, last = agent.provider.requests
    sent = [[e.is_rules for e in request.history] for request in before]
    assert not any(map(any, sent))
    assert "Use tabs." in user_text(last.history[-2])


def test_of_long_rules_a_cell_shows_the_beginning_and_a_yes_needs_the_rest(
    shell, project, capsys
):
    lines = [f"Rule {number}." for number in range(50)]
    (project / "AGENTS.md").write_text("\n".join(lines))
    agent = agent_with(shell, says("One."), says("Two."))
    shell.run_cell_magic("chat", "", "Hello.")
    printed = capsys.readouterr().out
    assert (
        "    Rule 19.\n    … 30 more lines: %chat /rules\nThey aren't used yet"
        in printed
    )
    shell.run_line_magic("chat", "/rules use")
    assert "Rule 49.\n\nTo use these rules, run /rules use" in capsys.readouterr().out
    shell.run_line_magic("chat", "/rules use")
    shell.run_cell_magic("chat", "", "Hello!")
    assert [each.is_rules for each in agent.session.transcript].count(True) == 1


def test_a_link_out_of_the_project_is_one_line_and_the_cell_is_answered(
    shell, project, capsys
):
    (project / "AGENTS.md").unlink()
    (project / "AGENTS.md").symlink_to("/etc/passwd")
    agent_with(shell, says("One."))
    shell.run_cell_magic("chat", "", "Hello.")
    printed = capsys.readouterr().out
    line = f"AGENTS.md isn't used: it's a link to a file outside of {project}."
    assert printed.splitlines()[0] == line
    assert "One." in printed
    assert "root:" not in printed


def test_the_panel_offers_rules_before_the_first_message_and_the_setting_ends_that(
    shell, project
):
    panel = shell.run_line_magic("chat", "")
    panel.receive({"type": "hello"})
    assert panel.wait(60)
    agent = shell.run_line_magic("chat", "agent")
    agent.use(ScriptedProvider(says("One.")))

    def cards() -> list[str]:
        items = panel._state.snapshot()["items"]
        return [each["html"] for each in items if "nbc-rules" in each["html"]]

    assert len(cards()) == 1
    shell.run_line_magic("config", "NbChat.rules_files = False")
    assert cards() == []
    shell.run_line_magic("config", "NbChat.rules_files = True")
    panel.ask("/rules use")
    assert panel.wait(60)
    assert cards() == []
    panel.ask("Hello")
    assert panel.wait(60)
    assert agent.session.transcript[0].is_rules


def test_a_panel_that_opens_later_offers_what_a_cell_has_shown(shell, project):
    agent_with(shell, says("One."))
    shell.run_cell_magic("chat", "", "Hello.")
    panel = shell.run_line_magic("chat", "")
    items = panel._state.snapshot()["items"]
    assert sum("nbc-rules" in each["html"] for each in items) == 1


@pytest.mark.slow
def test_run_all_after_a_restart_has_each_turn_once_and_names_another_model(
    shell, capsys, monkeypatch
):
    monkeypatch.setenv("JPY_SESSION_NAME", "work/notes.ipynb")
    agent_with(shell, says("One."), says("Two."))
    run_as_cell(shell, "a", "first")
    run_as_cell(shell, "b", "second")
    restarted = InteractiveShell()
    restarted.run_line_magic("load_ext", "nbchat")
    capsys.readouterr()
    agent = agent_with(restarted, says("Uno."), says("Dos."))
    told = capsys.readouterr().out
    assert "This chat used scripted:model before. Your settings now say local:" in told
    run_as_cell(restarted, "a", "first")
    run_as_cell(restarted, "b", "second")
    said = [each.content for each in agent.session.transcript]
    assert said == ["first", "Uno.", "second", "Dos."]
    restarted.run_line_magic("unload_ext", "nbchat")
