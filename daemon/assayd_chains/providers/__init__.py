"""The providers of fixes, one file each. They share the protocol `provider.Provider`."""
