"""Signs verdicts: defines what a daemon signs, how keys are stored, and how verdicts are verified offline.

This package is optional: without it, the core runs but doesn't sign verdicts.
"""
