"""Old tool outputs, made shorter without a model.

outputs (of which kind), hits (search results), structure (JSON) -> choice (which of
them, and whether it pays).
"""
