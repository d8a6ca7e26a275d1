"""The node: gets attempts from the broker, has its host's daemon run them, and sends the verdicts."""
