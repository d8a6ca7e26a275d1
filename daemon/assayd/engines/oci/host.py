"""Checks what the engine requires of this host: permissions, runtime and control groups; also warns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assayd.engines.oci.cgroup import ROOT, Hierarchy, find_hierarchy
from assayd.engines.oci.ranges import HOST_IDS, IdRange
from assayd.engines.oci.runtime import CANDIDATES, Runtime, find_runtime
from assayd.engines.oci.user import find_mount_folder, own_user, user_ids
from assayd.errors import EngineError
from assayd.vulnerabilities import known_vulnerabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The facts about a host that can run containers.

    `hugetlb` is the mount point for the hugetlb control groups; "" if none is needed.
    """

    runtime: Runtime
    hierarchy: Hierarchy
    hugetlb: str
    warnings: tuple[str, ...]
    ids: IdRange = HOST_IDS
    """The user ids available to containers."""
    is_root: bool = True
    shown_at: str = ""
    """The folder in which the launcher shows images to the runtime; "" means below the container's folder."""


def find_host(runtimes: Sequence[tuple[str, str]] = CANDIDATES, folders: Sequence[Path] = ()) -> Host:
    """Return the facts about this host, as they apply to the daemon's user.

    Args:
        runtimes: names and paths of runtimes, in order of preference.
        folders: the folders that the runtime needs.

    Raises: EngineError ``engine.rights``, ``engine.runtime``, ``engine.cgroup``, ``engine.namespaces``.
    """
    if not Path("/proc/self/ns/user").exists():
        raise EngineError("engine.namespaces", "the kernel has no user namespaces (CONFIG_USER_NS)")
    is_root = os.geteuid() == 0
    ids = HOST_IDS if is_root else user_ids(own_user())
    runtime = find_runtime(runtimes if is_root else [each for each in runtimes if each[0] == "crun"])
    hierarchy = find_hierarchy(Path("/proc/self/cgroup").read_text(encoding="ascii"))
    return Host(
        runtime=runtime,
        hierarchy=hierarchy,
        hugetlb=_hugetlb_mount_point(
            hierarchy, runtime, Path("/proc/cgroups").read_text(encoding="ascii"), ROOT
        ),
        warnings=known_vulnerabilities({runtime.name: runtime.version}),
        ids=ids,
        is_root=is_root,
        shown_at="" if is_root else find_mount_folder(folders),
    )


def _hugetlb_mount_point(hierarchy: Hierarchy, runtime: Runtime, controllers: str, root: Path) -> str:
    """Return the mount point for hugetlb control groups, without which crun rejects version 1; "" for none.

    Observed with crun 1.8.1: "cgroups in hybrid mode not supported, drop all controllers from cgroupv2".
    """
    known = any(line.split()[0] == "hugetlb" for line in controllers.splitlines())
    folder = root / "hugetlb"
    if hierarchy.version == 2 or runtime.name != "crun" or not known or (folder / "cgroup.procs").exists():
        return ""
    return str(folder)
