"""What a person decides in the panel: tool calls that wait, and Stop on two ways."""

import re
from collections.abc import Callable
from pathlib import Path

from labkit import Lab, Notebook
from panel_page import OpenPanelPage
from panels import BUSY, ask, is_idle, let_cell_end, panel_of, say, scripted
from playwright.sync_api import ConsoleMessage, Locator, Page, Request, expect

OpenNotebook = Callable[..., Notebook]
Screenshot = Callable[[str], Path]

SETUP = """
from nbchat.agent.agent import Agent
from nbchat.agent.approvals import Approvals
from nbchat.conversation.session import Session
from nbchat.testing import Line, ScriptedProvider, calls, says
from nbchat.jupyter.panel.chat_ui import ChatUI

def refund(order: str, amount: float = 10.0, note: str = "") -> str:
    "Give money back."
    return f"{order} refunded"

def look_up(order: str) -> str:
    "Look an order up."
    return f"{order} is late"

def results():
    return [e.content for e in ui.session.transcript if e.role == "tool"]
"""

REFUND = "calls('refund', order='W1', amount=129.5, note='late')"


def asking_panel(
    open_notebook: OpenNotebook | OpenPanelPage, script: str, *cells: str
) -> tuple[Notebook, Locator]:
    """A panel whose agent asks before each call, and further cells below."""
    agent = f"Agent(ScriptedProvider({script}), tools=[refund, look_up], approve=Approvals())"
    notebook = open_notebook(f"{SETUP}\nui = ChatUI({agent})\nui", *cells)
    panel = notebook.run(0).locator(".nbc")
    expect(panel.locator(".nbc-model")).to_have_text("scripted:model")
    return notebook, panel


def decision(panel: Locator, name: str) -> Locator:
    """One of the buttons of the call that waits."""
    return panel.get_by_role("button", name=name, exact=True)


SCROLL_UP_A_LITTLE = """async scroller => {
    scroller.scrollTop -= 25;
    const drawn = () => new Promise(requestAnimationFrame);
    await drawn().then(drawn);
}"""


def read_on(panel: Locator) -> None:
    """Read the call that waits to its end."""
    while decision(panel, "Show the rest").is_visible():
        decision(panel, "Show the rest").evaluate("button => button.click()")


def test_a_long_call_can_be_approved_only_after_all_of_it_was_visible(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    code = "\n".join(f"total = total + {n}" for n in range(80)) + "\nremove('data')"
    script = f"calls('refund', order='W1', note={code!r}), says('Done.')"
    _, panel = asking_panel(open_panel_page, script)
    say(panel, "Refund order W1, please.")
    card = panel.locator(".nbc-tool[data-state=waiting]")
    expect(card.locator("summary")).to_be_in_viewport()
    expect(card.locator("pre")).to_contain_text("remove('data')")
    approve = decision(panel, "Approve")
    expect(approve).to_be_disabled()
    expect(decision(panel, "Always approve in this session")).to_be_disabled()
    more = panel.get_by_role("button", name="Waiting for you")
    screenshot("beginning")
    more.click()  # it is there while the end is out of sight
    expect(card.locator("summary")).not_to_be_in_viewport()
    scroller = panel.locator(".nbc-scroller")
    scroller.evaluate("element => { element.scrollTop = element.scrollHeight }")
    expect(approve).to_be_in_viewport()
    expect(approve).to_be_disabled()  # the middle was not in sight
    expect(more).to_be_hidden()
    scroller.evaluate(SCROLL_UP_A_LITTLE)
    assert more.is_hidden()  # it would lie on a button
    read_on(panel)
    expect(approve).to_be_enabled()
    screenshot("end")
    approve.click()
    expect(panel.locator(".nbc-log .nbc-assistant")).to_have_text("Done.")


EVIL = "</pre></details><img src=x onerror='window.nbchatRan=1'>\u202edeno"


def test_an_approved_call_runs_and_its_card_showed_all_before(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    script = (
        f"{REFUND}, says('Done.'), {REFUND}, says('As you like.'), "
        f"calls('refund', order='W1', note={EVIL!r} * 40), "
        f"calls({EVIL!r}, **{{{EVIL!r}: {EVIL!r}}}), says('Well.'), "
        f"{REFUND}, says('Still here.')"
    )
    notebook, panel = asking_panel(open_panel_page, script, "results()")
    card = panel.locator(".nbc-tool").last
    answer = panel.locator(".nbc-log .nbc-assistant").last
    say(panel, "Refund order W1, please.")
    expect(card).to_have_attribute("data-state", "waiting")
    expect(card.locator(".nbc-argument")).to_have_text(
        ["orderW1", "amount129.5", "notelate"]
    )
    expect(panel.locator(".nbc-status")).to_have_text(
        "refund is waiting for your approval"
    )
    expect(panel.locator(".nbc-dot")).to_have_attribute("data-state", "waiting")
    expect(panel.locator(".nbc-input")).to_be_focused()
    screenshot("waits")
    decision(panel, "Approve").click()
    expect(card).to_have_attribute("data-state", "done")
    expect(answer).to_have_text("Done.")
    expect(card.locator("summary")).to_be_focused()
    expect(decision(panel, "Approve")).to_have_count(0)

    say(panel, "Once more.")
    decision(panel, "Deny").focus()
    decision(panel, "Deny").press("Enter")
    expect(card).to_have_attribute("data-state", "denied")
    expect(card.locator("summary")).to_be_focused()
    expect(answer).to_have_text("As you like.")
    screenshot("denied")
    expect(notebook.run(1)).to_contain_text("error: denied by the user")

    say(panel, "And something hostile.")
    block = panel.locator("[data-state=waiting] .nbc-argument-block")
    expect(block.locator("[data-mark='U+202E']")).to_have_count(40)
    assert block.inner_text().count("<img src=x") == 40
    read_on(panel)
    decision(panel, "Approve").click()
    unknown = panel.locator(".nbc-tool[data-state=failed]")  # runs and asks nothing
    expect(unknown).to_contain_text("<img src=x")
    screenshot("hostile")
    expect(answer).to_have_text("Well.")
    assert page.evaluate("() => window.nbchatRan") is None
    assert panel.locator("img").count() == 0

    say(panel, "Refund order W1, please.")
    expect(decision(panel, "Approve")).to_be_visible()
    panel.get_by_role("button", name="Stop").click()
    expect(decision(panel, "Approve")).to_have_count(0)
    expect(card).to_have_attribute("data-state", "failed")
    say(panel, "And now?")
    expect(answer).to_have_text("Still here.")


def test_always_holds_for_one_tool_until_a_new_session(
    open_panel_page: OpenPanelPage,
) -> None:
    script = (
        "calls('refund', order='W1'), calls('refund', order='W2'), "
        "calls('look_up', order='W3'), says('All done.'), "
        "calls('refund', order='W4'), says('Enough.')"
    )
    _, panel = asking_panel(open_panel_page, script)
    say(panel, "Refund W1 and W2, look up W3.")
    decision(panel, "Always approve in this session").click()
    expect(panel.locator(".nbc-status")).to_have_text(
        "look_up is waiting for your approval"
    )
    expect(panel.locator(".nbc-tool[data-state=done]")).to_have_count(2)
    decision(panel, "Approve").click()
    expect(panel.locator(".nbc-log .nbc-assistant")).to_have_text("All done.")
    say(panel, "/new")
    expect(panel.locator(".nbc-tool")).to_have_count(0)
    say(panel, "Refund W4.")
    expect(panel.locator(".nbc-status")).to_have_text(
        "refund is waiting for your approval"
    )
    decision(panel, "Deny").click()
    expect(panel.locator(".nbc-tool")).to_have_attribute("data-state", "denied")


def test_views_a_reloaded_page_and_a_reopened_notebook_share_question_and_chat(
    open_shared_notebook: OpenNotebook,
) -> None:
    slow = "says('Second ' * 400, delay_seconds=0.1)"
    script = f"says('First.'), {REFUND}, {slow}, says('Third.'), says('Fourth.')"
    notebook, panel = asking_panel(open_shared_notebook, script, "ui")
    ask(panel, "One?")
    say(panel, "Refund order W1, please.")
    asked = ["One?", "Refund order W1, please."]
    expect(decision(panel, "Approve")).to_be_visible()
    second = notebook.run(1).locator(".nbc")
    expect(second.locator(".nbc-user")).to_have_text(asked)
    expect(decision(second, "Approve")).to_be_visible()
    notebook.save()
    notebook.load_page()
    notebook.open()
    again = notebook.outputs(0).locator(".nbc")
    expect(again.locator(".nbc-user")).to_have_text(asked)
    expect(decision(again, "Approve")).to_be_visible()
    decision(second, "Approve").scroll_into_view_if_needed()
    decision(second, "Approve").click()
    for view in (again, second):
        expect(view.locator(".nbc-tool")).to_have_attribute("data-state", "done")
        expect(view.locator(".nbc-live")).to_contain_text("Second Second")
    expect(decision(again, "Approve")).to_have_count(0)
    again.get_by_role("button", name="Stop").click()
    for question in ("Three?", "Four?"):
        notebook.close_tab()
        notebook.open()
        expect(again.locator(".nbc-model")).to_have_text("scripted:model")
        is_idle(again)
        ask(again, question)
    answers = again.locator(".nbc-log .nbc-assistant")
    expect(answers.nth(1)).to_contain_text("Second")
    expect(answers.last).to_have_text("Fourth.")
    expect(answers).to_have_count(4)


SHOWN_STATES = """all => all.map(each => {
    const { content } = getComputedStyle(each, "::after");
    return content.startsWith('"done') ? "done" : content.slice(1, -1);
})"""


def test_of_many_calls_the_one_that_waits_is_brought_into_sight(
    open_panel_page: OpenPanelPage, screenshot: Screenshot
) -> None:
    thirty = "sum((calls('refund', order=f'W{n}').calls for n in range(30)), ())"
    script = f"Line(calls={thirty}, stop_reason='tool_use'), says('Done.')"
    notebook, panel = asking_panel(open_panel_page, script, "ui")
    say(panel, "Refund all thirty.")
    for number in range(2):
        card = panel.locator(".nbc-tool[data-state=waiting]")
        expect(card.locator(".nbc-argument")).to_have_text(f"orderW{number}")
        expect(decision(panel, "Approve")).to_be_in_viewport()
        screenshot(f"call-{number}")
        states = panel.locator(".nbc-tool > summary").evaluate_all(SHOWN_STATES)
        expected = [*["done"] * number, "waiting for you", *["next"] * (29 - number)]
        assert states == expected
        decision(panel, "Approve").click()
    late = notebook.run(1).locator(".nbc")  # gets the last twenty items at first
    expect(decision(late, "Approve")).to_be_in_viewport()
    decision(late, "Always approve in this session").click()
    expect(panel.locator(".nbc-log .nbc-assistant")).to_have_text("Done.")
    for view in (panel, late):
        expect(view.locator(".nbc-jump")).to_be_hidden()


MAGIC = f"""{SETUP}
%load_ext nbchat
agent = %chat agent
from nbchat.conversation.tools import as_tools
agent.tools, agent.approve = as_tools([refund]), Approvals()
agent.use(ScriptedProvider(calls('refund', order='W1'), says('Done.')))
%chat"""


def test_a_call_of_a_chat_cell_is_approved_in_the_panel(
    open_shared_notebook: OpenNotebook,
) -> None:
    notebook = open_shared_notebook(MAGIC, "%%chat\nRefund W1, please.")
    panel = notebook.run(0).locator(".nbc")
    expect(panel.locator(".nbc-model")).not_to_be_empty()
    notebook.start(1)
    cell = notebook.outputs(1)
    waiting = "refund is waiting for your approval. Answer in the chat panel"
    expect(cell.filter(has_text=waiting)).to_have_count(1)
    decision(panel, "Approve").click()
    notebook.join()
    expect(cell.filter(has_text="Done.")).to_have_count(1)
    expect(panel.locator(".nbc-tool")).to_have_attribute("data-state", "done")


SLOW = "says('word ' * 2_000, delay_seconds=0.02)"

DEAF = """() => {
    const session = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
    for (const comm of session.kernel._comms.values()) comm.send = () => {} }"""
"""No message of a widget reaches the kernel any more."""


class Traffic:
    """What a page asked nbchat's routes for, and what its console complained of."""

    def __init__(self, page: Page) -> None:
        """Listen from now on."""
        self.asked: list[str] = []
        self.complaints: list[str] = []
        page.on("request", self._see)
        page.on("console", self._hear)

    def forget(self) -> None:
        """Forget what was seen so far."""
        self.asked.clear()
        self.complaints.clear()

    def _see(self, request: Request) -> None:
        if request.method == "POST" and "nbchat" in request.url:
            self.asked.append(request.url)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(message.text)


CHANGE_PAGE = """change => {
    const element = document.getElementById('jupyter-config-data');
    const before = element.textContent;
    element.textContent = JSON.stringify({ ...JSON.parse(before), ...change });
    return before;
}"""


def test_stop_works_without_routes_without_the_server_and_without_messages(
    open_shared_notebook: OpenNotebook, page: Page, lab: Lab
) -> None:
    changes: list[dict[str, object]] = [
        {"nbchatRoutes": None},
        {"baseUrl": "https://evil.example/"},
        {"baseUrl": "//evil.example/"},
    ]
    faults = [lambda route: route.abort(), lambda route: route.fulfill(status=404)]
    count = len(changes) + len(faults) + 1
    notebook, panel = asking_panel(open_shared_notebook, f"*[{SLOW}] * {count}", BUSY)
    stop = panel.get_by_role("button", name="Stop")
    stopped = panel.locator(".nbc-log .nbc-cut")
    traffic = Traffic(page)

    def begin() -> None:
        say(panel, "Tell me a long story.")
        expect(panel.locator(".nbc-live")).to_contain_text("word word")

    for number, change in enumerate(changes, 1):
        begin()
        before = page.evaluate(CHANGE_PAGE, change)
        stop.click()
        expect(stopped).to_have_count(number)
        page.evaluate(
            "text => { document.getElementById('jupyter-config-data').textContent = text }",
            before,
        )
        assert (change, traffic.asked, traffic.complaints) == (change, [], [])

    for number, fault in enumerate(faults, len(changes) + 1):
        page.route("**/nbchat/stop", fault)
        begin()
        stop.click()
        expect(stopped).to_have_count(number)
        page.unroute("**/nbchat/stop")

    begin()
    page.evaluate(DEAF)
    notebook.start(1)
    traffic.forget()
    stop.click()
    expect(stopped).to_have_count(count)
    assert traffic.asked == [f"{lab.url}/nbchat/stop"]
    assert traffic.complaints == []
    let_cell_end(notebook)


def test_a_decision_counts_once_on_both_ways_for_one_panel_and_on_either_of_them(
    open_shared_notebook: OpenNotebook, page: Page
) -> None:
    other = f"other = ChatUI(Agent(ScriptedProvider({SLOW})))\nother"
    refunds = [f"calls('refund', order='W{n}')" for n in range(1, 5)]
    script = ", ".join([refunds[0], SLOW, *refunds[1:], "says('Done.')"])
    notebook, panel = asking_panel(
        open_shared_notebook, script, other, BUSY, "results()"
    )
    beside = notebook.run(1).locator(".nbc")
    say(beside, "Tell me a long story.")
    expect(beside.locator(".nbc-live")).to_contain_text("word word")
    traffic = Traffic(page)
    say(panel, "Refund W1.")
    with page.expect_response("**/nbchat/approve") as approved:
        decision(panel, "Approve").click()
    expect(panel.locator(".nbc-live")).to_contain_text("word word")
    with page.expect_response("**/nbchat/stop") as stopped:
        panel.get_by_role("button", name="Stop").click()
    expect(panel.locator(".nbc-log .nbc-assistant")).to_contain_text("cut off here")
    assert (approved.value.status, stopped.value.status) == (200, 200)
    assert traffic.complaints == []
    expect(beside.get_by_role("button", name="Stop")).to_be_enabled()
    expect(beside.locator(".nbc-log .nbc-assistant")).to_have_count(0)
    beside.get_by_role("button", name="Stop").click()

    say(panel, "Refund the others.")
    done = panel.locator(".nbc-tool[data-state=done]")
    expect(decision(panel, "Approve")).to_be_visible()
    notebook.start(2)
    decision(panel, "Approve").click()
    expect(done).to_have_count(2)  # while a cell runs
    let_cell_end(notebook)
    expect(decision(panel, "Approve")).to_be_visible()
    page.evaluate(DEAF)
    decision(panel, "Approve").click()
    expect(done).to_have_count(3)
    decision(panel, "Deny").click()
    expect(panel.locator(".nbc-log .nbc-assistant").last).to_have_text("Done.")
    refunded = [f"W{n} refunded" for n in (1, 2, 3)]
    told = str([*refunded, "error: denied"]).removesuffix("']")
    expect(notebook.run(3)).to_contain_text(told)


def test_a_call_that_took_its_time_says_how_long(
    open_panel_page: OpenPanelPage, screenshot: Screenshot
) -> None:
    script = "calls('wait'), says('Done.')"
    cell = scripted(script, "tools=[wait]")
    notebook = open_panel_page(cell, "import time; time.sleep(0.3); go.set()")
    panel = panel_of(notebook)
    say(panel, "Wait for me.")
    expect(panel.locator(".nbc-tool:not([data-state])")).to_be_visible()
    notebook.run(1)
    expect(panel.locator(".nbc-tool[data-state=done] > summary")).to_have_attribute(
        "data-size", re.compile(r"^4 characters · \d+\.\d s$")
    )
    screenshot("took")


OFFERED = """
from pathlib import Path
from nbchat.chat.chat_events import CommandReplied, RulesOffered
from nbchat.conversation.rules_file import RulesFile

def answer(agent, line, stop):
    ui._runner.offer(RulesOffered())
    return [CommandReplied(f"answered {line}")]

ui._runner._commands = answer
text = "\\n".join(f"- Rule {number} has a reason." for number in range(60))
ui._runner.offer(RulesOffered(RulesFile(Path("AGENTS.md"), text, "0")))
"""


def test_rules_of_the_project_wait_on_a_card_whose_buttons_answer(
    open_panel_page: OpenPanelPage, screenshot: Screenshot
) -> None:
    notebook = open_panel_page(scripted("says('ok')"), OFFERED)
    panel = panel_of(notebook)
    for name, word in (("Use these rules", "use"), ("Not now", "ignore")):
        notebook.run(1)
        card = panel.locator(".nbc-rules")
        expect(card).to_contain_text("Rule 59 has a reason.")
        expect(panel.locator(".nbc-empty")).to_be_visible()
        screenshot(word)
        card.get_by_role("button", name=name).click()
        expect(panel.locator(".nbc-note").last).to_have_text(f"answered /rules {word}")
        expect(card).to_have_count(0)
