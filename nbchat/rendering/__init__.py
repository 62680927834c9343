"""Conversations as safe HTML and plain text."""
