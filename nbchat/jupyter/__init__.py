"""Integration with Jupyter: magics, cell output, the panel, the server extension."""
