"""Traces of attempts and chains for an OpenTelemetry collector; imported only if one is configured."""
