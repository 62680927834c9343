"""Attachments of a message, from the notebook and from files."""
