"""Contains the terminal screens for entering a request, following its progress, and showing the result."""
