"""Runs assayd on several hosts, on which gateways accept attempts and nodes run them.

A gateway consists of the daemon's parts with a PostgreSQL database; it replaces only the execution of
attempts and the storage of bundles. A node is an unchanged daemon with a Celery worker. The package
`assayd` doesn't import any code of gateways or nodes.
"""
