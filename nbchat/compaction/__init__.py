"""When a conversation is compacted, what is folded, and what is kept of it.

meter (when) -> units (where) -> plan (what exactly) -> pruning (smaller, by no model)
-> summary (the story, by a model) or extract (by none), attempts (in which order)
-> ledger, identifiers (the facts, by code) -> envelope (as data) -> engine (all of it)
-> changes (what a person makes of it).
"""
