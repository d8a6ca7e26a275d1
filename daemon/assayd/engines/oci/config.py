"""The runtime's configuration of one container, as a pure function of the request.

All flags are constants or numbers of the spec; nothing else can get in.

Source: docs/threat-model.md; Open Container Initiative, runtime specification 1.0, config.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assayd.errors import EngineError
from assayd.ports.engine import (
    GUEST_UID,
    HOST_NAME,
    MASKED_PATHS,
    PENDING_SIGNALS,
    READONLY_PATHS,
    SHM_BYTES,
    SYSCTLS,
    WORK_DIRECTORY,
    ContainerSpec,
)

Document = Mapping[str, object]

NAMESPACES = ("pid", "network", "ipc", "uts", "mount", "cgroup", "user")
CGROUPS = "/sys/fs/cgroup"
DEVICES = ("null", "zero", "full", "tty", "random", "urandom")
"""Devices that the runtime creates in `/dev` of every container, as the specification requires."""
_CAPABILITY_SETS = ("bounding", "effective", "inheritable", "permitted", "ambient")
_HIDDEN = ("nosuid", "noexec", "nodev")
_ARCHITECTURES = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}
_NO_DEVICES = {"allow": False, "access": "rwm"}
_PERIOD_US = 100_000
_CPU_WEIGHT = 25
"""The processor weight of a container; the daemon has 100, so that computing programs don't delay it."""
LONG_RUN_WEIGHT = 3
"""The processor weight of a long-running container."""
_RUNTIME_PIDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerHostConfig:
    """The resources of this host that a container gets.

    `root` is the unpacked image; `first_uid` is the first of the container's two exclusive user ids.

    `cgroups` maps folders below ``/sys/fs/cgroup`` in the container ("" on version 2) to the host paths of
    its control groups. `joins` is the group, below the daemon's group, into which the runtime moves the
    container; "" if the runtime leaves the container in the group in which it was started.
    """

    root: str
    arguments: Sequence[str]
    environment: Sequence[str]
    first_uid: int
    cgroups: Mapping[str, str]
    machine: str
    joins: str = ""
    clone_uid: int = 0
    """The id of `first_uid`, then its only one, inside the template that it is cloned from.

    0 if it isn't a clone.
    """
    children: int = 0
    """The number of further user ids that a template has for its clones; 0 if it isn't a template."""
    less: int = 0
    """The offset between user ids here and in the runtime's user namespace, if an ordinary user runs the
    daemon.
    """

    @property
    def program_uid(self) -> int:
        """Return the first process's user id on the host."""
        return self.first_uid if self.clone_uid or self.children else self.first_uid + 1

    @property
    def ids(self) -> tuple[tuple[int, int, int], ...]:
        """Return the mappings of the user namespace: id inside, id on the host, count."""
        if self.children:
            return ((0, self.first_uid, 1 + self.children),)
        if self.clone_uid:
            return ((GUEST_UID, self.first_uid, 1),)
        return ((0, self.first_uid, 1), (GUEST_UID, self.first_uid + 1, 1))


def build_configuration(spec: ContainerSpec, place: ContainerHostConfig) -> dict[str, object]:
    """Return the runtime's configuration.

    Raises: EngineError ``engine.seccomp``, if the filter is unreadable.
    """
    return {
        "ociVersion": "1.0.2",
        "hostname": HOST_NAME,
        "root": {"path": place.root, "readonly": True},
        "process": _build_process_section(spec, place),
        "mounts": build_mounts(spec, place.cgroups),
        "linux": {
            "namespaces": [{"type": name} for name in NAMESPACES],
            "uidMappings": build_id_mappings(place),
            "gidMappings": build_id_mappings(place),
            "sysctl": dict(SYSCTLS),
            "maskedPaths": list(MASKED_PATHS),
            "readonlyPaths": list(READONLY_PATHS),
            "seccomp": parse_seccomp_profile(spec.seccomp, place.machine),
            **({"cgroupsPath": place.joins, "resources": {"devices": [_NO_DEVICES]}} if place.joins else {}),
        },
    }


def compute_cgroup_limits(spec: ContainerSpec) -> dict[str, int]:
    """Return the limits of a control group: quota and period in microseconds, weight on a scale of 100."""
    return {
        "memory_bytes": spec.memory_bytes,
        "pids": spec.pids,
        "cpu_quota_us": round(spec.cpus * _PERIOD_US),
        "cpu_period_us": _PERIOD_US,
        "cpu_weight": _CPU_WEIGHT,
    }


def compute_startup_limits(limits: Mapping[str, int]) -> dict[str, int]:
    """Return the limits while a container starts, when the runtime's processes also count."""
    return {**limits, "pids": limits["pids"] + _RUNTIME_PIDS}


def compute_rlimits(spec: ContainerSpec) -> dict[str, int]:
    """Return the rlimits of each process. Soft and hard limits are equal.

    The kernel counts the last two per user, and each container has a separate user. If there are too many
    processes, the control group's limit takes effect first, and its rejections are reported.
    """
    return {
        "core": 0,
        "fsize": spec.work_bytes,
        "msgqueue": 0,
        "nofile": spec.open_files,
        "nproc": spec.pids + _RUNTIME_PIDS,
        "sigpending": PENDING_SIGNALS,
    }


def build_id_mappings(place: ContainerHostConfig) -> list[dict[str, int]]:
    """Return the mappings of the container's only users, root and guest, to exclusive ids on the host."""
    return [
        {"containerID": inside, "hostID": outside - place.less, "size": size}
        for inside, outside, size in place.ids
    ]


def build_mounts(spec: ContainerSpec, cgroups: Mapping[str, str]) -> list[dict[str, object]]:
    """Return the mounts in order. Only the work directory and a small shared memory are writable."""
    owner = (f"uid={GUEST_UID}", f"gid={GUEST_UID}", "mode=0700")
    bounds = (f"size={spec.work_bytes}", f"nr_inodes={spec.work_files}")
    return [
        _build_mount("/proc", "proc", *_HIDDEN),
        _build_mount("/dev", "tmpfs", "nosuid", "noexec", "mode=755", "size=64k", "nr_inodes=64"),
        _build_mount("/dev/shm", "tmpfs", *_HIDDEN, "mode=1777", f"size={SHM_BYTES}"),  # noqa: S108
        _build_mount("/sys", "sysfs", *_HIDDEN, "ro"),
        *_build_cgroup_mounts(cgroups),
        _build_mount(WORK_DIRECTORY, "tmpfs", *get_work_mount_options(spec), *bounds, *owner),
    ]


def get_work_mount_options(spec: ContainerSpec) -> tuple[str, ...]:
    """Return the mount options of the work directory."""
    return tuple(option for option in _HIDDEN if option != "noexec" or not spec.work_exec)


def _build_cgroup_mounts(cgroups: Mapping[str, str]) -> list[dict[str, object]]:
    """Return read-only mounts of the container's control groups.

    The runtime's mount of type ``cgroup`` would show all hierarchies of the host, and its creation took 40
    ms in a measurement.
    """
    outer = [] if "" in cgroups else [_build_mount(CGROUPS, "tmpfs", *_HIDDEN, "mode=755", "size=64k")]
    inner = [
        _build_mount(f"{CGROUPS}/{name}".rstrip("/"), "bind", *_HIDDEN, "bind", "ro", source=path)
        for name, path in cgroups.items()
    ]
    return [*outer, *inner]


def _build_mount(destination: str, kind: str, *options: str, source: str | None = None) -> dict[str, object]:
    return {"destination": destination, "type": kind, "source": source or kind, "options": list(options)}


def _build_process_section(spec: ContainerSpec, place: ContainerHostConfig) -> dict[str, object]:
    return {
        "terminal": False,
        "user": {"uid": GUEST_UID, "gid": GUEST_UID},
        "args": list(place.arguments),
        "env": list(place.environment),
        "cwd": "/",
        "capabilities": {name: [] for name in _CAPABILITY_SETS},
        "noNewPrivileges": True,
        "rlimits": [
            {"type": f"RLIMIT_{name.upper()}", "soft": value, "hard": value}
            for name, value in compute_rlimits(spec).items()
        ],
    }


def parse_seccomp_profile(text: str, machine: str) -> dict[str, Any]:
    """Parse the shared seccomp profile, in Docker's format, for this architecture.

    Raises: EngineError ``engine.seccomp``.
    """
    try:
        profile = json.loads(text)
        rules = [{key: rule[key] for key in rule if key != "comment"} for rule in profile["syscalls"]]
        default, number = profile["defaultAction"], profile.get("defaultErrnoRet", 1)
    except (ValueError, KeyError, TypeError) as problem:
        raise EngineError("engine.seccomp", "the seccomp filter isn't a valid profile") from problem
    if machine not in _ARCHITECTURES:
        message = f"the seccomp filter supports {sorted(_ARCHITECTURES)}, but this machine is {machine}"
        raise EngineError("engine.seccomp", message)
    return {
        "defaultAction": default,
        "defaultErrnoRet": number,
        "architectures": [_ARCHITECTURES[machine]],
        "syscalls": rules,
    }
