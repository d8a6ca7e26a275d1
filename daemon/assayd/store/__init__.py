"""What outlives the daemon: attempts in a database, bundles in a directory; and events on their way there."""
