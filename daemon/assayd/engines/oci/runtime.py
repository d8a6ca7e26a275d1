"""The OCI runtime of this host, and the engine's other requirements: permissions and control groups."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assayd.engines.oci.cgroup import ROOT, CgroupHierarchy, find_hierarchy
from assayd.engines.oci.user import HOST_IDS, IdRange, find_mount_folder, find_subordinate_ids, get_own_user
from assayd.errors import EngineError
from assayd.vulnerabilities import find_known_vulnerabilities

CANDIDATES = (
    ("crun", "/usr/bin/crun"),
    ("crun", "/usr/local/bin/crun"),
    ("runc", "/usr/sbin/runc"),
    ("runc", "/usr/bin/runc"),
    ("runc", "/usr/local/sbin/runc"),
)
"""Runtimes in order of preference; crun needs a fifth less time and memory."""
_ASKED_WITHIN_S = 10.0
_VERSION = re.compile(r"^(?:crun|runc) version (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class OciRuntime:
    """An OCI runtime, identified by its absolute path."""

    name: str
    path: str
    version: str

    @property
    def supports_existing_cgroup(self) -> bool:
        """Return whether the runtime can keep a container in the control group in which it was started."""
        return self.name == "crun"

    def arguments(self, folder: Path, name: str) -> Sequence[str]:
        """Return the command that starts the container of the bundle `folder`, and ends once it runs."""
        log = f"--log={'file:' if self.name == 'crun' else ''}{folder}/log"
        cgroups = ["--cgroup-manager=disabled"] if self.supports_existing_cgroup else []
        started = ["run", "--detach", f"--bundle={folder}", f"--pid-file={folder}/pid", name]
        return [self.path, f"--root={folder}/state", log, *cgroups, *started]


def find_runtime(candidates: Sequence[tuple[str, str]] = CANDIDATES) -> OciRuntime:
    """Return the first runtime that exists and reports its version.

    Raises: EngineError ``engine.runtime``, with a remedy in its message.
    """
    for name, path in candidates:
        if Path(path).is_file():
            return OciRuntime(name=name, path=path, version=_read_version(path))
    message = "no OCI runtime found; install crun or runc (Debian: apt-get install crun)"
    raise EngineError("engine.runtime", message)


def _read_version(path: str) -> str:
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_ASKED_WITHIN_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as problem:
        raise EngineError("engine.runtime", f"{path} doesn't report its version") from problem
    found = _VERSION.search(said.stdout)
    if found is None:
        raise EngineError("engine.runtime", f"{path} doesn't report its version")
    return found[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The facts about a host that can run containers.

    `hugetlb` is the mount point for the hugetlb control groups; "" if none is needed.
    """

    runtime: OciRuntime
    hierarchy: CgroupHierarchy
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
    ids = HOST_IDS if is_root else find_subordinate_ids(get_own_user())
    runtime = find_runtime(runtimes if is_root else [each for each in runtimes if each[0] == "crun"])
    hierarchy = find_hierarchy(Path("/proc/self/cgroup").read_text(encoding="ascii"))
    return Host(
        runtime=runtime,
        hierarchy=hierarchy,
        hugetlb=_find_hugetlb_mount_point(
            hierarchy, runtime, Path("/proc/cgroups").read_text(encoding="ascii"), ROOT
        ),
        warnings=find_known_vulnerabilities({runtime.name: runtime.version}),
        ids=ids,
        is_root=is_root,
        shown_at="" if is_root else find_mount_folder(folders),
    )


def _find_hugetlb_mount_point(
    hierarchy: CgroupHierarchy, runtime: OciRuntime, controllers: str, root: Path
) -> str:
    """Return the mount point for hugetlb control groups, or "" if none is needed.

    On version 1, crun requires these groups. Observed with crun 1.8.1: "cgroups in hybrid mode not supported,
    drop all controllers from cgroupv2".
    """
    known = any(line.split()[0] == "hugetlb" for line in controllers.splitlines())
    folder = root / "hugetlb"
    if hierarchy.version == 2 or runtime.name != "crun" or not known or (folder / "cgroup.procs").exists():
        return ""
    return str(folder)
