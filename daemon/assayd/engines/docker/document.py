"""The engine's description of a container: one document to create it, one comparison to verify it.

All flags are constants of this module or numbers of the spec; nothing else can get in. An inspection returns
the settings of the creation, so one document serves for both.

Source: docs/threat-model.md; Engine API 1.41, ContainerCreate and ContainerInspect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from assayd.engines.docker.calls import Document
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

_NANO_PER_UNIT = 1_000_000_000
_MISSING = object()
_MAX_REPR_CHARACTERS = 80
NO_NAME_SERVER = "127.0.0.1"
"""The container's own loopback, where no name server listens, so a lookup fails immediately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineHost:
    """Inputs in addition to the spec: the runtime's name, and whether the kernel supports `swappiness`."""

    runtime: str
    swappiness: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSettings:
    """The settings that a container inherits from its image."""

    environment: list[str]
    entrypoint: list[str]
    command: list[str]
    directory: str
    labels: Mapping[str, str]


def build_creation_document(spec: ContainerSpec, host: EngineHost) -> dict[str, object]:
    """Return the document with which the engine creates a container."""
    return {**_build_process_section(spec), "HostConfig": _build_isolation_section(spec, host)}


def find_creation_differences(
    inspected: Document, spec: ContainerSpec, host: EngineHost, image: ImageSettings
) -> list[str]:
    """Return the differences between an inspected, unstarted container and the creation document.

    The differences are messages; the list is empty if there are none.

    Both a missing requested key and a setting that wasn't requested are reported as differences.
    """
    process = {**_build_process_section(spec), **_build_inherited_section(spec, image)}
    settings = _get_section(inspected, "NetworkSettings")
    networks = sorted(_get_section(settings, "Networks"))
    found = [
        *_compare("Image", inspected.get("Image", _MISSING), spec.image_digest),
        *_compare("State.Status", _get_section(inspected, "State").get("Status", _MISSING), "created"),
        *_compare("Mounts", inspected.get("Mounts", _MISSING), []),
        *_compare("ExecIDs", inspected.get("ExecIDs", _MISSING), []),
        *_compare("NetworkSettings.Networks", networks, ["none"]),
        *_compare_section("Config", inspected.get("Config"), process),
        *_compare_section("HostConfig", inspected.get("HostConfig"), _build_isolation_section(spec, host)),
    ]
    # Empty if the kernel has no AppArmor.
    profile = inspected.get("AppArmorProfile")
    if not isinstance(profile, str) or profile == "unconfined":
        found.append("AppArmorProfile is unconfined")
    return found


def _build_process_section(spec: ContainerSpec) -> dict[str, object]:
    return {
        "Image": spec.image_digest,
        "User": f"{GUEST_UID}:{GUEST_UID}",
        "Hostname": HOST_NAME,
        "Tty": False,
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Volumes": {},
        "Healthcheck": {"Test": ["NONE"]},
        "Labels": dict(spec.labels),
    }


def _build_inherited_section(spec: ContainerSpec, image: ImageSettings) -> dict[str, object]:
    return {
        "Env": image.environment,
        "Entrypoint": image.entrypoint,
        "Cmd": image.command,
        "WorkingDir": image.directory,
        "Labels": {**image.labels, **spec.labels},
    }


def _build_isolation_section(spec: ContainerSpec, host: EngineHost) -> dict[str, object]:
    return {
        **_build_privileges_section(spec, host),
        **_build_resources_section(spec, host),
        **_build_mounts_section(spec),
        "Init": False,
        "AutoRemove": False,
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "LogConfig": {"Type": "none", "Config": {}},
    }


def _build_privileges_section(spec: ContainerSpec, host: EngineHost) -> dict[str, object]:
    return {
        "Runtime": host.runtime,
        "Privileged": False,
        "CapAdd": [],
        "CapDrop": ["ALL"],
        "GroupAdd": [],
        "SecurityOpt": ["no-new-privileges:true", f"seccomp={spec.seccomp}"],
        "NetworkMode": "none",
        # Otherwise, /etc/resolv.conf would contain the host's name servers and search domains.
        "Dns": [NO_NAME_SERVER],
        "DnsSearch": ["."],
        "IpcMode": "private",
        "CgroupnsMode": "private",
        # Empty means a private namespace; the engine has no other value for it here.
        "PidMode": "",
        "UTSMode": "",
        "UsernsMode": "",
        "CgroupParent": "",
        "PublishAllPorts": False,
        "PortBindings": {},
        "Devices": [],
        "DeviceRequests": [],
        "DeviceCgroupRules": [],
        "Sysctls": SYSCTLS,
    }


def _build_resources_section(spec: ContainerSpec, host: EngineHost) -> dict[str, object]:
    resources: dict[str, object] = {
        "Memory": spec.memory_bytes,
        "MemorySwap": spec.memory_bytes,
        "NanoCpus": round(spec.cpus * _NANO_PER_UNIT),
        "PidsLimit": spec.pids,
        "OomScoreAdj": 0,
        "Ulimits": [
            _build_ulimit("core", 0),
            _build_ulimit("fsize", spec.work_bytes),
            _build_ulimit("msgqueue", 0),
            _build_ulimit("sigpending", PENDING_SIGNALS),
            _build_ulimit("nofile", spec.open_files),
        ],
    }
    if host.swappiness:
        resources["MemorySwappiness"] = 0
    return resources


def _build_mounts_section(spec: ContainerSpec) -> dict[str, object]:
    bounds = f"size={spec.work_bytes},nr_inodes={spec.work_files}"
    access = (
        f"uid={GUEST_UID},gid={GUEST_UID},mode=0700,nosuid,nodev,{'exec' if spec.work_exec else 'noexec'}"
    )
    return {
        "ReadonlyRootfs": True,
        "Binds": [],
        "VolumesFrom": [],
        "Tmpfs": {WORK_DIRECTORY: f"{bounds},{access}"},
        "ShmSize": SHM_BYTES,
        "MaskedPaths": list(MASKED_PATHS),
        "ReadonlyPaths": list(READONLY_PATHS),
    }


def _build_ulimit(name: str, value: int) -> dict[str, object]:
    return {"Name": name, "Soft": value, "Hard": value}


def _compare_section(path: str, got: object, want: Document) -> Iterator[str]:
    if not isinstance(got, Mapping):
        yield f"{path} is missing"
        return
    for key, value in want.items():
        yield from _compare(f"{path}.{key}", got.get(key, _MISSING), value)
    yield from (
        f"{path}.{key} wasn't requested" for key in got if key not in want and not _is_unset(got[key])
    )


def _compare(path: str, got: object, want: object) -> Iterator[str]:
    if got is _MISSING:
        yield f"{path} is missing"
    elif got is None and want in ("", [], {}):
        return
    elif type(got) is not type(want) or got != want:
        yield f"{path} is {_shorten_repr(got)}, expected {_shorten_repr(want)}"


def _is_unset(value: object) -> bool:
    """Return whether a value is empty, or a list of empty values such as ``[0, 0]`` for ``ConsoleSize``."""
    return not value or (isinstance(value, list) and not any(value))


def _get_section(document: Document, key: str) -> Document:
    section = document.get(key)
    return section if isinstance(section, Mapping) else {}


def _shorten_repr(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_REPR_CHARACTERS else text[:_MAX_REPR_CHARACTERS] + "…"
