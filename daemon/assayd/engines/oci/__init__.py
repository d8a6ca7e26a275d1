"""Containers by an OCI runtime that is started directly on an unpacked image; no engine daemon, no registry.

    ContainerSpec ─config─> bundle ─launcher─> crun ─> runner
                                       │
                  inspection compares the running process with the request, before its first byte is passed on

`cgroup` makes the control groups, `images` keeps root filesystems, `ranges` gives each container user ids of
its own, `records` stores created containers, `process` holds the streams, `engine` is the port.
"""

from assayd.engines.oci.engine import OciEngine

__all__ = ["OciEngine"]
