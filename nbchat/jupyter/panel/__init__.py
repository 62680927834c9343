"""The chat panel: one widget, its script, its style and its protocol."""

from nbchat.jupyter.panel.chat_ui import ChatUI

__all__ = ["ChatUI"]
