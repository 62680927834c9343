"""The chat panel: a widget, its script and style, and their protocol."""
