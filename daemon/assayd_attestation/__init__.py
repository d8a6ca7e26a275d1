"""Signed verdicts: what a daemon signs, how its keys are kept, and how others check a verdict offline.

A wing: the core runs without it, and signs nothing then.
"""
