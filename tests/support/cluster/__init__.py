"""Gateways, daemons and brokers for tests of a cluster."""
