"""Replace old parts of a conversation by a summary: when, what and how.

| question | modules |
|---|---|
| when | `triggers/` (meters, limits, the tracker of the context), `policies` |
| what | `plan` (what is covered and kept), `pruning/` (tool outputs without a model) |
| how | `summarizer/` (the text), `facts/` (kept by code), `summary_entry` (both) |
| afterwards | `edits` (undo, redo, edit, regenerate, exclude, include) |

`engine` composes them.
"""
