"""The results of a container, read with exact types."""
