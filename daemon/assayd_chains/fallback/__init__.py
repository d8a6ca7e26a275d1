"""Offers rules that extract fields from paths if no code passed validation. Source: docs/repair.md."""
