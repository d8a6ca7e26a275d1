"""Containers made ahead of need: what to start and remove, leases, and the reaper."""
