"""Code of strangers that the daemon is tried on: runners and lists of sources, no code."""
