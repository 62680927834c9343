"""A chat of a thousand entries stays as quick as a short one."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from labkit import REPOSITORY
from panel_page import OpenPanelPage, PanelPage
from panels import DEAF_TO_STOP, is_idle, panel_of, say, scripted
from playwright.sync_api import Locator, Page, expect

TURNS = 167
"""Of six entries each, a thousand in all."""

ATTEMPTS = 3
"""Measurements, of which the best counts: another process on the same core makes a task
take longer, never shorter."""

LONGEST_MILLISECONDS = 150
"""Of one task of the page's main thread, in that thread's own processor time: how long it
took by the clock depends on what else the machine does, and benchmarks/streaming.py
tells it."""

SETUP = f"""
import sys
sys.path.insert(0, {str(REPOSITORY / "tests" / "benchmarks")!r})
from stream_feeds import long_chat
panel = long_chat({6 * TURNS})
panel
"""

# Marks when the panel has first shown a message.
MARK = """() => {
  const look = () => {
    if (!document.querySelector('.nbc-log > *')) return requestAnimationFrame(look);
    requestAnimationFrame(() => performance.mark('nbchat-shown'));
  };
  look();
}"""

# Goes up a screen at each frame, as a person who drags the scroll bar.
SCROLL_UP = """async (scroller) => {
  const first = () => scroller.querySelector('.nbc-log > *')?.textContent ?? '';
  const end = Date.now() + 60000;
  while (!first().startsWith('Question 0:') && Date.now() < end) {
    scroller.scrollTop -= scroller.clientHeight;
    await new Promise(requestAnimationFrame);
  }
  scroller.scrollTop = 0;
}"""


def long_panel(open_panel_page: OpenPanelPage, page: Page) -> tuple[PanelPage, Locator]:
    """A page with a panel on a long chat, once its newest entry shows."""
    notebook = open_panel_page(SETUP, "panel")
    page.evaluate(MARK)
    panel = notebook.run(0).locator(".nbc")
    newest = panel.locator(".nbc-log .nbc-assistant").last
    expect(newest).to_contain_text(f"Answer {TURNS - 1}.")
    return notebook, panel


@contextmanager
def traced(page: Page) -> Iterator[list[Any]]:
    """Chromium's trace of its tasks and of our mark, whole once the block has ended."""
    trace: list[Any] = []
    handles: list[str] = []
    session = page.context.new_cdp_session(page)
    session.on("Tracing.tracingComplete", lambda told: handles.append(told["stream"]))
    categories = {"categories": "toplevel,blink.user_timing"}
    session.send("Tracing.start", {**categories, "transferMode": "ReturnAsStream"})
    try:
        yield trace
    finally:
        session.send("Tracing.end")
    while not handles:
        page.wait_for_timeout(50)
    handle = {"handle": handles[0], "size": 1_000_000}
    parts = iter(lambda: session.send("IO.read", handle)["data"], "")
    trace.extend(json.loads("".join(parts))["traceEvents"])


def longest_task(trace: list[Any]) -> float:
    """Milliseconds of the page's main thread in its longest task since the mark."""
    (mark,) = (event for event in trace if event["name"] == "nbchat-shown")
    return max(
        event["tdur"] / 1000
        for event in trace
        if event["name"] == "ThreadControllerImpl::RunTask"
        and (event["pid"], event["tid"]) == (mark["pid"], mark["tid"])
        and event["ts"] > mark["ts"]
        and "tdur" in event  # a task that the trace's end cuts off has none
    )


def test_a_long_chat_opens_scrolls_takes_typing_and_streams_without_a_stall(
    open_panel_page: OpenPanelPage, page: Page
) -> None:
    longest = (used_long_chat(open_panel_page, page) for _ in range(ATTEMPTS))
    assert any(each < LONGEST_MILLISECONDS for each in longest)


def used_long_chat(open_panel_page: OpenPanelPage, page: Page) -> float:
    """Milliseconds of the longest task while a long chat is read and continued."""
    with traced(page) as trace:
        _, panel = long_panel(open_panel_page, page)
        items = panel.locator(".nbc-log > *")
        assert items.count() < 100
        expect(items.first).to_have_css("content-visibility", "auto")
        panel.locator(".nbc-scroller").evaluate(SCROLL_UP)
        expect(items.first).to_contain_text("Question 0:")
        expect(panel.locator(".nbc-user")).to_have_count(TURNS)
        expect(panel.locator(".nbc-tool[data-state=done]")).to_have_count(2 * TURNS)
        box = panel.get_by_role("textbox")
        box.press_sequentially("Is it still quick?")
        box.press("Enter")
        answer = panel.locator(".nbc-log .nbc-assistant").last
        expect(answer).to_contain_text("THE-END", timeout=60_000)
    return longest_task(trace)


def test_earlier_messages_come_above_without_moving_what_is_read(
    open_panel_page: OpenPanelPage, page: Page
) -> None:
    notebook, panel = long_panel(open_panel_page, page)
    count = panel.locator(".nbc-log > *").count()
    oldest = panel.locator(".nbc-log .nbc-user").first.element_handle()
    oldest.scroll_into_view_if_needed()
    expect(panel.locator(".nbc-log > *")).not_to_have_count(count)
    notebook.await_answers()
    top = panel.locator(".nbc-scroller").bounding_box()["y"]
    place = oldest.bounding_box()["y"] - top
    assert 0 <= place < 400
    numbers = panel.locator(".nbc-user").evaluate_all(
        "users => users.map(user => Number(user.textContent.match(/\\d+/)[0]))"
    )
    assert numbers == sorted(numbers)


def test_stop_while_blocks_stream_loses_none_of_what_was_said(
    open_panel_page: OpenPanelPage,
) -> None:
    text = "".join(f"Paragraph {number:04}.\n\n" for number in range(2_000))
    notebook = open_panel_page(
        "from nbchat.agent.agent import Agent\nfrom nbchat.jupyter.panel.chat_ui import ChatUI\n"
        "from nbchat.testing import ScriptedProvider, says\n"
        f"ui = ChatUI(Agent(ScriptedProvider(says({text!r}, delay_seconds=0.01))))\nui",
        "said = ui.session.transcript[-1].content\nsaid.count('Paragraph')",
    )
    panel = notebook.run(0).locator(".nbc")
    panel.get_by_role("textbox").fill("Go on.")
    panel.get_by_role("textbox").press("Enter")
    expect(panel.locator(".nbc-live p").nth(20)).to_be_attached()
    panel.get_by_role("button", name="Stop").click()
    answer = panel.locator(".nbc-log .nbc-assistant")
    expect(answer).to_contain_text("cut off here")
    said = int(notebook.run(1).inner_text())
    assert 20 < said < 2_000
    shown = answer.locator(".nbc-md > p").all_text_contents()
    whole = [f"Paragraph {number:04}." for number in range(said)]
    assert shown[: said - 1] == whole[:-1]


def test_after_stop_and_another_message_everything_is_shown_in_order(
    open_panel_page: OpenPanelPage, page: Page
) -> None:
    text = "".join(f"Paragraph {number:03}.\n\n" for number in range(100))
    notebook = open_panel_page(
        "from nbchat.agent.agent import Agent\nfrom nbchat.jupyter.panel.chat_ui import ChatUI\n"
        "from nbchat.testing import ScriptedProvider, says\n"
        f"told = says({text!r}, delay_seconds=0.04), says('Two.')\n"
        "ui = ChatUI(Agent(ScriptedProvider(*told)))\nui",
    )
    panel = notebook.run(0).locator(".nbc")
    say(panel, "Go on.")
    shown = panel.locator(".nbc-live p")
    expect(shown.nth(5)).to_be_attached()
    page.evaluate(DEAF_TO_STOP)
    panel.get_by_role("button", name="Stop").click()
    seen = shown.count()
    notebook.await_messages(4)
    assert shown.count() == seen
    say(panel, "And now?")
    answers = panel.locator(".nbc-log .nbc-assistant")
    expect(answers.last).to_have_text("Two.")
    is_idle(panel)
    paragraphs = answers.first.locator(".nbc-md > p").all_text_contents()
    assert paragraphs == [f"Paragraph {number:03}." for number in range(100)]


MEGABYTES = {
    "one line": "'x' * 2_000_000",
    "words": "'word ' * 400_000",
    "lines": "'a line\\n' * 100_000",
}


@pytest.mark.parametrize("text", MEGABYTES.values(), ids=MEGABYTES)
def test_a_message_of_two_megabytes_shows_its_beginning_and_more_in_steps(
    open_panel_page: OpenPanelPage, page: Page, text: str
) -> None:
    notebook = open_panel_page(
        scripted("says('First.'), says('Second.')"),
        f"text = {text}\nui.ask(text)\nui.wait(60)\nlen(text)",
    )
    panel = panel_of(notebook)
    is_idle(panel)
    with traced(page) as trace:
        page.evaluate("performance.mark('nbchat-shown')")
        length = int(notebook.run(1).inner_text())
        expect(panel.locator(".nbc-log .nbc-assistant")).to_have_text("First.")
        message = panel.locator(".nbc-log .nbc-user")
        shown = "node => node.textContent.length"
        assert message.evaluate(shown) < 25_000
        more = message.get_by_role("button", name="Show more")
        clicks = 0
        while more.count():
            more.click()
            notebook.await_answers()
            clicks += 1
        assert clicks <= 7
        assert message.evaluate(shown) == length
        is_idle(panel)
    assert longest_task(trace) < 4 * LONGEST_MILLISECONDS


def test_a_very_long_answer_shows_its_beginning_as_markdown_and_is_copied_whole(
    open_panel_page: OpenPanelPage, page: Page
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    said = "[Entry('user', 'Go on.'), Entry('assistant', '**word** ' * 30_000)]"
    notebook = open_panel_page(scripted("", f"session=Session({said})"))
    panel = panel_of(notebook)
    answer = panel.locator(".nbc-log .nbc-assistant")
    more = answer.get_by_role("button", name="Show more")
    expect(more).to_be_visible(timeout=60_000)
    rest = answer.locator(".nbc-rest")
    expect(rest).to_contain_text("200,000 of 270,000 characters")
    expect(answer.locator("strong").first).to_have_text("word")
    more.click()
    expect(rest).to_have_count(0)
    panel.locator(".nbc-line:has(.nbc-assistant)").get_by_role(
        "button", name="Copy"
    ).click()
    page.wait_for_function(
        "async () => (await navigator.clipboard.readText()).length === 270_000"
    )


COPY = """text => {
  document.addEventListener('copy', (event) => {
    event.clipboardData.setData('text/plain', text);
    event.preventDefault();
  }, { once: true });
}"""


DRAGGED = """text => {
  const dragged = document.createElement('p');
  Object.assign(dragged, { id: 'dragged', draggable: true, textContent: 'drag me' });
  dragged.addEventListener('dragstart', (event) => {
    event.dataTransfer.setData('text/plain', text);
  });
  document.body.prepend(dragged);
}"""


def test_a_text_of_two_megabytes_becomes_a_chip_in_every_way_of_input(
    open_panel_page: OpenPanelPage, page: Page
) -> None:
    notebook = open_panel_page(
        scripted("says('First.'), says('Second.')"),
        "text = 'word ' * 400_000\nui.ask(text)\nui.wait(60)",
        "print(ui.session.transcript[-2].content, len(ui.session.transcript))",
    )
    panel = panel_of(notebook)
    notebook.run(1)
    is_idle(panel)
    box, text = panel.locator(".nbc-input"), "x" * 2_000_000
    chips = panel.locator(".nbc-attached-chip")

    def pasted() -> None:
        page.evaluate(COPY, text)
        page.keyboard.press("Control+C")
        page.keyboard.press("Control+V")

    def dropped() -> None:
        page.evaluate(DRAGGED, text)
        page.locator("#dragged").drag_to(box)

    def filled() -> None:
        box.fill(text)

    def recalled() -> None:
        box.press("ArrowUp")

    def edited() -> None:
        line = panel.locator(".nbc-line:has(.nbc-user)")
        line.hover()
        line.get_by_role("button", name="Edit").click()

    with traced(page) as trace:
        page.evaluate("performance.mark('nbchat-shown')")
        for bring in (pasted, dropped, filled, recalled, edited):
            box.focus()
            bring()
            expect(chips).to_have_count(1, timeout=60_000)
            expect(chips).to_contain_text("tokens")
            expect(box).to_have_value("")
            if bring is edited:
                box.press("Escape")
            else:
                chips.get_by_role("button", name="Don't attach").click()
    assert longest_task(trace) < 4 * LONGEST_MILLISECONDS
