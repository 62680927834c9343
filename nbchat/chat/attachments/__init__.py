"""What a message brings along from the notebook and from files."""
