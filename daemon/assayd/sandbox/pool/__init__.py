"""Manages the pool of warm containers: creations, removals, leases, and the reaper."""
