"""The node: takes attempts from the broker, has the daemon of its host run them, and brings the verdicts."""
