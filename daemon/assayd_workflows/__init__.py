"""Workflows of code nodes: checked as a whole, run node by node as ordinary attempts.

A wing: the core imports nothing of it.
"""
