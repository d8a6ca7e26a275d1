"""Screens on a terminal: asking for code in words, watching it come about, looking at what came of it."""
