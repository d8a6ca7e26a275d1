"""Runs containers with an OCI runtime directly on an unpacked image, without an engine daemon.

    ContainerSpec ─config─> bundle ─launcher─> crun ─> runner
                                       │
                  container compares the running process with the request, before its first byte is passed
                  on

No registry is involved. `cgroup` manages control groups, `images` stores root filesystems, `host` assigns
exclusive user ids to each container, `container` stores records of containers, `process` holds the streams,
`engine` implements the port.
"""

from assayd.engines.oci.engine import OciEngine

__all__ = ["OciEngine"]
