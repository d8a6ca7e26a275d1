"""Parses bash: the tree of a script, its words, variables and commands."""
