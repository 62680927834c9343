"""What can be said to the chat itself: one table for the panel, `%chat` and the CLI."""

from nbchat.chat.commands.result import CommandResult
from nbchat.chat.commands.table import Commands

__all__ = ["CommandResult", "Commands"]
