"""Implements `assay pipeline`, which runs stored pipelines and applies the results of validated attempts.

The module `app` defines the commands, and `run` runs an approved pipeline. `commit` applies a result to a
database and files on this host, `rollback` undoes it, and `journal` makes both atomic. All requests are sent
to the daemon through the client library.
"""
