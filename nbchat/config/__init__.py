"""What can be set, where each value is from, and what a site forbids."""
