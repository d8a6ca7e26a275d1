"""The values that flow through the daemon: frozen, without I/O."""
