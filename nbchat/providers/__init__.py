"""Models behind APIs: one module for each API, and the embedded model."""
