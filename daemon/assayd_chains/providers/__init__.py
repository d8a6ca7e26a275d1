"""Whoever gives fixes, one file each. What they have in common is `provider.Provider`."""
