"""assayd on more than one machine: gateways that accept attempts, and nodes that run them.

A gateway is the daemon's own assembly on PostgreSQL with two parts replaced: the execution of attempts, and
the storage of bundles. A node is an unchanged daemon with a Celery worker. `assayd` imports neither.
"""
