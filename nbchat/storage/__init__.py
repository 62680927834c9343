"""Storage of sessions in a database, and as exported files."""
