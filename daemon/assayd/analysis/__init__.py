"""Runs static stages in disposable worker processes, since they parse hostile text."""
