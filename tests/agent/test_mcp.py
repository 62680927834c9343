"""MCP servers, real ones in processes of their own, over stdio and HTTP."""

import base64
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ports import free_port
from refusing_server import png

from nbchat.agent.agent import Agent
from nbchat.agent.mcp import McpServer, McpServers, read_servers, servers_of
from nbchat.conversation.events import EntryAdded, TurnFinished
from nbchat.errors import ConfigError, NbchatError
from nbchat.providers.base import image_of
from nbchat.testing import ScriptedProvider, calls, says

DESK = str(Path(__file__).parents[1] / "support" / "mcp_desk.py")
MISSING = McpServer("missing", "/no/such/program")

pytestmark = pytest.mark.slow


def desk_server(name: str = "desk", *args: str) -> McpServer:
    return McpServer(name, sys.executable, (DESK, *args))


@pytest.fixture(scope="module")
def servers() -> Iterator[McpServers]:
    with McpServers(
        [desk_server(), MISSING], trust={"desk"}, call_seconds=30
    ) as connected:
        yield connected


def results(agent: Agent, text: str) -> list[str]:
    events = list(agent.run(text))
    assert isinstance(events[-1], TurnFinished)
    added = [event.entry for event in events if isinstance(event, EntryAdded)]
    return [entry.content for entry in added if entry.role == "tool"]


def test_a_server_that_cannot_start_is_one_line_and_the_others_work(servers):
    assert list(servers.connected) == ["desk"]
    assert "'missing' (/no/such/program)" in servers.problems["missing"]
    assert "\n" not in servers.problems["missing"]


def test_tools_are_named_after_their_server_and_say_what_it_claims(servers):
    tools = {tool.name: tool for tool in servers.tools}
    assert list(tools) == [
        f"desk__{each}" for each in ("order", "cancel", "crash", "pause")
    ]
    assert tools["desk__order"].description == (
        "Look up an order.\n(The server says: reads only.)"
    )
    assert "destructive" in tools["desk__cancel"].description
    assert tools["desk__order"].parameters["required"] == ["number"]


def test_a_turn_calls_a_server_and_its_errors_are_results(servers):
    script = [
        calls("desk__order", number="W1"),
        calls("desk__order", number="W1", detail=" by sea"),
        calls("desk__order", count=1),
        calls("desk__cancel", number="W1"),
        says("Done."),
    ]
    agent = Agent(ScriptedProvider(*script), tools=servers.tools)
    found = results(agent, "Where is W1?")
    assert found[:2] == ["W1 was shipped on May 3", "W1 was shipped on May 3 by sea"]
    assert "validation error" in found[2]
    assert "Error executing tool cancel" in found[3]


def test_a_read_only_claim_does_not_skip_the_approval(servers):
    asked = []
    agent = Agent(
        ScriptedProvider(calls("desk__order", number="W1"), says("No.")),
        tools=servers.tools,
        approve=lambda call: bool(asked.append(call.tool_name)),
    )
    (denied,) = results(agent, "Where is W1?")
    assert asked == ["desk__order"]
    assert "shipped" not in denied


@pytest.fixture(scope="module")
def untrusted() -> Iterator[McpServers]:
    with McpServers([desk_server()], call_seconds=30) as connected:
        yield connected


def test_an_agent_that_asks_nobody_is_refused_tools_that_may_change_something(
    untrusted,
):
    with pytest.raises(ConfigError) as refused:
        Agent(ScriptedProvider(), tools=untrusted.tools)
    assert str(refused.value) == (
        "The tool desk__cancel of the MCP server 'desk' may change something. Pass "
        "approve=Approvals() to Agent, or trust the server: "
        "McpServers(..., trust={'desk'})."
    )
    agent = Agent(ScriptedProvider())
    with pytest.raises(ConfigError, match="desk__cancel"):
        agent.tools = tuple(untrusted.tools)
    assert agent.tools == ()


def test_tools_that_only_read_need_no_approve(untrusted):
    reading = [each for each in untrusted.tools if each.name == "desk__order"]
    script = ScriptedProvider(calls("desk__order", number="W1"), says("There."))
    assert results(Agent(script, tools=reading), "Where?") == [
        "W1 was shipped on May 3"
    ]


def test_a_call_runs_for_nobody_when_approve_is_taken_away_later(untrusted):
    script = ScriptedProvider(calls("desk__cancel", number="W1"), says("No."))
    agent = Agent(script, tools=untrusted.tools, approve=True)
    agent.approve = None
    (line,) = results(agent, "Cancel.")
    assert "needs approval" in line


def test_trust_is_a_set_of_names():
    with pytest.raises(ConfigError, match="isn't a set of names"):
        McpServers(trust="desk")


def test_a_server_that_dies_is_one_line_and_the_turn_continues():
    with McpServers([desk_server()], trust={"desk"}) as connected:
        script = [calls("desk__crash"), calls("desk__order", number="W1"), says("Bye.")]
        agent = Agent(ScriptedProvider(*script), tools=connected.tools)
        found = results(agent, "Crash.")
    for line in found:
        assert "MCP server 'desk'" in line
        assert "closed" in line
        assert "\n" not in line


def test_a_call_without_an_answer_ends_after_its_time_and_its_process_with_the_chat(
    tmp_path,
):
    pid_file = tmp_path / "pid"
    desk = desk_server("desk", str(pid_file))
    connected = McpServers([desk], trust=["desk"], call_seconds=0.2)
    process = Path("/proc") / pid_file.read_text()
    assert process.exists()
    script = ScriptedProvider(calls("desk__pause"), says("Bye."))
    (line,) = results(Agent(script, tools=connected.tools), "Wait.")
    assert "0.2 s" in line or "didn't answer in time" in line
    connected.close()
    until = time.monotonic() + 60
    while process.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not process.exists()


def test_a_server_is_reached_over_http_with_headers():
    port = free_port()
    command = [sys.executable, DESK, "http", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/mcp"
    try:
        until = time.monotonic() + 60
        while not accepts(port) and time.monotonic() < until:
            time.sleep(0.1)
        server = McpServer("web", url=url, headers={"Authorization": "Bearer secret"})
        with McpServers([server]) as connected:
            assert not connected.problems
            names = [tool.name for tool in connected.tools]
            assert names[0] == "web__order"
    finally:
        process.terminate()
        process.wait()
    with McpServers([server]) as connected:
        (problem,) = connected.problems.values()
    assert "MCP server 'web'" in problem
    assert "secret" not in problem + repr(server)


def accepts(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_servers_are_read_from_both_forms_of_file_nearest_first(tmp_path):
    near = tmp_path / "project" / "notebooks"
    (near / ".jupyter").mkdir(parents=True)
    listed = {
        "mcp_servers": [
            {
                "name": "git",
                "command": "git-mcp",
                "args": ["--here"],
                "env": [{"name": "A", "value": "1"}],
            },
            {"type": "http", "name": "web", "url": "https://example.com/mcp"},
        ]
    }
    (near / ".jupyter" / "mcp_settings.json").write_text(json.dumps(listed))
    named = {"mcpServers": {"git": {"command": "other"}, "db": {"command": "db-mcp"}}}
    (tmp_path / "project" / "mcp.json").write_text(json.dumps(named))
    found = read_servers(near)
    assert {"git", "web", "db"} <= set(found)
    assert (found["git"].command, found["git"].env) == ("git-mcp", {"A": "1"})
    assert found["git"].address == "git-mcp --here"
    assert found["db"].origin == str(tmp_path / "project" / "mcp.json")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([], "must be an object"),
        ({"mcpServers": []}, "mcpServers must be an object"),
        ({"mcpServers": {"a": {}}}, "a needs either a command or a url"),
        ({"mcpServers": {"a": {"command": "x", "url": "y"}}}, "either a command or"),
        ({"mcpServers": {"a": {"url": "file:///etc"}}}, "must start with http"),
        ({"mcpServers": {"a": {"command": "x", "args": "y"}}}, "args a list"),
        ({"mcpServers": {"a": {"command": "x", "env": {"A": 1}}}}, "names to strings"),
        ({"mcp_servers": ["a"]}, "must be an object"),
    ],
)
def test_an_invalid_file_is_refused_in_one_line(content, said):
    with pytest.raises(ConfigError, match=said) as refused:
        servers_of(content, "mcp.json")
    assert "\n" not in str(refused.value)


def test_a_name_that_is_not_connected_is_refused(servers):
    with pytest.raises(NbchatError, match="No MCP server 'x' is connected"):
        servers.disconnect("x")


CONTENTS = str(Path(__file__).parents[1] / "support" / "mcp_contents.py")

PICTURE = base64.b64encode(png()).decode()
IMAGE = {"type": "image", "data": PICTURE, "mimeType": "image/png"}
TEXT = {"type": "text", "text": "Took the screenshot."}
AUDIO = {"type": "audio", "data": PICTURE, "mimeType": "audio/wav"}
BLOB = {"uri": "file:///a.pdf", "mimeType": "application/pdf", "blob": PICTURE}
SHOT = {"uri": "file:///a.png", "mimeType": "image/png", "blob": PICTURE}
NOTE = {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "the note"}
LINK = {"type": "resource_link", "uri": "https://x.org/a", "name": "a", "size": 2_000}
CUT = {"type": "image", "data": PICTURE[:60], "mimeType": "image/png"}
SIZE = len(png())

RETURNED = {
    "one_picture": ([IMAGE], "[1 picture follows]", 1),
    "text_and_picture": (
        [TEXT, IMAGE],
        "Took the screenshot.\n[picture 1 of 1 follows]",
        1,
    ),
    "two_pictures": ([IMAGE, IMAGE], "[2 pictures follow]", 2),
    "in_order": (
        [IMAGE, TEXT, IMAGE],
        "[picture 1 of 2 follows]\nTook the screenshot.\n[picture 2 of 2 follows]",
        2,
    ),
    "audio": ([TEXT, AUDIO], f"Took the screenshot.\n[audio/wav, {SIZE} bytes]", 0),
    "file": (
        [{"type": "resource", "resource": BLOB}],
        f"[application/pdf, {SIZE} bytes, file:///a.pdf]",
        0,
    ),
    "picture_file": (
        [{"type": "resource", "resource": SHOT}],
        "[1 picture follows]",
        1,
    ),
    "note": ([{"type": "resource", "resource": NOTE}], "the note", 0),
    "link": ([LINK], "[resource_link, a, 2,000 bytes, https://x.org/a]", 0),
    "cut": (
        [TEXT, CUT],
        "Took the screenshot.\n[45 bytes that cannot be read as a picture]",
        0,
    ),
    "nothing": ([], "", 0),
    "structured": (
        {"content": [], "structuredContent": {"a": [1]}},
        '{"a": [1]}',
        0,
    ),
    "failed": (
        {"content": [TEXT, IMAGE], "isError": True},
        "error: NbchatError: Took the screenshot.",
        0,
    ),
}


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpServers]:
    file = tmp_path_factory.mktemp("mcp") / "contents.json"
    file.write_text(json.dumps({name: each[0] for name, each in RETURNED.items()}))
    server = McpServer("c", sys.executable, (CONTENTS, str(file)))
    with McpServers([server], trust={"c"}, call_seconds=30) as connected:
        yield connected


@pytest.mark.parametrize("name", RETURNED)
def test_a_result_reaches_the_model_as_it_is(contents, name):
    _, text, pictures = RETURNED[name]
    provider = ScriptedProvider(calls(f"c__{name}"), says("Done."))
    agent = Agent(provider, tools=contents.tools)
    (found,) = results(agent, "look")
    assert found == text or (name == "failed" and found.startswith(text))
    sent = provider.requests[-1].history
    assert sum(image_of(each) is not None for each in sent) == pictures
