"""What can be said to the chat itself: one table for the panel, `%chat` and the CLI."""

from nbchat.commands.result import CommandResult
from nbchat.commands.table import Commands

__all__ = ["CommandResult", "Commands"]
