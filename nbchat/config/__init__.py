"""Settings: the table, where values come from, and the model and engine they name."""
