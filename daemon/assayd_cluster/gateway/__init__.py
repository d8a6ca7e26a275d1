"""The gateway: accepts attempts durably, sends them to nodes through the broker, and stores verdicts."""
