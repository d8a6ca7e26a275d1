"""Static checks of source text, for any kind: pure functions that return findings."""
