"""The runtime's configuration of a container or a template, as a pure function of the request.

All flags are constants or numbers of the spec; nothing else can get in.

A template is configured like a container, except for its user, five capabilities in its user namespace, and
the system calls for setting up children. A template sees no control groups, and can write only to a few mount
points. `build_clone_request` builds the request for one of its children.

Source: docs/threat-model.md; docs/decisions/0070; Open Container Initiative, runtime specification 1.0,
config.md.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from assayd.engines.oci import template
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
CGROUPS_PATH = "/sys/fs/cgroup"
DEVICES = ("null", "zero", "full", "tty", "random", "urandom")
"""Devices that the runtime creates in `/dev` of every container, as the specification requires."""
_CAPABILITY_SETS = ("bounding", "effective", "inheritable", "permitted", "ambient")
_HIDDEN = ("nosuid", "noexec", "nodev")
_SECCOMP_ARCH_BY_MACHINE = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}
_DENY_ALL_DEVICES = {"allow": False, "access": "rwm"}
_PERIOD_US = 100_000
_CPU_WEIGHT = 25
"""The processor weight of a container; the daemon has 100, so that computing programs don't delay it."""
LONG_RUN_CPU_WEIGHT = 3
"""The processor weight of a long-running container."""
_RUNTIME_PROCESS_COUNT = 8


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
    daemon; 0 for root.
    """

    @property
    def first_process_uid(self) -> int:
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

    Raises: EngineError ``engine.seccomp``, if the filter is invalid or doesn't support this architecture.
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
            **(
                {"cgroupsPath": place.joins, "resources": {"devices": [_DENY_ALL_DEVICES]}}
                if place.joins
                else {}
            ),
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
    return {**limits, "pids": limits["pids"] + _RUNTIME_PROCESS_COUNT}


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
        "nproc": spec.pids + _RUNTIME_PROCESS_COUNT,
        "sigpending": PENDING_SIGNALS,
    }


def build_id_mappings(place: ContainerHostConfig) -> list[dict[str, int]]:
    """Return the mappings of the container's user ids to ids in the runtime's user namespace."""
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
    """Return the mount options of the work directory.

    They include ``noexec`` unless the spec allows execution.
    """
    return tuple(option for option in _HIDDEN if option != "noexec" or not spec.work_exec)


def _build_cgroup_mounts(cgroups: Mapping[str, str]) -> list[dict[str, object]]:
    """Return read-only mounts of the container's control groups.

    The runtime's mount of type ``cgroup`` would show all hierarchies of the host, and its creation took 40
    ms in a measurement.
    """
    outer = [] if "" in cgroups else [_build_mount(CGROUPS_PATH, "tmpfs", *_HIDDEN, "mode=755", "size=64k")]
    inner = [
        _build_mount(f"{CGROUPS_PATH}/{name}".rstrip("/"), "bind", *_HIDDEN, "bind", "ro", source=path)
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

    Raises: EngineError ``engine.seccomp``, if the profile is invalid or doesn't support the architecture.
    """
    try:
        profile = json.loads(text)
        rules = [{key: rule[key] for key in rule if key != "comment"} for rule in profile["syscalls"]]
        default, number = profile["defaultAction"], profile.get("defaultErrnoRet", 1)
    except (ValueError, KeyError, TypeError) as problem:
        raise EngineError("engine.seccomp", "the seccomp filter isn't a valid profile") from problem
    if machine not in _SECCOMP_ARCH_BY_MACHINE:
        message = (
            f"the seccomp filter supports {sorted(_SECCOMP_ARCH_BY_MACHINE)}, but this machine is {machine}"
        )
        raise EngineError("engine.seccomp", message)
    return {
        "defaultAction": default,
        "defaultErrnoRet": number,
        "architectures": [_SECCOMP_ARCH_BY_MACHINE[machine]],
        "syscalls": rules,
    }


MAX_CHILDREN = 127
"""Maximum concurrent children of a template, each of which has a separate user id."""
CAPABILITIES = {
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
    "CAP_SETPCAP": 8,
    "CAP_NET_ADMIN": 12,
    "CAP_SYS_ADMIN": 21,
}
"""The template's capabilities in its own user namespace, with their numbers.

It needs them for the mounts, the loopback device, the users and the bounding sets of its children.
"""
TEMPLATE_MEMORY_BYTES = 384 * 2**20
_MAX_PIDS = 32
_BASE_TMPFS_BYTES = 64 * 1024
_TEMPLATE_MOUNTS = ("/proc", "/dev", "/sys")
_HELD_CAP_SETS = ("bounding", "effective", "permitted")
_CALLS: tuple[Document, ...] = (
    {
        "names": [
            "capset",
            "clone",
            "keyctl",
            "mount",
            "move_mount",
            "pivot_root",
            "setgroups",
            "setresgid",
            "setresuid",
            "umount2",
            "unshare",
        ],
        "action": "SCMP_ACT_ALLOW",
    },
    *(
        {
            "names": ["ioctl"],
            "action": "SCMP_ACT_ALLOW",
            "args": [{"index": 1, "op": "SCMP_CMP_EQ", "value": request}],
        }
        for request in (0x8913, 0x8914)  # SIOCGIFFLAGS and SIOCSIFFLAGS
    ),
    *(
        {
            "names": ["prctl"],
            "action": "SCMP_ACT_ALLOW",
            "args": [{"index": 0, "op": "SCMP_CMP_EQ", "value": option}],
        }
        for option in (24, 47)  # PR_CAPBSET_DROP and PR_CAP_AMBIENT
    ),
)
"""System calls that a template uses but its children can't."""
_START_SOURCE = (
    "import socket; control = socket.socket(fileno=socket.os.dup(0)); names = {'__name__': 'template'}; "
    f"exec(compile(control.recv({template.MESSAGE_BYTES}), '<template>', 'exec'), names); "
    "names['main'](control)()"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The program of a Python image: either the compiled file of the guest code, or source text.

    `interpreter` is the command that starts Python in the image.
    """

    interpreter: Sequence[str]
    file: str = ""
    code: str = ""
    rest: Sequence[str] = ()


def read_program(arguments: Sequence[str]) -> Program:
    """Return the program that an image runs when it is started.

    Raises: EngineError ``engine.template``, if a template can't run this program.
    """
    named = (n for n, word in enumerate(arguments) if PurePosixPath(word).name.startswith("python"))
    # An interpreter with its own loader is an argument of that loader.
    first = next(named, len(arguments))
    if first == 0 or (arguments and PurePosixPath(arguments[0]).name.startswith("ld-linux")):
        for number, argument in enumerate(arguments[first + 1 :], start=first + 1):
            kept, rest = arguments[:number], arguments[number + 1 :]
            if argument == "-c" and rest:
                return Program(interpreter=kept, code=rest[0], rest=rest[1:])
            if argument.endswith(".pyc"):
                return Program(interpreter=kept, file=argument, rest=rest)
    message = "templates need a Python program, but this image starts another one"
    raise EngineError("engine.template", message)


def build_template_spec(spec: ContainerSpec, labels: Mapping[str, str]) -> ContainerSpec:
    """Return the spec of a template for containers like the given one."""
    return ContainerSpec(
        image=spec.image,
        image_digest=spec.image_digest,
        memory_bytes=TEMPLATE_MEMORY_BYTES,
        pids=_MAX_PIDS,
        cpus=1.0,
        work_bytes=_BASE_TMPFS_BYTES,
        work_files=64,
        open_files=0,
        seccomp=spec.seccomp,
        labels=labels,
        preload=spec.preload,
    )


def build_template_configuration(spec: ContainerSpec, place: ContainerHostConfig) -> dict[str, object]:
    """Return the runtime's configuration of a template.

    Raises: EngineError ``engine.seccomp``, if the filter is invalid; ``engine.template``, if the image's
    program isn't Python.
    """
    usual = json.loads(json.dumps(build_configuration(spec, place)))
    usual["linux"]["seccomp"]["syscalls"] += _CALLS
    usual["process"] |= {
        "user": {"uid": 0, "gid": 0},
        "args": [*read_program(place.arguments).interpreter, "-c", _START_SOURCE],
        "capabilities": {
            name: list(CAPABILITIES) if name in _HELD_CAP_SETS else []
            for name in usual["process"]["capabilities"]
        },
        "rlimits": [{"type": f"RLIMIT_{name}", "soft": 0, "hard": 0} for name in ("CORE", "MSGQUEUE")],
    }
    base = {
        "destination": WORK_DIRECTORY,
        "type": "tmpfs",
        "source": "tmpfs",
        "options": [*_HIDDEN, "mode=0755", f"size={_BASE_TMPFS_BYTES}"],
    }
    kept = [mount for mount in build_mounts(spec, {}) if mount["destination"] in _TEMPLATE_MOUNTS]
    return {**usual, "mounts": [*kept, base]}


def build_template_plan(spec: ContainerSpec, place: ContainerHostConfig, instructions: bytes) -> Document:
    """Return the plan that a template receives before its first child: constants, and modules to load."""
    program = read_program(place.arguments)
    return {
        "file": program.file,
        "code": program.code,
        "argv": [program.file or "-c", *program.rest],
        "preload": list(spec.preload),
        "filter": base64.b64encode(instructions).decode(),
        "sysctls": dict(SYSCTLS),
        "masked": [path for path in MASKED_PATHS if path.startswith(("/proc/", "/sys/"))],
        "readonly": list(READONLY_PATHS),
        "shm": f"mode=1777,size={SHM_BYTES}",
        "guest": GUEST_UID,
    }


def build_clone_request(spec: ContainerSpec, place: ContainerHostConfig) -> Document:
    """Return the request for cloning one child."""
    return {
        "uid": place.clone_uid,
        "groups": list(place.cgroups),
        "limits": compute_rlimits(spec),
        "exec": spec.work_exec,
        "loopback": spec.loopback,
        "work": f"size={spec.work_bytes},nr_inodes={spec.work_files}",
    }
