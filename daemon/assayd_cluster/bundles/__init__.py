"""Stores the bundles of a cluster in a directory that all gateways share, or in object storage."""

from assayd_cluster.bundles.opening import open_bundles

__all__ = ["open_bundles"]
