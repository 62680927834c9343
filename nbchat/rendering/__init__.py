"""What people see: conversations as safe HTML."""
