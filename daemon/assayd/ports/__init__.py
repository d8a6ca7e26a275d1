"""Protocols between the daemon and its environment. Each has more than one implementation."""
