"""What a saved notebook shows in the panel's place while no kernel draws the panel.

JupyterLab shows "model not found" or "Loading widget..." for a widget whose kernel is
gone, whatever else its output holds. So a line of HTML is an output of its own: beside
a panel it is hidden, elsewhere it is what can be read. It is the same in every run and
says nothing of the conversation.
"""

from typing import Any

from IPython.display import display

_STYLE = """
.nbc-closed { animation: nbc-closed 3s step-end backwards; }
@keyframes nbc-closed { from { visibility: hidden; } }
.jp-OutputArea-child:has(> .jp-OutputArea-output > .lm-Widget > .nbc)
  + .jp-OutputArea-child:has(> .jp-OutputArea-output > .nbc-closed),
.jp-OutputArea-child:not(:has(> .jp-OutputArea-output > .lm-Widget > .nbc)):has(
  + .jp-OutputArea-child > .jp-OutputArea-output > .nbc-closed) {
  display: none;
}
"""
# The line waits for three seconds: a panel that is just being drawn takes its place. By
# `>` the browser need not look for it all through a conversation at each new word.

CLOSED_TEXT = (
    "Chat panel of nbchat: where it does not show, run this cell to open it, "
    "or chat in cells with %%chat."
)


def show(panel: dict[str, Any]) -> None:
    """Show a panel, given as its outputs by type, and the line below it."""
    html = f'<style>{_STYLE}</style><div class="nbc-closed">{CLOSED_TEXT}</div>'
    display(panel, raw=True)  # type: ignore[no-untyped-call]
    display({"text/html": html}, raw=True)  # type: ignore[no-untyped-call]
