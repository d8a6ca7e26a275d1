"""Findings about runs, the retry context, and source positions."""
