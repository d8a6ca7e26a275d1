"""The immutable values that the daemon's parts exchange. No I/O."""
