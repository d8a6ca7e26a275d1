"""The engine's own description of itself, read for what we need and for what should worry an operator."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from assayd.engines.docker.api import Document
from assayd.engines.docker.document import Host
from assayd.errors import EngineError
from assayd.ports.engine import EngineInfo

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """A published way out of a container, and the first safe version of each maintained series."""

    program: str
    name: str
    what: str
    fixed_in: tuple[Version, ...]


# Only what a container made by `document` could use: no mounts, no capabilities, no network, no build.
HOLES = (
    Hole(
        program="runc",
        name="CVE-2019-5736",
        what="a container can overwrite the runtime on the host",
        fixed_in=((1, 0, 0),),
    ),
    Hole(
        program="runc",
        name="CVE-2024-21626",
        what="a descriptor of the host's file system leaks into the container",
        fixed_in=((1, 1, 12),),
    ),
    Hole(
        program="runc",
        name="CVE-2025-31133, CVE-2025-52565, CVE-2025-52881",
        what="races while paths are masked let a container write to the host's /proc",
        fixed_in=((1, 2, 8), (1, 3, 3), (1, 4, 0)),
    ),
)

_NEEDS = {
    "MemoryLimit": "memory is not limited: the kernel lacks the memory controller",
    "SwapLimit": "swap is not limited: boot the kernel with swapaccount=1",
    "PidsLimit": "processes are not limited: the kernel lacks the pids controller",
    "CpuCfsQuota": "CPU time is not limited: the kernel lacks CFS bandwidth control",
}


def engine_info(info: Document, version: Document) -> EngineInfo:
    """Read the answers of ``/info`` and ``/version``."""
    components = dict(_components(version))
    runtime = host(info).runtime
    return EngineInfo(
        name="docker",
        version=str(info.get("ServerVersion", "")),
        runtime=f"{runtime} {components.get(runtime, '')}".strip(),
        kernel=str(info.get("KernelVersion", "")),
        cgroup_version=_cgroup_version(info),
        warnings=(*missing_limits(info), *known_holes(components)),
    )


def host(info: Document) -> Host:
    """Read what a container's document depends on."""
    runtime = info.get("DefaultRuntime")
    return Host(
        runtime=runtime if isinstance(runtime, str) and runtime else "runc",
        swappiness=_cgroup_version(info) == 1,
    )


def refuse_others(version: Document) -> None:
    """Refuse an engine that serves this API and does not build the walls that it is asked for.

    Raises: EngineError ``engine.unsupported``.
    """
    podman = dict(_components(version)).get("Podman Engine")
    if podman is not None:
        message = f"this is Podman {podman}, which does not build the walls that are asked for; use Docker"
        raise EngineError("engine.unsupported", message)


def missing_limits(info: Document) -> tuple[str, ...]:
    """Say which of the limits that we rely on this host cannot enforce."""
    missing = [text for key, text in _NEEDS.items() if info.get(key) is not True]
    options = info.get("SecurityOptions")
    if not any(
        str(option).startswith("name=seccomp") for option in (options if isinstance(options, list) else ())
    ):
        missing.append("system calls are not filtered: the engine or the kernel lacks seccomp")
    return tuple(missing)


def known_holes(versions: Mapping[str, str]) -> tuple[str, ...]:
    """Say which published holes the version numbers point to.

    A distribution may have mended an old version, which its number does not show.

    Args:
        versions: program -> version text, e.g. ``{"runc": "1.1.5+ds1"}``.
    """
    return tuple(
        f"{hole.program} {versions[hole.program]}: {hole.name} ({hole.what}), unless backported"
        for hole in HOLES
        if hole.program in versions and _affected(_numbers(versions[hole.program]), hole.fixed_in)
    )


def _affected(version: Version, fixed_in: tuple[Version, ...]) -> bool:
    if not version:
        return True
    for fixed in fixed_in:
        if version[:2] == fixed[:2]:
            return version < fixed
    return version < max(fixed_in)


def _numbers(text: str) -> Version:
    match = re.match(r"v?(\d+)\.(\d+)\.(\d+)", text)
    return tuple(int(part) for part in match.groups()) if match else ()


def _components(version: Document) -> Iterator[tuple[str, str]]:
    components = version.get("Components")
    for component in components if isinstance(components, list) else ():
        if isinstance(component, Mapping):
            yield str(component.get("Name")), str(component.get("Version"))


def _cgroup_version(info: Document) -> int:
    return 2 if info.get("CgroupVersion") == "2" else 1
