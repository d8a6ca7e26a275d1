"""Support code of several tests: an in-memory daemon, and a server for it on a real socket."""
