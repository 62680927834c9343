"""Stands before the real module in every process that tests start; see conftest.py."""

raise ImportError("38 grammars of web addresses, which take a second to read")
