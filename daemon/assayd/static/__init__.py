"""Source text to findings, for any kind: pure functions."""
