"""Reads the engine's description of itself for required facts and for warnings to operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from assayd.engines.docker.calls import Document
from assayd.engines.docker.document import EngineHost
from assayd.errors import EngineError
from assayd.ports.engine import EngineInfo
from assayd.vulnerabilities import known_vulnerabilities

_NEEDS = {
    "MemoryLimit": "memory isn't limited: the kernel lacks the memory controller",
    "SwapLimit": "swap isn't limited: boot the kernel with swapaccount=1",
    "PidsLimit": "processes aren't limited: the kernel lacks the pids controller",
    "CpuCfsQuota": "CPU time isn't limited: the kernel lacks CFS bandwidth control",
}


def engine_info(info: Document, version: Document) -> EngineInfo:
    """Parse the responses of ``/info`` and ``/version``."""
    components = dict(_iter_components(version))
    runtime = host(info).runtime
    return EngineInfo(
        name="docker",
        version=str(info.get("ServerVersion", "")),
        runtime=f"{runtime} {components.get(runtime, '')}".strip(),
        kernel=str(info.get("KernelVersion", "")),
        cgroup_version=_cgroup_version(info),
        warnings=(*missing_limits(info), *known_vulnerabilities(components)),
    )


def host(info: Document) -> EngineHost:
    """Return the facts about the host on which a container's document depends."""
    runtime = info.get("DefaultRuntime")
    return EngineHost(
        runtime=runtime if isinstance(runtime, str) and runtime else "runc",
        swappiness=_cgroup_version(info) == 1,
    )


def refuse_unsupported_engine(version: Document) -> None:
    """Reject an engine that serves the Docker API but ignores the requested isolation.

    Raises: EngineError ``engine.unsupported``.
    """
    podman = dict(_iter_components(version)).get("Podman Engine")
    if podman is not None:
        message = f"this is Podman {podman}, which ignores flags that isolate containers; use Docker"
        raise EngineError("engine.unsupported", message)


def missing_limits(info: Document) -> tuple[str, ...]:
    """Return the required limits that this host can't enforce."""
    missing = [text for key, text in _NEEDS.items() if info.get(key) is not True]
    options = info.get("SecurityOptions")
    if not any(
        str(option).startswith("name=seccomp") for option in (options if isinstance(options, list) else ())
    ):
        missing.append("system calls aren't filtered: the engine or the kernel lacks seccomp")
    return tuple(missing)


def _iter_components(version: Document) -> Iterator[tuple[str, str]]:
    components = version.get("Components")
    for component in components if isinstance(components, list) else ():
        if isinstance(component, Mapping):
            yield str(component.get("Name")), str(component.get("Version"))


def _cgroup_version(info: Document) -> int:
    return 2 if info.get("CgroupVersion") == "2" else 1
