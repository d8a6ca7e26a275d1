"""The requirements of containers without root: subordinate user ids, and two programs that map them.

Source: subuid(5), newuidmap(1), user_namespaces(7); Documentation/admin-guide/sysctl/user.rst in Linux.

Each engine locks a block of exclusive user ids on this host, and each container gets two of them. A
template has one id for its own processes, and one for each of its clones. The kernel's per-user limits
(pending signals, locked memory, watches) therefore apply to each container separately.
"""

from __future__ import annotations

import fcntl
import os
import pwd
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from assayd.errors import EngineError

PER_BLOCK = 4096
PER_CONTAINER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class IdRange:
    """A range of the host's user ids for containers. Group ids have the same numbers."""

    first: int
    count: int


HOST_IDS = IdRange(first=0x7000_0000, count=4096 * PER_BLOCK)
"""The range that root uses.

Source: systemd.io/UIDS-GIDS: nothing else uses 1879048192 to 2147483647.
"""


class IdAllocator:
    """An allocator of consecutive user ids for containers.

    Args:
        folder: the folder with the locks of the blocks; all daemons that use the same ids share it.
        ids: the range that is divided into blocks; a range that is smaller than a block is a single block.
    """

    def __init__(self, folder: Path, ids: IdRange = HOST_IDS) -> None:
        self._folder = folder
        self._first = ids.first
        self._per_block = min(PER_BLOCK, ids.count)
        self._blocks = ids.count // self._per_block
        self._lock: int | None = None
        self._base = 0
        self._used: dict[int, int] = {}

    def allocate(self, count: int = PER_CONTAINER) -> int:
        """Return the first of `count` consecutive free ids.

        Raises: EngineError ``engine.no_ids``.
        """
        if self._lock is None:
            self._take_block()
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

    def _take_block(self) -> None:
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
"""Enough for thirty-two containers with two ids each; templates need more."""
_PROGRAMS = ("usr/bin/newuidmap", "usr/bin/newgidmap")
_PLACES = ("/mnt", "/media", "/srv", "/opt")
"""Folders of every system that aren't private to one user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonUser:
    """The daemon's user: the id and, if there is one, the name."""

    uid: int
    name: str


def get_own_user() -> DaemonUser:
    """Return the user of this process."""
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

    Raises: EngineError ``engine.rights``.
    """
    needed = [path.resolve() for path in hidden]
    for place in _PLACES:
        if Path(place).is_dir() and not any(path.is_relative_to(place) for path in needed):
            return place
    message = f"one of {', '.join(_PLACES)} must be a folder that holds neither engine.run_dir nor images"
    raise EngineError("engine.rights", message)


def _parse_subordinate_ids(path: Path, user: DaemonUser) -> list[IdRange]:
    """Parse one of the two files. Skip malformed lines, and lines of other users."""
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
    absent = [f"/{path}" for path in _PROGRAMS if not (root / path).exists()]
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
