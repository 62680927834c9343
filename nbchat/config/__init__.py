"""Settings: the table, where values come from, and how a running chat follows."""
