"""Signs verdicts, stores the keys, and verifies signed verdicts offline.

This package is optional. Without it, the core runs but doesn't sign verdicts.
"""
