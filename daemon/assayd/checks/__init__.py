"""Checks: pure functions from source text, or from bytes of a guest, to findings."""
