"""Where the bundles of a cluster lie: a directory that all gateways share, or object storage."""

from assayd_cluster.bundles.opening import open_bundles

__all__ = ["open_bundles"]
