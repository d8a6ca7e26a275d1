"""Runs assayd on several hosts: gateways accept attempts, and nodes run them.

A gateway consists of the daemon's parts on PostgreSQL, with two parts replaced: the execution of attempts,
and the storage of bundles. A node is an unchanged daemon with a Celery worker. `assayd` imports no code of
gateways or nodes.
"""
