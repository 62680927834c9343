"""The rules by which conversations look alike in the panel and in an exported page."""

from pathlib import Path

from nbchat.rendering.markdown import pygments_css

_FOLDER = Path(__file__).parent / "css"

_FILES = ("base", "transcript", "folded", "banners", "markdown")
"""In the order of the cascade."""


def stylesheet() -> str:
    """CSS of everything a conversation consists of, colours of code included."""
    rules = ((_FOLDER / f"{name}.css").read_text(encoding="utf-8") for name in _FILES)
    return "\n".join((*rules, pygments_css()))
