"""Protocols between the daemon and its environment, each with more than one implementation."""
