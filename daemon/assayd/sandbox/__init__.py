"""Runs a RunSpec in a single-use container and determines the cause of its end."""
