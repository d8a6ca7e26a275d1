"""Workflows of code nodes: checked as a whole, then run node by node as ordinary attempts.

This package is optional: the core imports nothing from it.
"""
