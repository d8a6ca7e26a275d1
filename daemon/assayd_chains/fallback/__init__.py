"""Rules that are offered where no code came about: they take fields out of paths. Source: docs/repair.md."""
