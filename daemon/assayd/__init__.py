"""The package of the daemon `assayd`, which validates untrusted code in throwaway containers."""

__version__ = "0.1.0"
