"""The kind `solution`: code that hidden tests call, in a process that never sees them."""
