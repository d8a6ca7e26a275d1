"""The gateway: accepts attempts durably, hands them to nodes by the broker, and keeps their verdicts."""
