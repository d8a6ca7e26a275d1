"""Contains the providers of fixes, one per file. They implement the protocol `provider.Provider`."""
