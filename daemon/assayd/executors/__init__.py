"""Runs attempts in executor processes, each of which owns its engine, its pool and its containers.

The daemon keeps acceptance, fairness, static stages, the journal and the verdicts. `front` is the daemon's
side, and `worker` is the executor's side. `wiring.execution` builds an executor's parts.
"""
