"""Runs static stages in disposable worker processes, because they parse untrusted source."""
