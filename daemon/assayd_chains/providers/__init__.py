"""Contains the providers of fixes, one per file, which implement the protocol `provider.Provider`."""
