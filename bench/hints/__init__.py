"""Broken submissions as people and models break them, for somebody to judge whether their reports help."""
