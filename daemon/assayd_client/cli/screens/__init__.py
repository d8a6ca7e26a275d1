"""Contains the terminal screens for a request, its progress, and its result."""
