"""assayd: validates untrusted code in throwaway containers."""

__version__ = "0.1.0"
