"""The story, which a model writes, and what may pass for one.

sizes (how much fits) -> chunks, drafts (in how many requests) -> summary (what is
asked) -> writers (of whom) -> gates (what may pass) -> attempts (in which order);
extract (by no model).
"""
