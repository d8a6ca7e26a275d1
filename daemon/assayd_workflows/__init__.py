"""Checks workflows of code nodes as a whole, and then runs each node as an ordinary attempt.

This package is optional, because the core imports nothing from it.
"""
