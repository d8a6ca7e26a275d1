"""Stores data durably: attempts and their events in a database, bundles in a directory."""
