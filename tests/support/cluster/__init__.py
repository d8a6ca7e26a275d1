"""Gateways, daemons and brokers that tests of a cluster stand on."""
