"""What axe-core finds wrong in a part of a page, and how well its text can be read."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import axe_playwright_python
from playwright.sync_api import Locator, Page

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

# `CONTRASTS` measures colours, sooner and of more texts than axe.
# A list that the arrow keys of the focused box scroll needs no focus of its own: axe
# knows that of comboboxes, which a textarea may not be.
RUN = """async (root, chosen) => {
    const { violations } = await axe.run(root, {
        runOnly: chosen, elementRef: true, rules: { "color-contrast": { enabled: false } } });
    const list = document.activeElement.getAttribute("aria-controls");
    const isScrolled = (id, element) =>
        id === "scrollable-region-focusable" && element.id && element.id === list;
    return violations.flatMap(({ id, help, nodes }) => nodes
        .filter(({ element }) => !isScrolled(id, element))
        .map(({ html, failureSummary }) =>
            `${id} (${help}): ${html.slice(0, 160)} ${failureSummary}`));
}"""

LEAST_CONTRAST = 4.5

WEAR = "light => { document.body.dataset.jpThemeLight = light }"

# Buttons that wait for the pointer, as they look when it is there.
POINTED_AT = ".nbc-actions { opacity: 1 !important; transition: none !important }"

# Of an element's text with the panel's own ground.
CONTRAST = """element => {
    const context = document.createElement('canvas').getContext('2d');
    const drawn = colour => {
        context.fillStyle = colour; context.fillRect(0, 0, 1, 1);
        return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3).map(value =>
            value / 255 <= 0.04045 ? value / 3294.6 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    };
    const light = colour => {
        const [red, green, blue] = drawn(colour);
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const ground = light(getComputedStyle(element.closest('.nbc')).backgroundColor);
    const text = light(getComputedStyle(element).color);
    return (Math.max(ground, text) + 0.05) / (Math.min(ground, text) + 0.05);
}"""

# Every text that is shown, on what is painted below it: backgrounds of ancestors up to
# an opaque one, and everybody's opacity. A canvas reads any colour CSS can write.
CONTRASTS = """root => {
    const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const read = colour => {
        pen.clearRect(0, 0, 1, 1);
        pen.fillStyle = colour;
        pen.fillRect(0, 0, 1, 1);
        const [red, green, blue, alpha] = pen.getImageData(0, 0, 1, 1).data;
        return [red, green, blue, alpha / 255];
    };
    const over = (top, below) => [0, 1, 2].map(
        n => top[n] * top[3] + below[n] * (1 - top[3])).concat(1);
    const path = element => element ? [element, ...path(element.parentElement)] : [];
    const ground = element => path(element).reverse().reduce((below, each) =>
        over(read(getComputedStyle(each).backgroundColor), below), [255, 255, 255, 1]);
    const light = ([red, green, blue]) => [red, green, blue]
        .map(value => value / 255)
        .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
        .reduce((sum, value, n) => sum + value * [0.2126, 0.7152, 0.0722][n], 0);
    const faded = element => path(element).reduce(
        (share, each) => share * getComputedStyle(each).opacity, 1);
    const measure = (element, text, style = getComputedStyle(element)) => {
        const below = ground(element);
        const colour = read(style.color);
        colour[3] *= faded(element) * style.opacity / getComputedStyle(element).opacity;
        const [dark, bright] = [light(below), light(over(colour, below))].sort((a, b) => a - b);
        const where = path(element).slice(0, 3).map(each => each.className || each.localName);
        return { text: text.trim().slice(0, 40), where: where.join(" < "),
            ratio: (bright + 0.05) / (dark + 0.05) };
    };
    const shown = element => element.getClientRects().length > 0
        && getComputedStyle(element).visibility === "visible";
    const found = [];
    const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const { data, parentElement: element } = texts.currentNode;
        if (data.trim() && shown(element)) found.push(measure(element, data));
    }
    for (const element of root.querySelectorAll("*")) {
        if (!shown(element)) continue;
        for (const pseudo of ["::before", "::after"]) {
            const style = getComputedStyle(element, pseudo);
            const text = style.content.replaceAll('"', "");
            if (text.trim() && text !== "none") found.push(measure(element, text, style));
        }
        if (element.placeholder) {
            found.push(measure(element, element.placeholder,
                getComputedStyle(element, "::placeholder")));
        }
    }
    return found;
}"""


def faults(root: Locator) -> list[str]:
    """What axe-core's rules say against a part of a page, and texts too pale to read."""
    page = root.page
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
        page.add_style_tag(content=POINTED_AT)
    found: list[str] = root.evaluate(RUN, TAGS)
    return found + pale(root)


def faults_in_light_and_dark(root: Locator) -> list[str]:
    """The same of a part of the blank page, and what is too pale in the dark theme."""
    found = faults(root)
    with dark(root.page):
        return [*found, *(f"dark: {each}" for each in pale(root))]


@contextmanager
def dark(page: Page) -> Iterator[None]:
    """The blank page in JupyterLab's dark theme meanwhile."""
    page.evaluate(WEAR, False)
    yield
    page.evaluate(WEAR, True)


def pale(root: Locator) -> list[str]:
    """Texts whose contrast is too low to read."""
    return [
        f"{each['text']!r} in {each['where']} has {each['ratio']:.2f}:1"
        for each in contrasts(root)
        if each["ratio"] < LEAST_CONTRAST
    ]


def contrasts(root: Locator) -> list[dict[str, Any]]:
    """Every text that is shown, its position, and its contrast with its background."""
    found: list[dict[str, Any]] = root.evaluate(CONTRASTS)
    return found
