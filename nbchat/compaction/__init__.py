"""When a conversation is compacted, what is folded, and what is kept of it.

meter (when) -> units (where) -> pruning (smaller without a model) -> summary (the
story, by the model) -> ledger (the facts, by code) -> engine (all of it, in order).
"""
