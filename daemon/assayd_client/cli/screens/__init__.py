"""Screens on a terminal: request, progress, result."""
