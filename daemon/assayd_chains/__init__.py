"""Runs chains: providers' answers turn a request or a failed attempt into a validated submission.

This package is optional: without it, the daemon starts but rejects repairs and generations.
"""
