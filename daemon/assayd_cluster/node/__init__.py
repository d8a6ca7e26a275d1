"""The node: receives attempts from the broker, has its host's daemon run them, and sends the verdicts."""
