"""When it is time: what was spent, what fills the window, and when it is no use.

spending (at what price), breaker (when no more) -> meter (the decision) -> gauge (all
of it, and the counting).
"""
