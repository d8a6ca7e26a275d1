"""Traces attempts and chains for an OpenTelemetry collector. Imported only if one is configured."""
