"""The command line: `nbchat demo`, `nbchat doctor` and more."""
