"""Parses the results of a container with exact type checks."""
