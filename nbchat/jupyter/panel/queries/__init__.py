"""Queries of views, and their answers; a query changes nothing."""
