"""assayd on more than one machine: gateways that accept attempts, and nodes that run them.

A gateway is the daemon's own assembly on PostgreSQL with two parts exchanged: where attempts run, and where
bundles lie. A node is an unchanged daemon beside a Celery worker. Nothing in `assayd` knows of either.
"""
