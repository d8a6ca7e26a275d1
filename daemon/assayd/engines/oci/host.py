"""The engine's requirements on this host: an OCI runtime, permissions, control groups and user ids.

Without root, containers need subordinate user ids, and two programs that map them.

Each engine locks a block of exclusive user ids on this host, and each container gets two of them. A
template has one id for its own processes, and one for each of its clones. The kernel's per-user limits
(pending signals, locked memory, watches) therefore apply to each container separately.

Source: subuid(5), newuidmap(1), user_namespaces(7); Documentation/admin-guide/sysctl/user.rst in Linux.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from assayd.engines.oci.cgroup import ROOT, CgroupHierarchy, find_hierarchy
from assayd.errors import EngineError
from assayd.vulnerabilities import find_known_vulnerabilities

IDS_PER_BLOCK = 4096
IDS_PER_CONTAINER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class IdRange:
    """A range of the host's user ids for containers. Group ids have the same numbers."""

    first: int
    count: int


ROOT_ID_RANGE = IdRange(first=0x7000_0000, count=4096 * IDS_PER_BLOCK)
"""The range that root uses.

Source: systemd.io/UIDS-GIDS: nothing else uses 1879048192 to 2147483647.
"""


class IdAllocator:
    """An allocator of consecutive user ids for containers.

    Args:
        folder: the folder with the locks of the blocks; all daemons that use the same ids share it.
        ids: the range that is divided into blocks; a range that is smaller than a block is a single block.
    """

    def __init__(self, folder: Path, ids: IdRange = ROOT_ID_RANGE) -> None:
        self._folder = folder
        self._first = ids.first
        self._per_block = min(IDS_PER_BLOCK, ids.count)
        self._blocks = ids.count // self._per_block
        self._lock: int | None = None
        self._base = 0
        self._used: dict[int, int] = {}

    def allocate(self, count: int = IDS_PER_CONTAINER) -> int:
        """Return the first of `count` consecutive free ids.

        Raises: EngineError ``engine.no_ids``, if too few ids or no blocks are free.
        """
        if self._lock is None:
            self._lock_block()
        first = self._base
        for taken in sorted(self._used):
            if taken - first >= count:
                break
            first = taken + self._used[taken]
        if first + count <= self._base + self._per_block:
            self._used[first] = count
            return first
        raise EngineError(
            "engine.no_ids", f"all {self._per_block} user ids for containers are in use", retryable=True
        )

    def release(self, first: int) -> None:
        """Release the ids of a removed container. Ignore ids of other engines."""
        self._used.pop(first, None)

    def close(self) -> None:
        """Release this daemon's block of user ids."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _lock_block(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in range(self._blocks):
            lock = os.open(self._folder / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                continue
            self._lock, self._base = lock, self._first + number * self._per_block
            return
        raise EngineError("engine.no_ids", f"all {self._blocks} blocks of user ids are used by other daemons")


MIN_IDS = 64
"""Minimum user ids without root: enough for 32 containers with two ids each. Templates need more."""
_ID_MAP_PROGRAMS = ("usr/bin/newuidmap", "usr/bin/newgidmap")
_PLACES = ("/mnt", "/media", "/srv", "/opt")
"""Folders of every system that aren't private to one user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonUser:
    """The daemon's user: the id and, if there is one, the name."""

    uid: int
    name: str


def get_own_user() -> DaemonUser:
    """Return the user of this process. If the user has no name, the name is the id."""
    uid = os.geteuid()
    try:
        return DaemonUser(uid=uid, name=pwd.getpwuid(uid).pw_name)
    except KeyError:
        return DaemonUser(uid=uid, name=str(uid))


def find_subordinate_ids(user: DaemonUser, root: Path = Path("/")) -> IdRange:
    """Return the longest range of subordinate ids that a user has both as user ids and as group ids.

    Args:
        user: the user.
        root: the root of the file system that contains the configuration.

    Raises: EngineError ``engine.rights``, whose message lists all that is missing, with remedies.
    """
    found = find_common_ids(
        *(_parse_subordinate_ids(root / "etc" / name, user) for name in ("subuid", "subgid"))
    )
    missing = list(_find_missing_requirements(user, found, root))
    if missing:
        message = f"the OCI engine can't run as the unprivileged user {user.name} here: "
        raise EngineError("engine.rights", message + "; ".join(missing))
    return found


def find_common_ids(users: Sequence[IdRange], groups: Sequence[IdRange]) -> IdRange:
    """Return the longest range of ids that both lists contain.

    The result is empty if they have no common ids.
    """
    best = IdRange(first=0, count=0)
    for user in users:
        for group in groups:
            first = max(user.first, group.first)
            count = min(user.first + user.count, group.first + group.count) - first
            if count > best.count:
                best = IdRange(first=first, count=count)
    return best


def find_mount_folder(hidden: Sequence[Path]) -> str:
    """Return a folder over which the launcher can mount images in its mount namespace.

    Args:
        hidden: folders that the runtime needs, so that they must not be below the returned folder.

    Raises: EngineError ``engine.rights``, if no folder is suitable.
    """
    needed = [path.resolve() for path in hidden]
    for place in _PLACES:
        if Path(place).is_dir() and not any(path.is_relative_to(place) for path in needed):
            return place
    message = f"one of {', '.join(_PLACES)} must be a folder that holds neither engine.run_dir nor images"
    raise EngineError("engine.rights", message)


def _parse_subordinate_ids(path: Path, user: DaemonUser) -> list[IdRange]:
    """Return the user's ranges from one of the two files; empty if it is unreadable. Skip malformed lines."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    found = []
    for line in text.splitlines():
        name, *numbers = line.split(":")
        if name in {user.name, str(user.uid)} and len(numbers) == 2 and all(map(_is_ascii_digits, numbers)):
            found.append(IdRange(first=int(numbers[0]), count=int(numbers[1])))
    return found


def _find_missing_requirements(user: DaemonUser, ids: IdRange, root: Path) -> Iterator[str]:
    if not (root / "sys/fs/cgroup/cgroup.controllers").exists():
        yield (
            "cgroup v1 can't be delegated to a user "
            "(start the kernel with systemd.unified_cgroup_hierarchy=1)"
        )
    absent = [f"/{path}" for path in _ID_MAP_PROGRAMS if not (root / path).exists()]
    if absent:
        yield f"missing: {', '.join(absent)} (Debian: apt-get install uidmap)"
    if ids.count < MIN_IDS:
        yield (
            f"/etc/subuid and /etc/subgid share {ids.count} ids; at least {MIN_IDS} are needed, "
            f"65536 are usual (usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user.name}, "
            "with a range that no other user has)"
        )
    for name, remedy in (("user/max_user_namespaces", "15000"), ("kernel/unprivileged_userns_clone", "1")):
        if _read_or_empty(root / "proc/sys" / name) == "0":
            key = name.replace("/", ".")
            yield f"user namespaces are switched off (sysctl {key}={remedy})"
    if "NoNewPrivs:\t1" in _read_or_empty(root / "proc/self/status"):
        yield (
            "newuidmap doesn't work under no_new_privs (remove NoNewPrivileges= from the "
            "unit, with options that imply it)"
        )


def _is_ascii_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _read_or_empty(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


RUNTIME_CANDIDATES = (
    ("crun", "/usr/bin/crun"),
    ("crun", "/usr/local/bin/crun"),
    ("runc", "/usr/sbin/runc"),
    ("runc", "/usr/bin/runc"),
    ("runc", "/usr/local/sbin/runc"),
)
"""Runtimes in order of preference; crun needs a fifth less time and memory."""
_VERSION_TIMEOUT_S = 10.0
_VERSION_PATTERN = re.compile(r"^(?:crun|runc) version (\S+)", re.MULTILINE)


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


def find_runtime(candidates: Sequence[tuple[str, str]] = RUNTIME_CANDIDATES) -> OciRuntime:
    """Return the first runtime that exists.

    Raises: EngineError ``engine.runtime``, if none exists or the runtime doesn't report its version.
    """
    for name, path in candidates:
        if Path(path).is_file():
            return OciRuntime(name=name, path=path, version=_read_version(path))
    message = "no OCI runtime found; install crun or runc (Debian: apt-get install crun)"
    raise EngineError("engine.runtime", message)


def _read_version(path: str) -> str:
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as problem:
        raise EngineError("engine.runtime", f"{path} doesn't report its version") from problem
    found = _VERSION_PATTERN.search(said.stdout)
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
    ids: IdRange = ROOT_ID_RANGE
    """The user ids available to containers."""
    is_root: bool = True
    image_mount_folder: str = ""
    """The folder in which the launcher shows images to the runtime; "" means the folder `images` in the run
    directory.
    """


def find_host(runtimes: Sequence[tuple[str, str]] = RUNTIME_CANDIDATES, folders: Sequence[Path] = ()) -> Host:
    """Return the facts about this host, as they apply to the daemon's user.

    Args:
        runtimes: names and paths of runtimes, in order of preference.
        folders: the folders that the runtime needs.

    Raises: EngineError ``engine.rights``, ``engine.runtime``, ``engine.cgroup``, ``engine.namespaces``.
    """
    if not Path("/proc/self/ns/user").exists():
        raise EngineError("engine.namespaces", "the kernel has no user namespaces (CONFIG_USER_NS)")
    is_root = os.geteuid() == 0
    ids = ROOT_ID_RANGE if is_root else find_subordinate_ids(get_own_user())
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
        image_mount_folder="" if is_root else find_mount_folder(folders),
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
