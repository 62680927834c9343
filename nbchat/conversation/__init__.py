"""A conversation: entries, turns, sessions, events, tools, costs and search."""
