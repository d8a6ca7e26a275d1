"""Findings about runs, the retry context built from them, and source positions."""
