"""Static checks of source text, usable by all kinds: pure functions that return findings."""
