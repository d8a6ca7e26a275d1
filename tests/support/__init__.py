"""What several tests use: a daemon in memory, and a server for it on a real socket."""
