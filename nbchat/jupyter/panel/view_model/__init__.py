"""What views show, computed from all events and kept in the kernel."""
