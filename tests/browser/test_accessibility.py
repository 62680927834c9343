"""The panel for those who hear it, who see little, and who use no mouse."""

from collections.abc import Callable
from pathlib import Path

from panel_page import OpenPanelPage
from panels import OWN, choose, is_idle, panel_of, say, scripted
from playwright.sync_api import Page, expect
from readable import contrasts, dark, faults_in_light_and_dark

Screenshot = Callable[[str], Path]

DECIDING = """
from nbchat.agent.approvals import Approvals
from nbchat.testing import calls
from nbchat.conversation.tools import as_tools

def refund(ticket: int) -> str:
    "Pay back."
    return "paid"

agent.tools, agent.approve = as_tools([refund]), Approvals()
code = "Like this:\\n\\n```python\\ntotal = 3\\n```"
agent.use(ScriptedProvider(calls('refund', ticket=42), says(code), says(code)))
%chat
"""

ANSWER = """\
# A heading

Here is **what I found** in `ticket 42`, *all* of it: [more](https://example.org)

> They said it is urgent.

| field | value |
|---|--:|
| opened | 3 |

```python
@cache
def total(items: list[int], *, start: int = 0x1F) -> float:
    "What they come to."
    class Sum(Exception): pass  # all of them
    return sum(items, start) if items and not None else 1e3
```

```html
<!DOCTYPE html><p class="x">a &amp; b</p><!-- note -->
```

```diff
-old
+new
```

$\\sqrt{x^2}$ is enough?"""


# Notes what is put into the live regions: that is what a screen reader says.
LISTEN = """region => {
    window.nbchatSpoken = [];
    const hear = ({ addedNodes }) => [...addedNodes].map(node => node.textContent);
    const watch = new MutationObserver(
        changes => window.nbchatSpoken.push(...changes.flatMap(hear)));
    document.querySelectorAll("[aria-live=polite]").forEach(
        region => watch.observe(region, { childList: true, characterData: true, subtree: true }));
}"""


def heard(page: Page, count: int) -> list[str]:
    """All that was said, once it is so much: a message is said after it is drawn."""
    page.wait_for_function("count => nbchatSpoken.length >= count", arg=count)
    spoken: list[str] = page.evaluate("nbchatSpoken")
    return spoken


def test_the_panel_and_its_dialogs_have_no_fault_in_light_and_dark(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    found: dict[str, list[str]] = {}
    panel = panel_of(open_panel_page(OWN))
    found["empty"] = faults_in_light_and_dark(panel)
    panel.locator(".nbc-input").fill("What does @table hold, and @file:gone.csv?")
    chips = panel.get_by_role("list", name="Attached")
    expect(chips).to_contain_text("There's no file")
    found["chips"] = faults_in_light_and_dark(panel)
    screenshot("chips")
    say(panel, "What does @table hold?")
    is_idle(panel)
    panel.locator(".nbc-input").press_sequentially("@tab")
    expect(panel.locator(".nbc-choice").first).to_be_visible()
    found["names"] = faults_in_light_and_dark(panel)
    panel.locator(".nbc-input").fill("/")
    expect(panel.locator(".nbc-choice").first).to_be_visible()
    found["commands"] = faults_in_light_and_dark(panel)
    screenshot("choices")
    panel.locator(".nbc-input").fill("")
    for name in ("Settings", "History", "Compact"):
        choose(panel, name)
        dialog = panel.get_by_role("dialog")
        expect(dialog.locator(".nbc-dialog-status")).not_to_contain_text("Loo")
        found[name] = faults_in_light_and_dark(panel)
        screenshot(name)
        page.keyboard.press("Escape")
    panel.locator(".nbc-input").fill("@table")
    chips.get_by_role("button").first.click()
    expect(panel.get_by_role("dialog")).to_contain_text("[1, 2]")
    found["preview"] = faults_in_light_and_dark(panel)
    assert [(state, fault) for state in found for fault in found[state]] == []


def test_messages_tools_and_notices_have_no_fault_in_light_and_dark(
    open_panel_page: OpenPanelPage, screenshot: Screenshot
) -> None:
    found: dict[str, list[str]] = {}
    script = (
        f"calls('look_up', ticket=42), calls('look_up', ticket=7), calls('wait'), "
        f"says({ANSWER + ' word' * 400!r}, delay_seconds=0.05), says({ANSWER!r})"
    )
    notebook = open_panel_page(
        scripted(script, "tools=[look_up, wait]"),
        "go.set()",
        "put = ui._show\n"
        "def record(status, **more):\n"
        "    return Compaction(status, 0, 2, '<summary>She **waits**.</summary><facts>\\nDESK-7'\n"
        "        '</facts>', 5_000, 500, status=status, **more)\n"
        "for status in ('done', 'degraded'):\n"
        "    put(Compacted(record(status, note='summarized in 2 parts', model='m')))\n"
        "put(Compacted(record('undone')))\n"
        "put(CompactionSkipped('there is too little to summarize'))\n"
        "put(CompactionFailed(record('failed', reason='the summary is empty')))\n"
        "put(PinsChanged(('Never promise a date.',)))\n"
        "put(SavingFailed('the disk is full'))\n"
        "put(CommandReplied('the policy is single-summary'))\n"
        "put(EntryAdded(0, Entry('thinking', 'Is she well?')))\n"
        "put(EntryAdded(0, Entry('assistant', 'It is', '', '', INCOMPLETE)))\n"
        "put(CompactionStarted('auto', 12, 5_000))\n"
        "put(RetryScheduled(2, 60.0, 'the server is overloaded'))\n"
        "put(TurnFailed('The key was refused; check OPENAI_API_KEY.'))\n"
        "put(RetryScheduled(2, 60.0, 'the server is overloaded'))\n"
        "put(QueueChanged(('and then?',)))\n"
        "put(CompactionStarted('auto', 12, 5_000))\n",
    )
    panel = panel_of(notebook)
    say(panel, "What is in ticket 42?")
    cards = panel.locator(".nbc-tool")
    expect(cards).to_have_count(3)
    for card in cards.all():
        card.locator("summary").click()
    found["tools"] = faults_in_light_and_dark(panel)
    screenshot("tools")
    notebook.run(1)
    expect(panel.locator(".nbc-live h1")).to_have_text("A heading")
    found["streaming"] = faults_in_light_and_dark(panel)
    panel.get_by_role("button", name="Stop").click()
    is_idle(panel)
    say(panel, "All of it, please.")
    is_idle(panel)
    with dark(panel.page):
        in_dark = contrasts(panel)
    in_light = contrasts(panel)
    assert in_dark != in_light
    for shown in (in_dark, in_light):
        assert sum("nbc-code" in each["where"] for each in shown) > 20
    found["answer"] = faults_in_light_and_dark(panel)
    screenshot("answer")
    notebook.run(2)
    expect(panel.locator(".nbc-banner[data-state=running]")).to_be_visible()
    for part in panel.locator(".nbc-banner > summary, .nbc-thinking > summary").all():
        part.click()
    found["banners"] = faults_in_light_and_dark(panel)
    screenshot("banners")
    notebook.end_kernel()
    expect(panel.get_by_role("alert")).to_contain_text("The kernel ")
    found["gone"] = faults_in_light_and_dark(panel)
    screenshot("gone")
    assert [(state, fault) for state in found for fault in found[state]] == []


def test_what_can_be_decided_and_chosen_has_no_fault_in_light_and_dark(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    found: dict[str, list[str]] = {}
    panel = panel_of(open_panel_page(OWN + DECIDING))

    def look(state: str) -> None:
        found[state] = faults_in_light_and_dark(panel)
        screenshot(state)

    say(panel, "What is in ticket 42?")
    expect(panel.get_by_role("button", name="Approve", exact=True)).to_be_visible()
    look("waits")
    panel.get_by_role("button", name="Deny").click()
    is_idle(panel)
    say(panel, "/pin Never promise a date.")
    is_idle(panel)
    look("buttons")
    panel.locator(".nbc-line[data-kind=prompt] >> role=button[name=Edit]").first.click()
    expect(panel.get_by_text("Editing an earlier message")).to_be_visible()
    look("editing")
    page.keyboard.press("Escape")
    panel.get_by_role("button", name="More", exact=True).first.click()
    look("menu")
    panel.get_by_role("menuitem", name="Pins").click()
    look("pins")
    page.keyboard.press("Escape")
    panel.get_by_role("button", name="More", exact=True).first.click()
    panel.get_by_role("menuitem", name="Sessions").click()
    expect(panel.get_by_role("dialog").get_by_text("current")).to_be_visible()
    look("sessions")
    page.keyboard.press("Escape")
    panel.locator(".nbc-model").click()
    expect(panel.get_by_role("dialog").locator(".nbc-model-name").first).to_be_visible()
    look("models")
    page.keyboard.press("Escape")
    panel.locator(".nbc-open-context").click()
    expect(panel.get_by_role("dialog").get_by_role("table").first).to_be_visible()
    look("context")
    assert [(state, fault) for state in found for fault in found[state]] == []


def test_each_finished_message_is_announced_once_and_what_is_shown_again_is_not(
    open_panel_page: OpenPanelPage, page: Page
) -> None:
    said = "[Entry(*pair) for n in range(60) for pair in (('user', f'Q{n}'), ('assistant', f'A{n} ' * 99))]"
    notebook = open_panel_page(
        scripted(
            f"says({ANSWER!r}), says('word ' * 400, delay_seconds=0.05)",
            f"session=Session({said})",
        ),
        "from dataclasses import replace\n"
        "put = ui._show\n"
        "record = Compaction('c', 0, 2, '<summary>She waits.</summary>', 5_000, 500, messages=2)\n"
        "put(CompactionStarted('manual', 2, 5_000))\n"
        "put(Compacted(record))\n"
        "put(CompactionUndone(replace(record, status='undone')))\n"
        "put(TurnFailed('The key was refused.'))",
        "ui",
    )
    panel = panel_of(notebook)
    newest = panel.locator(".nbc-log .nbc-assistant").last
    expect(newest).to_contain_text("A59")
    log = panel.get_by_role("log", name="Conversation")
    expect(log).to_have_attribute("aria-live", "off")
    expect(panel.locator(".nbc-live")).to_have_attribute("aria-live", "off")
    spoken = panel.locator("[aria-live=polite]")
    expect(spoken).to_be_empty()
    spoken.evaluate(LISTEN)
    panel.locator(".nbc-scroller").evaluate("scroller => { scroller.scrollTop = 0 }")
    expect(log).to_contain_text("A40")
    assert page.evaluate("window.nbchatSpoken") == []
    say(panel, "What is in ticket 42?")
    is_idle(panel)
    (answer,) = heard(page, 1)
    assert answer.startswith("Assistant: A heading\nHere is what I found in ticket 42")
    assert "Copy" not in answer
    say(panel, "Tell me a story.")
    expect(panel.locator(".nbc-live")).to_contain_text("word word")
    panel.get_by_role("button", name="Stop").click()
    is_idle(panel)
    notebook.run(1)
    expect(panel.locator(".nbc-error")).to_be_visible()
    _, story, *notices = heard(page, 5)
    assert story.startswith("Assistant: word word")
    assert story.endswith("\ncut off here")
    assert notices == [
        "Compaction occurred: 2 messages, 5,000 → 500 tokens",
        "Compaction undone: the model sees the original 2 messages again.",
        "The key was refused.",
    ]
    second = panel_of(notebook, 2)
    expect(second.locator(".nbc-error")).to_be_visible()
    expect(second.locator("[aria-live=polite]")).to_be_empty()
    second.locator("[aria-live=polite]").evaluate(LISTEN)
    say(second, "And now?")
    is_idle(second)
    assert heard(page, 1) == ["Assistant: (end of script)"]
