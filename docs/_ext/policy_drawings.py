"""The directive `policy-drawing`: a preset as an SVG, made from its fields.

    ```{policy-drawing} tiered
    ```

The bars are one model's window. Colours are those of the theme, so that a drawing can
be read in its dark form, too (`_static/drawings.css`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from nbchat import PRESETS, Policy

WIDTH, LEFT, BAR, HEIGHT = 680, 10, 24, 22
"""Of a drawing, its margin, the height of a bar, and the height of a line of text."""

WINDOW = WIDTH - 2 * LEFT
"""Width of the whole window."""

SYSTEM, ENTRY, LINES = 0.06, 0.15, 0.05
"""Shares of the window that are drawn for the system prompt, the entry and the lines of
older exchanges."""

KEPT = {"exchanges": 0.2, "messages": 0.14, "tokens": 0.05}
"""And for what stays word for word."""

REQUESTS = 5
"""That add up to a threshold."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar: its share of the window, its class in CSS and its label."""

    share: float
    look: str
    label: str = ""


def drawing(policy: Policy) -> str:
    """The SVG of a policy."""
    body, bottom, text = _sum(policy) if _is_a_sum(policy) else _window(policy)
    return (
        f'<svg class="policy" role="img" viewBox="0 0 {WIDTH} {bottom:.0f}" '
        f'aria-label="{escape(text, quote=True)}">{body}</svg>'
    )


def _is_a_sum(policy: Policy) -> bool:
    return policy.meter == "cumulative"


def _sum(_policy: Policy) -> tuple[str, float, str]:
    """Requests of growing size until their sum reaches the threshold."""
    shapes, top = [_text(LEFT, 14, "Requests since the last compaction")], 22.0
    for number in range(1, REQUESTS + 1):
        messages = Part(0.055 * number, "old", "" if number < REQUESTS else "messages")
        shapes += _bar(top, [Part(SYSTEM, "system"), messages])
        shapes.append(_text(LEFT + WINDOW * 0.36, top + 16, f"request {number}"))
        top += BAR + 4
    shapes.append(
        _text(LEFT + WINDOW * 0.52, 90, "their input tokens add up to the threshold")
    )
    shapes.append(_text(LEFT, top + 18, "The next request"))
    top += 26
    shapes += _bar(top, [Part(SYSTEM, "system"), Part(ENTRY, "entry", "entry")])
    text = (
        f"{REQUESTS} requests grow until their input tokens add up to the threshold. "
        "Then one entry replaces all messages."
    )
    return "".join(shapes), top + BAR + 6, text


def _window(policy: Policy) -> tuple[str, float, str]:
    """A window that fills to the limit, and what is left of it."""
    limit = policy.window_share - policy.margin_share
    kept = KEPT[policy.keep_unit]
    shown = f"{policy.keep:,} {policy.keep_unit}"
    at = f"{limit:.0%} of the window"
    if policy.share_of == "usable":
        at = f"{policy.window_share:.0%} less the room for an answer"
        limit -= 0.06
    top = 26.0
    shapes = [_text(LEFT, 14, "The context before")]
    old = Part(limit - SYSTEM - kept, "old", "older messages")
    newest = Part(kept, "kept", _fitting(f"last {shown}", kept))
    shapes += _bar(top, [Part(SYSTEM, "system"), old, newest])
    x = LEFT + WINDOW * limit
    shapes.append(
        f'<line class="limit" x1="{x:.0f}" x2="{x:.0f}" y1="{top - 6}" '
        f'y2="{top + BAR + 6}"/>'
    )
    side = "end" if limit > 0.6 else "start"  # noqa: PLR2004  # else it leaves the drawing
    shapes.append(_text(x, 14, at, anchor=side))
    if policy.shortens_at_once:
        shapes.append(_cuts(top, limit))
    top += BAR + HEIGHT + 8
    shapes.append(_text(LEFT, top - 6, "and after"))
    lines = [Part(LINES, "lines")] * bool(policy.bullets)
    after = [Part(SYSTEM, "system"), Part(ENTRY, "entry", "entry"), *lines, newest]
    shapes += _bar(top, after)
    notes = [*_notes(policy, shown)]
    for note in notes:
        top += HEIGHT
        shapes.append(_text(LEFT, top + BAR - 2, note))
    text = f"The context fills to {at}. {' '.join(notes)}"
    return "".join(shapes), top + BAR + 6, text


def _notes(policy: Policy, shown: str) -> Iterator[str]:
    yield f"The entry replaces older messages. The last {shown} stay word for word."
    if policy.bullets:
        yield f"Each of {policy.bullets} exchanges before is a line in the entry."
    if policy.target_share:
        yield f"The context must be below {policy.target_share:.0%} of the window then."
    if policy.shortens_at_once:
        yield "Long outputs of tools are shortened before the model first reads them."


def _fitting(label: str, share: float) -> str:
    """The label, where the part is wide enough for it."""
    return label if share * WINDOW > len(label) * 7 else ""


def _bar(top: float, parts: list[Part]) -> Iterator[str]:
    """The window's outline, and its parts from the left."""
    yield _rectangle(LEFT, top, WINDOW, "window")
    x = float(LEFT)
    for part in parts:
        width = part.share * WINDOW
        yield _rectangle(x, top, width, part.look)
        if part.label:
            yield _text(x + width / 2, top + 16, part.label, anchor="middle")
        x += width


def _cuts(top: float, limit: float) -> str:
    """Marks where outputs of tools were cut."""
    places = (LEFT + WINDOW * limit * share for share in (0.2, 0.67))
    return "".join(_text(x, top + 15, "✂", anchor="middle") for x in places)


def _rectangle(x: float, y: float, width: float, look: str) -> str:
    return (
        f'<rect class="{look}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}"/>'
    )


def _text(x: float, y: float, text: str, *, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


class PolicyDrawing(SphinxDirective):
    """The drawing of the preset that is its argument."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The SVG, as it is."""
        svg = drawing(PRESETS[self.arguments[0]])
        return [nodes.raw("", svg, format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("policy-drawing", PolicyDrawing)
    return {"parallel_read_safe": True}
