"""Fakes of the daemon's parts."""
