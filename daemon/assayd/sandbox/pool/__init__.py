"""The pool of warm containers: what to start and remove, leases, and the reaper."""
