"""How Sphinx builds these pages. CONTRIBUTING.md has the command.

Nothing is fetched: no remote fonts, scripts or inventories, so the build needs no
network. Tables of settings, commands and models come from the code (`_ext`).
"""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "_ext"), str(DOCS.parent)]

from nbchat import __version__  # noqa: E402  # after the path

project = "nbchat"
copyright = "2026, the nbchat developers"  # noqa: A001  # Sphinx names it so
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "code_tables",
    "docstrings",
    "policy_drawings",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "nbchat"
html_static_path = ["_static"]
html_css_files = ["drawings.css"]
html_copy_source = False
html_show_sphinx = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autoclass_content = "both"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
python_display_short_literal_types = True
python_maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"
