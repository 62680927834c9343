"""What Jupyter sees: magics, cell output, the panel, the server extension."""
