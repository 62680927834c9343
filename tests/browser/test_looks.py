"""How the panel looks: narrow, wide, enlarged, in high contrast, and right to left."""

from collections.abc import Callable, Iterator
from pathlib import Path

from panel_page import OpenPanelPage
from panels import OWN, SETUP, choose, is_idle, panel_of, say
from playwright.sync_api import Locator, Page, expect

Screenshot = Callable[[str], Path]

ANSWER = (
    """\
# A heading

مرحبا، هذا `orders` جدول:

- أولا
- ثانيا

| field | value | another column | and one more of them |
|---|--:|---|---|
| opened | 3 | a_value_that_is_long_and_has_no_space | 2026-11-24 |

```python
total = sum(order.amount for order in orders if order.status == "open" and order.late)
```

"""
    + "a word " * 60
    + "w" * 300
)

CHAT = f"""{SETUP}
answer = {ANSWER!r}
provider = ScriptedProvider(
    says("Short."), says("Short, too. " * 40), calls("look_up", ticket=42), says(answer),
    says("<summary>A chat about orders.\\nThe printer of 42 is offline.</summary>"),
    says(answer), says(answer), says(answer))
ui = ChatUI(Agent(provider, tools=[look_up]), height="640px")
ui"""

OVERFLOWING = """root => {
    const clips = new Set(["auto", "scroll", "hidden", "clip"]);
    const outer = root.getBoundingClientRect();
    const isClipped = each => {
        for (let above = each.parentElement; above && above !== root; above = above.parentElement) {
            if (clips.has(getComputedStyle(above).overflowX)
                && above.getBoundingClientRect().right <= outer.right + 1) return true;
        }
        return false;
    };
    return [...root.querySelectorAll("*")].filter(each => {
        const { left, right, width } = each.getBoundingClientRect();
        const isOut = right > outer.right + 1 || left < outer.left - 1;
        return width && isOut && !isClipped(each);
    }).map(each => `${each.tagName}.${each.className}`);
}"""

SIDEWAYS = """root => [...root.querySelectorAll(".nbc-scroller, .nbc-box, .nbc-dialog, .nbc-dialog *")]
    .filter(each => each.clientWidth && each.scrollWidth > each.clientWidth + 1
        && !each.matches("pre, pre *, input, table, .nbc-scroll *")).map(each => each.className)"""

# A word or number of a table that stands on two lines
BROKEN = """root => [...root.querySelectorAll(".nbc-md :is(th, td)")].filter(each => {
    const range = document.createRange();
    range.selectNodeContents(each);
    const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
    return each.checkVisibility() && !/[\\s-]/.test(each.textContent) && lines.size > 1;
}).map(each => each.textContent)"""

# On which side of its line the first letter is drawn, the line being as wide as it needs
BEGINS = """each => {
    const range = document.createRange();
    const text = document.createTreeWalker(each, NodeFilter.SHOW_TEXT).nextNode();
    range.setStart(text, 0);
    range.setEnd(text, 1);
    const [letter, box] = [range.getBoundingClientRect(), each.getBoundingClientRect()];
    return letter.left - box.left < box.right - letter.right ? "left" : "right";
}"""

SMALL = """root => [...root.querySelectorAll("button")].filter(each => {
    const { width, height } = each.getBoundingClientRect();
    return each.checkVisibility() && width && (width < 24 || height < 24);
}).map(each => each.outerHTML.slice(0, 120))"""


COLUMNS = """root => {
    const [text, box] = [".nbc-log", ".nbc-form"].map(
        each => root.querySelector(each).getBoundingClientRect());
    return [text.left - box.left, text.right - box.right];
}"""
"""How far the text is beside the box below."""

DRAWN = "() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
"""Wait until a new width has reached everything."""


def misfits(panel: Locator) -> list[str]:
    """What is outside of the panel, scrolls sideways, or is too small to hit."""
    return [
        fault
        for script in (OVERFLOWING, SIDEWAYS, SMALL, BROKEN)
        for fault in panel.evaluate(script)
    ]


def chat(open_panel_page: OpenPanelPage) -> Locator:
    """A panel with messages, a table, code, a tool's card and a compaction."""
    panel = panel_of(open_panel_page(CHAT))
    for text in ("Hello " + "o" * 120, "اشرح لي `orders` من فضلك", "What about 42?"):
        say(panel, text)
        is_idle(panel)
    say(panel, "/compact")
    is_idle(panel)
    say(panel, "And now?")
    is_idle(panel)
    return panel


WIDTHS = (350, 640, 1920)
"""Pixels; 640 are 1,280 at a zoom of 200 %."""


class Look:
    """What does not fit in the states of a panel, at each width."""

    def __init__(self, page: Page, screenshot: Screenshot) -> None:
        """Nothing was looked at yet."""
        self.page = page
        self.screenshot = screenshot
        self.found: dict[tuple[str, int], list[str]] = {}

    def at(self, panel: Locator, state: str) -> Iterator[int]:
        """Each width, in which the panel is shown meanwhile; what misfits is kept."""
        for width in WIDTHS:
            self.page.set_viewport_size({"width": width, "height": 900})
            self.page.evaluate(DRAWN)
            if faults := misfits(panel):
                self.found[state, width] = faults
            self.screenshot(f"{state}-{width}")
            yield width

    def over(self, panel: Locator, state: str) -> None:
        """Look at a state that is the same at any width."""
        for _ in self.at(panel, state):
            pass


def test_everything_fits_at_any_width(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    look = Look(page, screenshot)
    panel = chat(open_panel_page)
    send = panel.locator(".nbc-send")
    expect(send).to_have_css("background-color", "rgba(0, 0, 0, 0)")  # nothing to send
    page.add_style_tag(content=".nbc-scroller { padding-right: 15px }")  # a scroll bar
    assert panel.evaluate(COLUMNS) == [0, 0]
    look.over(panel, "chat")
    dialog = panel.get_by_role("dialog")
    for name in ("Compact", "History", "Pins"):
        choose(panel, name)
        expect(dialog).to_be_visible()
        look.over(panel, name)
        page.keyboard.press("Escape")
    panel.locator(".nbc-open-context").click()
    expect(dialog.get_by_role("row", name="Used")).to_be_visible()
    expect(dialog.get_by_role("columnheader", name="Cost")).to_be_visible()
    look.over(panel, "context")
    page.keyboard.press("Escape")
    panel.locator(".nbc-line[data-kind=banner] summary").first.click()
    summary = panel.locator(".nbc-summary-text > .nbc-md p")
    for _ in look.at(panel, "summary"):
        assert "orders.\nThe printer" in summary.inner_text()
    assert look.found == {}


def test_completions_and_lists_are_shown_above_the_box_in_whole_words(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    look = Look(page, screenshot)
    panel = panel_of(open_panel_page(OWN))
    say(panel, "/context")
    is_idle(panel)
    expect(panel.get_by_role("cell", name="compact now")).to_be_visible()
    look.over(panel, "listed")
    panel.locator(".nbc-input").fill("/")
    expect(panel.locator(".nbc-choice").first).to_be_visible()
    edges = "each => [each.getBoundingClientRect().left, each.getBoundingClientRect().right]"
    for _ in look.at(panel, "offered"):
        offered, form = (panel.locator(f".nbc-{part}") for part in ("choices", "form"))
        assert offered.evaluate(edges) == form.evaluate(edges)
    assert look.found == {}


def test_everything_fits_from_right_to_left(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    page.evaluate("() => { document.documentElement.dir = 'rtl' }")
    panel = chat(open_panel_page)
    page.evaluate("() => { document.documentElement.dir = 'rtl' }")
    assert misfits(panel) == []
    for text, side in (("اشرح", "right"), ("What about 42?", "left")):
        shown = panel.locator(".nbc-user", has_text=text).locator("text=" + text)
        assert shown.first.evaluate(BEGINS) == side
    screenshot("chat")


def test_in_high_contrast_every_button_and_line_is_drawn(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    page.emulate_media(forced_colors="active")
    panel = chat(open_panel_page)
    panel.locator(".nbc-line[data-kind=prompt]").last.hover()
    invisible = panel.evaluate(
        """root => [...root.querySelectorAll("button[data-icon]")].filter(each => {
            const style = getComputedStyle(each, "::before");
            return each.checkVisibility() && (style.backgroundColor === "rgba(0, 0, 0, 0)"
                || style.backgroundColor === getComputedStyle(root).backgroundColor);
        }).map(each => each.outerHTML.slice(0, 120))"""
    )
    assert invisible == []
    assert misfits(panel) == []
    screenshot("chat")
    page.emulate_media(forced_colors="none")


def test_with_reduced_motion_nothing_moves_by_itself(
    open_panel_page: OpenPanelPage, page: Page
) -> None:
    page.emulate_media(reduced_motion="reduce")
    script = "says('word ' * 200, delay_seconds=0.05)"
    panel = panel_of(
        open_panel_page(f"{SETUP}\nui = ChatUI(Agent(ScriptedProvider({script})))\nui")
    )
    say(panel, "Go on.")
    expect(panel.locator(".nbc-live")).to_contain_text("word word")
    moving = page.evaluate(
        "() => document.getAnimations().map(each => each.effect.target.className)"
    )
    assert moving == []
    panel.get_by_role("button", name="Stop").click()
    is_idle(panel)
    page.emulate_media(reduced_motion="no-preference")
