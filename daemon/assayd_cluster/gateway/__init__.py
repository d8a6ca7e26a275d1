"""The gateway, which accepts attempts, sends them to nodes through the broker, and stores the verdicts."""
