"""Traces attempts and chains for an OpenTelemetry collector; imported only if a collector is configured."""
