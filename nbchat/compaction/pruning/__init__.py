"""Shortening of tool outputs without a model."""
