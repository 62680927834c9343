"""The command /mcp: nothing of a project starts unasked, and calls are approved."""

import json
import sys
from pathlib import Path

import pytest

from nbchat.agent.agent import Agent
from nbchat.agent.approvals import Approvals
from nbchat.chat.commands import Commands
from nbchat.chat.mcp_command import ChatServers
from nbchat.config.layers import settings
from nbchat.errors import NbchatError
from nbchat.storage.store import SessionStore
from nbchat.testing import ScriptedProvider

DESK = str(Path(__file__).parents[1] / "support" / "mcp_desk.py")


def project(folder: Path, file: str = "mcp.json") -> Path:
    server = {"command": sys.executable, "args": [DESK]}
    servers = {"desk": server, "gone": {"command": "/no/such/program"}}
    (folder / file).write_text(json.dumps({"mcpServers": servers}))
    return folder / file


@pytest.fixture
def commands(tmp_path, monkeypatch) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(SessionStore(f"sqlite:///{tmp_path / 'chats.db'}"), settings())


def said(commands: Commands, agent: Agent, line: str) -> str:
    (reply,) = commands(agent, line)
    return reply.text


def test_servers_of_a_project_are_listed_and_none_is_started(commands, tmp_path):
    agent = Agent(ScriptedProvider())
    assert said(commands, agent, "/mcp").startswith("No MCP servers are configured")
    project(tmp_path)
    listed = said(commands, agent, "/mcp")
    assert f"desk  not connected  {sys.executable} {DESK}" in listed
    assert f"({tmp_path / 'mcp.json'})" in listed
    assert agent.tools == ()
    with pytest.raises(NbchatError, match=r"No MCP server named x. Choose one of d"):
        commands(agent, "/mcp x")


@pytest.mark.slow
def test_a_server_is_connected_by_name_and_disconnected_again(commands, tmp_path):
    def lookup() -> str:
        """A tool of the notebook."""

    project(tmp_path)
    agent = Agent(ScriptedProvider(), tools=[lookup])
    fixed = agent.engine.tracker.fixed_tokens
    listed = said(commands, agent, "/mcp desk")
    assert "desk  connected, 4 tools" in listed
    assert "desk__order  Look up an order. (The server says: reads only.)" in listed
    assert [tool.name for tool in agent.tools][:2] == ["lookup", "desk__order"]
    assert isinstance(agent.approve, Approvals)
    assert agent.engine.tracker.fixed_tokens > fixed
    with pytest.raises(NbchatError, match="MCP server 'gone'"):
        commands(agent, "/mcp gone")
    assert "gone  The MCP server 'gone' (/no/such/program) failed" in said(
        commands, agent, "/mcp"
    )
    described = said(commands, agent, "/mcp desk__order")
    assert "Look up an order." in described
    assert '"number":{' in described
    desk, gone = sorted(commands.servers.listed(), key=lambda each: each.name)
    assert [len(desk.tools or ()), gone.tools] == [4, None]
    assert (desk.problem, "/no/such/program" in gone.problem) == ("", True)
    assert said(commands, agent, "/mcp desk") == "Disconnected desk."
    assert [tool.name for tool in agent.tools] == ["lookup"]
    commands.servers.close()


@pytest.mark.slow
def test_the_servers_of_the_setting_are_connected_when_a_chat_begins(tmp_path):
    file = project(tmp_path, "chosen.json")
    servers = ChatServers(lambda: str(file))
    agent = Agent(ScriptedProvider())
    servers.connect_chosen(agent)
    assert agent.tools[0].name == "desk__order"
    servers.close()


def test_an_unreadable_file_of_the_setting_does_not_stop_the_chat(tmp_path, caplog):
    agent = Agent(ScriptedProvider())
    ChatServers(lambda: str(tmp_path / "none.json")).connect_chosen(agent)
    assert "Didn't connect to MCP servers" in caplog.text
    assert agent.tools == ()


@pytest.fixture
def below(tmp_path, monkeypatch) -> Commands:
    """A chat in a folder whose parent has a file with servers."""
    project(tmp_path)
    folder = tmp_path / "work" / "deep"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return Commands(SessionStore(f"sqlite:///{tmp_path / 'chats.db'}"), settings())


def test_a_server_of_a_parent_folder_is_listed_and_needs_a_yes(below, tmp_path):
    agent = Agent(ScriptedProvider())
    file = tmp_path / "mcp.json"
    assert f"({file})" in said(below, agent, "/mcp")
    asked = said(below, agent, "/mcp desk")
    assert asked == (
        f"desk comes from {file}, in a folder above this one. It runs: "
        f"{sys.executable} {DESK}\nIf you trust that file, use /mcp desk yes."
    )
    assert agent.tools == ()
    assert [each.tools for each in below.servers.listed()] == [None, None]


@pytest.mark.slow
def test_a_yes_is_to_the_command_that_was_shown(below, tmp_path):
    agent = Agent(ScriptedProvider())
    assert "runs: " in said(below, agent, "/mcp desk yes")  # not shown before
    file = tmp_path / "mcp.json"
    other = {"mcpServers": {"desk": {"command": sys.executable, "args": ["other.py"]}}}
    shown = file.read_text()
    file.write_text(json.dumps(other))
    assert "runs: " + sys.executable + " other.py" in said(
        below, agent, "/mcp desk yes"
    )
    file.write_text(shown)
    said(below, agent, "/mcp desk")
    assert "desk  connected, 4 tools" in said(below, agent, "/mcp desk yes")
    below.servers.close()


@pytest.mark.slow
def test_a_server_of_the_setting_needs_no_yes_wherever_its_file_is(below, tmp_path):
    servers = ChatServers(lambda: str(tmp_path / "mcp.json"))
    assert "connected" in servers.command(Agent(ScriptedProvider()), "desk")
    servers.close()
