"""The parts of the memory that code copies from the transcript."""
