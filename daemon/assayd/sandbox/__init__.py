"""Runs a RunSpec in a container that is used once, and says how it ended."""
