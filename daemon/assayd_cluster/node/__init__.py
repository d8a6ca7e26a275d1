"""The node, which receives attempts from the broker, runs them at its daemon, and sends the verdicts."""
