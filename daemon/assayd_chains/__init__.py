"""Runs chains, in which providers turn a request or a failed attempt into a validated submission.

This package is optional. Without it, the daemon starts but rejects repairs and generations.
"""
