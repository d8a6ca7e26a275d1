"""Traces of attempts and chains for an OpenTelemetry collector: a wing, imported if one is configured."""
