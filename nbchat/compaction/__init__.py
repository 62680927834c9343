"""When a conversation is compacted, what is folded, and what is kept of it.

meter (when) -> units (where) -> plan (what exactly) -> pruning (smaller, by no model),
with outputs, hits, structure (each by its kind) and fitting (into a budget) -> summary
(the story, by a model) or extract (by none), attempts (in which order) -> ledger,
identifiers (the facts, by code) -> envelope (as data) -> engine (all of it).
"""
