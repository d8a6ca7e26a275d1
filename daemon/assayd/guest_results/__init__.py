"""What came out of a container, read with exact types."""
