"""When a conversation is compacted, what is folded, and what is kept of it.

meters (when) -> units (where) -> plan (what exactly) -> pruning (shorter, by no model)
-> story (by a model), facts (by code), as data (envelope) within a budget (fitting)
-> replacement (the entry that stands in) -> engine (all of it), changes (what a person
makes of it); policies (presets).
"""
