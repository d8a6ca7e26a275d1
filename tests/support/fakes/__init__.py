"""What stands in for a part of the daemon in tests."""
