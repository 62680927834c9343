"""What code remembers of a conversation, word for word.

records (what tools answered) -> things (a row each), calls (what was done), identifiers
(what was said); weights (how telling) -> rows (within a budget) -> ledger (all of it).
"""
