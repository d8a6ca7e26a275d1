"""Builds a template's configuration, and the requests for its children, with pure functions.

A template is configured like other containers of the runtime, except for its user, five capabilities in its
user namespace, and the system calls for setting up children. A template sees no control groups, and can
write only to a few mount points.

Source: docs/threat-model.md; docs/decisions/0070.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from assayd.engines.oci import template
from assayd.engines.oci.config import ContainerHostConfig, build_configuration, build_mounts, compute_rlimits
from assayd.errors import EngineError
from assayd.ports.engine import (
    GUEST_UID,
    MASKED_PATHS,
    READONLY_PATHS,
    SHM_BYTES,
    SYSCTLS,
    WORK_DIRECTORY,
    ContainerSpec,
)

Document = Mapping[str, object]

CHILDREN = 127
"""Maximum concurrent children of a template, by its user ids."""
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
MEMORY_BYTES = 384 * 2**20
_PIDS = 32
_BASE_BYTES = 64 * 1024
_HIDDEN = ("nosuid", "noexec", "nodev")
_OF_TEMPLATES = ("/proc", "/dev", "/sys")
_HELD = ("bounding", "effective", "permitted")
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
_START = (
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
        memory_bytes=MEMORY_BYTES,
        pids=_PIDS,
        cpus=1.0,
        work_bytes=_BASE_BYTES,
        work_files=64,
        open_files=0,
        seccomp=spec.seccomp,
        labels=labels,
        preload=spec.preload,
    )


def build_template_configuration(spec: ContainerSpec, place: ContainerHostConfig) -> dict[str, object]:
    """Return the runtime's configuration of a template.

    Raises: EngineError ``engine.seccomp``, ``engine.template``.
    """
    usual = json.loads(json.dumps(build_configuration(spec, place)))
    usual["linux"]["seccomp"]["syscalls"] += _CALLS
    usual["process"] |= {
        "user": {"uid": 0, "gid": 0},
        "args": [*read_program(place.arguments).interpreter, "-c", _START],
        "capabilities": {
            name: list(CAPABILITIES) if name in _HELD else [] for name in usual["process"]["capabilities"]
        },
        "rlimits": [{"type": f"RLIMIT_{name}", "soft": 0, "hard": 0} for name in ("CORE", "MSGQUEUE")],
    }
    base = {
        "destination": WORK_DIRECTORY,
        "type": "tmpfs",
        "source": "tmpfs",
        "options": [*_HIDDEN, "mode=0755", f"size={_BASE_BYTES}"],
    }
    kept = [mount for mount in build_mounts(spec, {}) if mount["destination"] in _OF_TEMPLATES]
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
