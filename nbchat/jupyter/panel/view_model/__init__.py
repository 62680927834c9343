"""What views show: a fold over everything that happens, kept in the kernel."""
