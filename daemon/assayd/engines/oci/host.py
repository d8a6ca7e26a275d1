"""What this host must have for the engine: rights, a runtime, control groups; and what to warn of."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assayd.engines.oci.cgroup import ROOT, Hierarchy, find_hierarchy
from assayd.engines.oci.runtime import CANDIDATES, Runtime, find_runtime
from assayd.errors import EngineError
from assayd.vulnerabilities import known_vulnerabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host on which containers can be made.

    `hugetlb` is where control groups of that name are to be mounted for the runtime; "" = nowhere.
    """

    runtime: Runtime
    hierarchy: Hierarchy
    hugetlb: str
    warnings: tuple[str, ...]


def find_host(runtimes: Sequence[tuple[str, str]] = CANDIDATES) -> Host:
    """Return what this host has. Args: `runtimes` are names and paths, in the order in which they are taken.

    Raises: EngineError ``engine.rights``, ``engine.runtime``, ``engine.cgroup``, ``engine.namespaces``.
    """
    if os.geteuid() != 0:
        message = (
            "the OCI engine needs root, to give each container user ids of its own; use a container engine"
        )
        raise EngineError("engine.rights", message)
    if not Path("/proc/self/ns/user").exists():
        raise EngineError("engine.namespaces", "the kernel has no user namespaces (CONFIG_USER_NS)")
    runtime = find_runtime(runtimes)
    hierarchy = find_hierarchy(Path("/proc/self/cgroup").read_text(encoding="ascii"))
    return Host(
        runtime=runtime,
        hierarchy=hierarchy,
        hugetlb=_missing_hugetlb(hierarchy, runtime, Path("/proc/cgroups").read_text(encoding="ascii"), ROOT),
        warnings=known_vulnerabilities({runtime.name: runtime.version}),
    )


def _missing_hugetlb(hierarchy: Hierarchy, runtime: Runtime, controllers: str, root: Path) -> str:
    """Return where to mount the control groups without which crun refuses version 1.

    Observed with crun 1.8.1: "cgroups in hybrid mode not supported, drop all controllers from cgroupv2".
    """
    known = any(line.split()[0] == "hugetlb" for line in controllers.splitlines())
    folder = root / "hugetlb"
    if hierarchy.version == 2 or runtime.name != "crun" or not known or (folder / "cgroup.procs").exists():
        return ""
    return str(folder)
