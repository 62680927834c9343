"""The routes of a real Jupyter Server, and chats in kernels that it started."""

import contextlib
import json
import os
import signal
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from at_best import assert_within
from server_kit import Server, ServerKernel, jupyter_server

from nbchat.conversation.entries import Entry, Usage
from nbchat.conversation.session import Session
from nbchat.storage.autosave import save_session
from nbchat.storage.store import SessionStore

WITHIN_SECONDS = 1.0
"""What stopping may take; 0.02 s were seen."""

CHAT = """
from nbchat import Agent, ChatUI
from nbchat.agent.approvals import Approvals
from nbchat.conversation.events import TextDelta, TurnFinished
from nbchat.testing import ScriptedProvider, calls, says
import time

def refund(order: str) -> str:
    "Give money back."
    return f"{order} refunded"

approvals = Approvals()
ends = []
streaming = set()

def listener(event):
    if isinstance(event, TextDelta):
        streaming.add("chat")
    if isinstance(event, TurnFinished):
        ends.append(time.time())

def other_listener(event):
    if isinstance(event, TextDelta):
        streaming.add("other")

agent = Agent(
    ScriptedProvider(LINES), tools=[refund], approve=approvals, listener=listener
)
chat = ChatUI(agent)

def await_that(condition):
    deadline = time.monotonic() + 50
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
"""

SLOW = "says('word ' * 2_000, delay_seconds=0.02)"

AWAIT_TEXT = "await_that(lambda: 'chat' in streaming)"

TICKET = """
await_that(lambda: approvals.waiting)
print(approvals.waiting[0].ticket)
"""

FORGET = """
for value in [*globals().values()]:
    if type(value).__name__ == "ChatUI":
        value.close()
if "nbchat" in get_ipython().extension_manager.loaded:
    get_ipython().extension_manager.unload_extension("nbchat")
get_ipython().run_line_magic("reset", "-f")
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with jupyter_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def shared_kernel(server: Server) -> Iterator[ServerKernel]:
    started = ServerKernel(server)
    yield started
    started.close()


@pytest.fixture
def kernel(shared_kernel: ServerKernel) -> Iterator[ServerKernel]:
    """A kernel without chats, which must outlive the test."""
    yield shared_kernel
    shared_kernel.run(FORGET)
    for file in doors(shared_kernel):
        file.unlink()


@pytest.fixture
def own_kernel(server: Server) -> Iterator[ServerKernel]:
    """A kernel that the test may end."""
    started = ServerKernel(server)
    yield started
    started.close()


def doors(kernel: ServerKernel) -> list[Path]:
    runtime = Path(kernel.server.environment["JUPYTER_RUNTIME_DIR"])
    return list(runtime.glob(f"nbchat-{kernel.id}-*.json"))


def asked_to_stop(kernel: ServerKernel) -> float:
    """Stop the chats of a kernel; the time at which it was asked for."""
    began = time.time()
    answer = kernel.server.ask("nbchat/stop", {"kernel_id": kernel.id})
    assert (answer.status, answer.json) == (200, {"done": True})
    return began


def ticket_in(kernel: ServerKernel, cell: str) -> str:
    """The ticket that a cell has printed."""
    return kernel.await_output(cell, "waits").split("ticket ")[1].split()[0]


def stopped_at(shown: str) -> float:
    """The kernel's clock when the turn had ended, as its cell printed it."""
    return float(shown.split("ended at ")[1].split(maxsplit=1)[0])


def test_stop_ends_an_answer_within_a_second_while_a_cell_runs(kernel):
    def seconds() -> float:
        kernel.run(CHAT.replace("LINES", SLOW))
        cell = kernel.start(
            f"chat.ask('go')\n{AWAIT_TEXT}\nprint('begun', flush=True)\n"
            "await_that(lambda: ends)\n"
            "print('ended at', ends[0] if ends else 'no time')\n"
            "print('reason', agent.session.transcript[-1].is_incomplete)"
        )
        kernel.await_output(cell, "begun")
        began = asked_to_stop(kernel)
        shown = kernel.join(cell)
        assert "reason True" in shown
        kept = kernel.run("agent.session.last_answer")
        assert 0 < kept.count("word") < 2_000
        return stopped_at(shown) - began

    assert_within(WITHIN_SECONDS, seconds)


def test_stop_ends_a_turn_of_a_cell_that_keeps_the_kernel_busy(kernel):
    kernel.run("%load_ext nbchat")
    kernel.run("from nbchat.testing import ScriptedProvider, says\nagent = %chat agent")

    def seconds() -> float:
        kernel.run(f"agent.use(ScriptedProvider({SLOW}))")
        cell = kernel.start("%%chat\ngo")
        kernel.await_output(cell, "word")
        began = asked_to_stop(kernel)
        kernel.join(cell)
        taken = time.time() - began
        assert kernel.run("agent.session.transcript[-1].is_incomplete") == "True"
        return taken

    assert_within(WITHIN_SECONDS, seconds)


def test_stop_reaches_every_chat_of_a_kernel_and_may_come_twice(kernel):
    kernel.run(CHAT.replace("LINES", SLOW))
    kernel.run(
        f"other = ChatUI(Agent(ScriptedProvider({SLOW}), listener=other_listener))\n"
        "chat.ask('go'); other.ask('go')\n"
        "await_that(lambda: streaming == {'chat', 'other'})"
    )
    assert len(doors(kernel)) == 2
    asked_to_stop(kernel)
    asked_to_stop(kernel)
    assert kernel.run("print(chat.wait(50), other.wait(50))") == "True True\n"
    incomplete = "[c.session.transcript[-1].is_incomplete for c in (chat, other)]"
    assert kernel.run(incomplete) == "[True, True]"


def test_a_stop_that_names_a_chat_and_a_click_ends_that_chats_turn_once(kernel):
    kernel.run(CHAT.replace("LINES", f"{SLOW}, {SLOW}"))
    kernel.run(
        f"other = ChatUI(Agent(ScriptedProvider({SLOW})))\n"
        "chat.ask('go'); other.ask('go')\n"
        "await_that(lambda: chat.is_busy and other.is_busy)"
    )
    name = kernel.run("print(chat._state.snapshot()['state']['chat_id'])")
    body = {"kernel_id": kernel.id, "chat_id": name.strip(), "token": "click-1"}
    assert kernel.server.ask("nbchat/stop", body).status == 200
    assert kernel.run("print(chat.wait(50), other.is_busy)") == "True True\n"
    kernel.run("chat.ask('again')\nawait_that(lambda: chat.is_busy)")
    assert kernel.server.ask("nbchat/stop", body).status == 200
    assert kernel.run("print(chat.wait(0.2))") == "False\n"
    unknown = kernel.server.ask("nbchat/stop", {**body, "chat_id": "*"})
    assert unknown.status == 409
    asked_to_stop(kernel)
    assert kernel.run("print(chat.wait(50), other.wait(50))") == "True True\n"


def test_a_stop_that_overtakes_its_message_leaves_it_to_the_click(kernel):
    kernel.run(CHAT.replace("LINES", f"says('one'), {SLOW}"))
    kernel.run("chat.ask('first')\nchat.wait(30)")
    body = {"kernel_id": kernel.id, "token": "click-1"}
    assert kernel.server.ask("nbchat/stop", body).status == 200
    kernel.run(
        "chat.receive({'type': 'send', 'text': 'do not do this'})\n"
        "chat.receive({'type': 'stop', 'token': 'click-1'})"
    )
    assert kernel.run("print(chat.wait(50))") == "True\n"
    assert kernel.run("agent.session.last_answer.count('word') < 2_000") == "True"


def test_a_tool_call_is_approved_while_a_cell_runs(kernel):
    lines = "calls('refund', order='W1'), says('done')"
    kernel.run(CHAT.replace("LINES", lines))
    cell = kernel.start(
        "chat.ask('refund W1')\nawait_that(lambda: approvals.waiting)\n"
        "print('ticket', approvals.waiting[0].ticket, 'waits', flush=True)\n"
        "await_that(lambda: not chat.is_busy)\n"
        "print([e.content for e in agent.session.transcript if e.role == 'tool'])"
    )
    body = {"kernel_id": kernel.id, "ticket": ticket_in(kernel, cell)}
    refused = kernel.server.ask("nbchat/approve", body | {"ticket": "call_1_0"})
    assert refused.status == 404
    assert "'call_1_0' is the id of a call, not its ticket" in refused.json["message"]
    assert kernel.server.ask("nbchat/approve", body).status == 200
    assert "['W1 refunded']" in kernel.join(cell)


def test_a_call_is_denied_and_always_is_once_for_all(kernel):
    lines = "*[calls('refund', order=f'W{n}') for n in range(4)], says('done')"
    kernel.run(CHAT.replace("LINES", lines))
    kernel.run("chat.ask('refund')")
    body = {"kernel_id": kernel.id, "ticket": kernel.run(TICKET).strip()}
    assert kernel.server.ask("nbchat/deny", body).status == 200
    body = {
        "kernel_id": kernel.id,
        "ticket": kernel.run(TICKET).strip(),
        "always": True,
    }
    assert kernel.server.ask("nbchat/approve", body).status == 200
    kernel.run("chat.wait(30)")
    shown = kernel.run("[e.content for e in agent.session.transcript if e.tool_id]")
    assert "denied by the user" in shown
    assert all(f"W{n} refunded" in shown for n in (1, 2, 3))


def test_a_chat_without_approvals_says_so(kernel):
    kernel.run(CHAT.replace("LINES", "says('hi')"))
    kernel.run("agent.approve = None\nchat.ask('go')\nchat.wait(30)")
    body = {"kernel_id": kernel.id, "ticket": "1"}
    answer = kernel.server.ask("nbchat/deny", body)
    assert answer.status == 404
    assert (
        answer.json["message"]
        == "This chat runs its tools without asking for approval."
    )


def test_nothing_listens_before_a_chat_is_shown_or_after_it_is_closed(kernel):
    kernel.run("import nbchat")
    answer = kernel.server.ask("nbchat/stop", {"kernel_id": kernel.id})
    assert (answer.status, doors(kernel)) == (409, [])
    kernel.run(CHAT.replace("LINES", "says('hi')"))
    kernel.run("chat.ask('go')\nchat.wait(30)")
    (file,) = doors(kernel)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    asked_to_stop(kernel)
    kernel.run("chat.close()")
    assert doors(kernel) == []
    assert kernel.server.ask("nbchat/stop", {"kernel_id": kernel.id}).status == 409


def test_a_killed_kernels_file_is_harmless_and_is_taken_away_as_that_of_one_that_exits(
    own_kernel,
):
    own_kernel.run(CHAT.replace("LINES", "says('hi')"))
    own_kernel.run("chat.ask('go')\nchat.wait(30)")
    (stale,) = doors(own_kernel)
    os.kill(int(own_kernel.run("import os; os.getpid()")), signal.SIGKILL)
    own_kernel.server.ask(f"api/kernels/{own_kernel.id}/restart", {})
    own_kernel.client.kernel_info(reply=True, timeout=60)
    assert stale.exists()
    assert (
        own_kernel.server.ask("nbchat/stop", {"kernel_id": own_kernel.id}).status == 409
    )
    own_kernel.run(CHAT.replace("LINES", "says('hi')"))
    own_kernel.run("chat.ask('go')\nchat.wait(30)")
    asked_to_stop(own_kernel)
    assert not stale.exists()
    assert len(doors(own_kernel)) == 1
    own_kernel.client.shutdown()  # one that exits takes its own away
    deadline = time.monotonic() + 60
    while doors(own_kernel) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert doors(own_kernel) == []


def test_what_is_no_address_at_all_is_passed_over(kernel):
    kernel.run(CHAT.replace("LINES", "says('hi')"))
    kernel.run("chat.ask('go')\nchat.wait(30)")
    runtime = doors(kernel)[0].parent
    foreign = [
        b"",
        b"{",
        b"[1]",
        b'{"port": 1}',
        b'{"port": "x", "secret": 1, "pid": 2}',
    ]
    for number, content in enumerate(foreign):
        (runtime / f"nbchat-{kernel.id}-foreign{number}.json").write_bytes(content)
    asked_to_stop(kernel)


def test_a_turn_in_a_cell_waits_for_the_servers_word_too(kernel):
    kernel.run("%load_ext nbchat")
    kernel.run(CHAT.replace("LINES", ""))
    kernel.run(
        "inner = %chat agent\nfrom nbchat.conversation.tools import as_tools\n"
        "inner.tools = as_tools([refund])\ninner.approve = approvals\n"
        "approvals._listener = lambda waiting: waiting and print(\n"
        "    'ticket', waiting[0].ticket, 'waits', flush=True)\n"
        "lines = [calls('refund', order=f'W{n}') for n in (1, 2)]\n"
        "inner.use(ScriptedProvider(*lines))"
    )
    cell = kernel.start("%%chat\nrefund both")
    body = {"kernel_id": kernel.id, "ticket": ticket_in(kernel, cell)}
    assert kernel.server.ask("nbchat/approve", body).status == 200
    ticket_in(kernel, cell)
    asked_to_stop(kernel)
    kernel.join(cell)
    results = "[e.content for e in inner.session.transcript if e.role == 'tool']"
    shown = kernel.run(results)
    assert shown == "['W1 refunded', 'error: stopped before it ran']"


def test_stop_counts_while_the_agent_is_still_being_built(kernel, tmp_path):
    kernel.run(CHAT.replace("LINES", "says('hi')"))
    stopped = tmp_path / "stopped"
    cell = kernel.start(
        "import os\ndef build():\n"
        f"    while not os.path.exists('{stopped}'): time.sleep(0.01)\n"
        "    return agent\n"
        "slow = ChatUI(build=build)\nslow.ask('go')\nprint('asked', flush=True)\n"
        "slow.wait(30)\nprint(len(agent.session.transcript), 'entries')"
    )
    kernel.await_output(cell, "asked")
    asked_to_stop(kernel)
    stopped.touch()
    assert "0 entries" in kernel.join(cell)


def test_unloading_the_extension_closes_the_control_socket(kernel):
    kernel.run("%load_ext nbchat")
    kernel.run("agent = %chat agent\n" + CHAT.split("ends = []", maxsplit=1)[0])
    kernel.run("agent.use(ScriptedProvider(says('hi')))")
    kernel.run("%%chat\ngo")
    assert len(doors(kernel)) == 1
    kernel.run("%unload_ext nbchat")
    assert doors(kernel) == []


def test_a_forked_process_that_ends_leaves_the_control_socket_open(kernel):
    kernel.run(CHAT.replace("LINES", "says('hi')") + "chat.ask('go')\nchat.wait(30)")
    kernel.run(
        "import os\nchild = os.fork()\n"
        "if not child:\n    chat._runner._control_socket.close()\n    os._exit(0)\n"
        "os.waitpid(child, 0)"
    )
    assert len(doors(kernel)) == 1
    asked_to_stop(kernel)


def knocked(kernel: ServerKernel, line: bytes) -> bytes:
    """What the control socket answers to a line from a stranger."""
    port = json.loads(doors(kernel)[0].read_text())["port"]
    with socket.create_connection(("127.0.0.1", port), 60) as visitor:
        visitor.sendall(line)
        with contextlib.suppress(ConnectionResetError):
            return visitor.makefile("rb").readline()
    return b""


def test_a_request_without_the_secret_stops_nothing(kernel):
    kernel.run(CHAT.replace("LINES", SLOW))
    kernel.run(f"chat.ask('go')\n{AWAIT_TEXT}")
    secret = json.loads(doors(kernel)[0].read_text())["secret"]
    for wrong in ("", "guess", secret[:-1], secret + "x", "\ud800"):
        line = json.dumps({"secret": wrong, "action": "stop"}).encode() + b"\n"
        assert knocked(kernel, line) == b'{"error": "The secret is wrong."}\n'
    for nonsense in (b"\n", b"[]\n", b"{}\n", b"\xff\n", b"[" * 60_000 + b"\n"):
        assert knocked(kernel, nonsense) == b'{"error": "Not a request."}\n'
    knocked(kernel, b"x" * 1_000_000)
    line = json.dumps({"secret": secret, "action": "close"}).encode() + b"\n"
    assert b"no action 'close'" in knocked(kernel, line)
    assert kernel.run("chat.is_busy") == "True"
    asked_to_stop(kernel)
    assert kernel.run("chat.wait(50)") == "True"


def test_silent_connections_delay_no_other_request(kernel):
    kernel.run(CHAT.replace("LINES", SLOW))
    kernel.run(f"chat.ask('go')\n{AWAIT_TEXT}")
    port = json.loads(doors(kernel)[0].read_text())["port"]
    with contextlib.ExitStack() as silent:
        for _ in range(5):
            visitor = socket.create_connection(("127.0.0.1", port), 60)
            silent.enter_context(visitor)
        asked_to_stop(kernel)
        assert kernel.run("chat.wait(50)") == "True"


POSTS = ("nbchat/stop", "nbchat/approve", "nbchat/deny")
GETS = ("nbchat/health", "nbchat/sessions", "nbchat/sessions/abc/export")


@pytest.mark.parametrize("token", ["", "wrong"])
@pytest.mark.parametrize("path", GETS + POSTS)
def test_without_the_right_token_no_route_answers(server, path, token):
    answer = server.ask(path, {} if path in POSTS else None, token=token)
    assert answer.status == 403
    assert list(answer.json) == ["message"]
    assert "\n" not in answer.json["message"]


@pytest.mark.parametrize("path", POSTS)
def test_a_cookie_is_not_enough_without_the_xsrf_token(server, path):
    browser, xsrf = server.browser()
    asked = {"kernel_id": "none", "ticket": "none"}
    refused = server.ask(path, asked, token="", opener=browser)
    assert refused.status == 403
    assert "_xsrf" in refused.json["message"]
    wrong = {"X-XSRFToken": server.browser()[1]}
    assert (
        server.ask(path, asked, token="", opener=browser, headers=wrong).status == 403
    )
    right = {"X-XSRFToken": xsrf}
    passed = server.ask(path, asked, token="", opener=browser, headers=right)
    assert passed.status == 404  # past the guards: there is no such kernel


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("nbchat/stop", {"kernel_id": "x%s"}, 404, "no kernel 'x%s' on this server"),
        ("nbchat/stop", {"kernel_id": "../x"}, 404, "no kernel '../x'"),
        ("nbchat/stop", {"kernel_id": 5}, 400, "kernel_id is required, as a string"),
        ("nbchat/stop", {}, 400, "kernel_id is required"),
        ("nbchat/stop", [], 400, "must be a JSON object"),
        ("nbchat/stop", b"{", 400, "must be a JSON object"),
        ("nbchat/stop", b"[" * 60_000, 400, "must be a JSON object"),
        ("nbchat/stop", b"[" * 100_000, 413, "The body has over 65,536 bytes"),
        ("nbchat/stop", b"\xff\xfe", 400, "must be a JSON object"),
        ("nbchat/sessions/abc/export", None, 404, "There's no session 'abc'"),
        ("nbchat/sessions/abc/export?format=pdf", None, 400, "Choose one of md, html"),
        ("nbchat/stop", None, 405, "Method Not Allowed"),
    ],
)
def test_a_request_that_cannot_be_is_answered_in_one_line(
    server, path, body, status, said
):
    answer = server.ask(path, body)
    assert answer.status == status
    assert said in answer.json["message"]
    assert "\n" not in answer.json["message"]


def test_a_call_must_be_named_to_be_answered(kernel):
    answer = kernel.server.ask("nbchat/approve", {"kernel_id": kernel.id})
    assert answer.status == 400
    assert answer.json["message"] == "ticket is required, as a string."
    body = {"kernel_id": kernel.id, "call_id": "call_1_0"}
    answer = kernel.server.ask("nbchat/approve", body)
    assert answer.status == 400
    assert answer.json["message"].startswith("Send the ticket")


def test_health_says_that_the_routes_are_there(server):
    answer = server.ask("nbchat/health")
    assert answer.json["status"] == "ok"


def test_sessions_are_listed_and_exported_in_every_format(server, monkeypatch):
    monkeypatch.setenv("JUPYTER_DATA_DIR", server.environment["JUPYTER_DATA_DIR"])
    said = [Entry("user", "<script>alert(1)</script>"), Entry("assistant", "**No.**")]
    session = Session(said, session_id="shown", usages=[(2, Usage(9, 2))])
    save_session(SessionStore(), session)
    (info,) = [
        each
        for each in server.ask("nbchat/sessions").json["sessions"]
        if each["id"] == "shown"
    ]
    assert (info["title"], info["messages"]) == ("<script>alert(1)</script>", 2)
    texts = {}
    for form in ("md", "html", "json", "ipynb"):
        answer = server.ask(f"nbchat/sessions/shown/export?format={form}")
        assert answer.status == 200
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        kept_as = f'attachment; filename="nbchat-shown.{form}"'
        assert answer.headers["Content-Disposition"] == kept_as
        texts[form] = answer.text
    assert "<script" not in texts["html"]
    assert "<strong>No.</strong>" in texts["html"]
    assert json.loads(texts["json"])["transcript"][1][1] == "**No.**"
    nbformat.validate(nbformat.reads(texts["ipynb"], as_version=4))
    assert "**No.**" in texts["md"]


def test_a_broken_store_or_site_file_is_reported_in_one_line(server):
    folder = Path(server.environment["JUPYTER_CONFIG_DIR"], "nbchat_config.d")
    folder.mkdir()
    file = folder / "90-test.json"
    try:
        file.write_text('{"NbChat": {"store_url": "sqlite:////dev/null/sessions.db"}}')
        closed = server.ask("nbchat/sessions")
        file.write_text("{")
        broken = server.ask("nbchat/sessions")
    finally:
        file.unlink()
    assert (closed.status, broken.status) == (500, 500)
    assert closed.json["message"].startswith("The database failed (")
    assert "90-test.json isn't JSON" in broken.json["message"]
    assert server.ask("nbchat/sessions").status == 200
