"""Implements `ports.engine.Engine` with the Docker API: few calls per step, and no waiting threads.

`document` decides what a container can do; `calls` translates errors.

The engine's description of itself is read for required facts and for warnings to operators.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from docker.errors import APIError, DockerException, NotFound
from requests.exceptions import RequestException

from assayd.engines.docker import document, images
from assayd.engines.docker.calls import AttachedStream, Closable, DockerApi, DockerCallRunner, Document
from assayd.engines.docker.document import EngineHost, ImageSettings
from assayd.errors import ConfigError, EngineError
from assayd.ports.engine import (
    LABEL_CONTAINER,
    LABEL_DAEMON,
    Capabilities,
    ContainerExitFacts,
    ContainerRef,
    ContainerSpec,
    EngineInfo,
    ImageFacts,
    ListedImage,
    OwnedContainer,
)
from assayd.vulnerabilities import find_known_vulnerabilities

_DEFAULT_URL = "unix:///var/run/docker.sock"
_ATTACH_PARAMS = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
_TRANSFER_TIMEOUT_S = 600.0
_REMOVAL_TIMEOUT_S = 15.0
_HTTP_NOT_FOUND = 404
_CONFLICT = 409


@dataclass(frozen=True, slots=True)
class _Attachment:
    """An attached connection, and the SDK's response, whose garbage collection would close it."""

    connection: socket.socket
    response: Closable

    def drop(self) -> None:
        self.connection.close()
        self.response.close()


@dataclass(frozen=True, slots=True)
class _CreatedContainer:
    """A created container and the client that can remove it, for callers that were cancelled."""

    client: DockerApi
    engine_id: str

    def remove(self) -> None:
        # If this fails too, the reaper finds the container by its labels.
        with suppress(DockerException, RequestException, OSError):
            _remove(self.client, engine_id=self.engine_id)


class DockerEngine:
    """A Docker engine on this host, or another engine that serves the same API.

    Args:
        base_url: ``unix://…`` or ``tcp://…``; None means DOCKER_HOST or the default socket.
        threads: the maximum number of concurrent calls.
        timeout_s: the timeout of every call, except those that transfer whole images.

    Raises:
        ConfigError: ``engine.address``, if the address has another scheme.
    """

    def __init__(self, *, base_url: str | None, threads: int = 8, timeout_s: float = 20.0) -> None:
        url = base_url or os.environ.get("DOCKER_HOST") or _DEFAULT_URL
        if not url.startswith(("unix://", "tcp://")):
            raise ConfigError("engine.address", "the engine's address must begin with unix:// or tcp://")
        self._calls = DockerCallRunner(url, threads=threads, timeout_s=timeout_s)
        self._streams: dict[str, AttachedStream] = {}
        self._host: EngineHost | None = None
        self._image_settings: dict[str, ImageSettings] = {}

    async def info(self) -> EngineInfo:
        """Return the engine's name, versions and a warning for each limit that it can't enforce.

        Raises: EngineError ``engine.unsupported``, if the engine is Podman.
        """
        info, version = await self._calls(lambda client: (client.info(), client.version()))
        reject_unsupported_engine(version)
        self._host = parse_engine_host(info)
        return parse_engine_info(info, version)

    def capabilities(self) -> Capabilities:
        """Return the capabilities of Docker 20.10 or later with runc."""
        return Capabilities(
            seccomp=True,
            tmpfs_owner=True,
            tmpfs_inodes=True,
            private_cgroup=True,
            facts_after_exit=True,
            pid1_immune=True,
        )

    async def create(self, spec: ContainerSpec) -> ContainerRef:
        """Create a container named after its ULID without starting it, and return its reference."""
        ulid = spec.labels[LABEL_CONTAINER]
        wanted = document.build_creation_document(spec, await self._get_host())
        create = partial(_create, wanted=wanted, name=f"assayd-{ulid}")
        made = await self._calls(create, discard=_CreatedContainer.remove)
        return ContainerRef(engine_id=made.engine_id, ulid=ulid)

    async def verify(self, ref: ContainerRef, spec: ContainerSpec) -> None:
        """Compare the created container with its spec.

        Raises: EngineError ``engine.mismatch``, if they differ.
        """
        image = await self._get_image_settings(spec.image_digest)
        inspected = await self._inspect(ref)
        found = document.find_creation_differences(inspected, spec, await self._get_host(), image)
        if found:
            message = "the engine created a container that differs from the request: " + "; ".join(found)
            raise EngineError("engine.mismatch", message)

    async def start(self, ref: ContainerRef) -> AttachedStream:
        """Attach to the container, then start it, so that no output of the runner is lost.

        Return the stream.
        """
        attachment = await self._calls(
            partial(_attach_and_start, engine_id=ref.engine_id), discard=_Attachment.drop
        )
        try:
            stream = await AttachedStream.open(attachment.connection, attachment.response.close)
        except asyncio.CancelledError:
            attachment.drop()
            raise
        self._streams[ref.engine_id] = stream
        return stream

    async def kill(self, ref: ContainerRef) -> None:
        """Close the container's stream, then kill the container.

        Do nothing if it has stopped or no longer exists.
        """
        await self._close_stream(ref)
        await self._calls(partial(_kill, engine_id=ref.engine_id))

    async def remove(self, ref: ContainerRef) -> None:
        """Remove the container, running or stopped, and verify that it no longer exists.

        Do nothing if it doesn't exist; if another client is removing it, wait up to 15 seconds for the
        removal.
        """
        await self._close_stream(ref)
        await self._calls(partial(_remove, engine_id=ref.engine_id))

    async def make_way(self, ref: ContainerRef) -> None:
        """Do nothing: changing the priority would take a quarter of a container's start time."""

    async def facts(self, ref: ContainerRef) -> ContainerExitFacts:
        """Return the exit code and OOM kill of a container; None for both unless it has run and exited."""
        state = cast("Document", (await self._inspect(ref))["State"])
        running = bool(state["Running"])
        ended = not running and state["Status"] != "created"
        return ContainerExitFacts(
            running=running,
            exit_code=cast("int", state["ExitCode"]) if ended else None,
            oom_killed=bool(state["OOMKilled"]) if ended else None,
        )

    async def list_owned(self, daemon_id: str) -> Sequence[OwnedContainer]:
        """Return all containers with the daemon's label, running or stopped."""
        filters = {"label": f"{LABEL_DAEMON}={daemon_id}"}
        rows = await self._calls(lambda client: client.containers(all=True, filters=filters))
        return [
            OwnedContainer(
                engine_id=cast("str", row["Id"]),
                labels=cast("dict[str, str]", row["Labels"]),
                running=row["State"] == "running",
            )
            for row in rows
        ]

    async def image(self, name: str) -> ImageFacts:
        """Return an image by name or digest. Raises: EngineError ``image.missing``, if it doesn't exist."""
        inspected = await self._calls(lambda client: client.inspect_image(name))
        return images.parse_image_facts(name, inspected)

    async def load_image(self, archive: Path) -> ImageFacts:
        """Load an image archive in the format of `imaging`, and return the image.

        Raises: EngineError ``image.archive_missing``, if the archive doesn't exist;
        ``image.archive_refused``, if the engine can't load it.
        """
        load = partial(images.load_image, archive=archive)
        return await self.image(await self._calls(load, timeout_s=_TRANSFER_TIMEOUT_S))

    async def list_images(self) -> Sequence[ListedImage]:
        """Return the images whose names start with ``assayd/``."""
        return await self._calls(images.list_images)

    async def remove_image(self, name: str) -> None:
        """Remove an image name, if it exists. The engine deletes the image with its last name.

        Raises: EngineError ``image.in_use``, if a container uses the image.
        """
        await self._calls(partial(images.remove_image, name=name))

    async def save_image(self, name: str, target: Path) -> None:
        """Write any of the engine's images in the format of `docker save`. Raises: EngineError."""
        await self._calls(partial(images.save_image, name=name, target=target), timeout_s=_TRANSFER_TIMEOUT_S)

    async def image_file(self, name: str, path: str, most_bytes: int) -> bytes:
        """Return the content of a regular file of an image.

        Raises: EngineError ``image.file_missing``, if no such file exists or it is larger than `most_bytes`.
        """
        read = partial(images.read_image_file, name=name, path=path, most_bytes=most_bytes)
        return await self._calls(read, timeout_s=_TRANSFER_TIMEOUT_S)

    async def close(self) -> None:
        """Close the open streams, and release all connections and threads."""
        for stream in list(self._streams.values()):
            await stream.close()
        self._streams.clear()
        self._calls.close()

    async def _inspect(self, ref: ContainerRef) -> Document:
        return await self._calls(lambda client: client.inspect_container(ref.engine_id))

    async def _get_host(self) -> EngineHost:
        if self._host is None:
            self._host = parse_engine_host(await self._calls(lambda client: client.info()))
        return self._host

    async def _get_image_settings(self, digest: str) -> ImageSettings:
        # A digest identifies content, so its settings never change.
        if digest not in self._image_settings:
            inspected = await self._calls(lambda client: client.inspect_image(digest))
            self._image_settings[digest] = images.parse_image_settings(inspected)
        return self._image_settings[digest]

    async def _close_stream(self, ref: ContainerRef) -> None:
        # The engine can neither kill nor remove a container while an attached stream is full.
        stream = self._streams.pop(ref.engine_id, None)
        if stream is not None:
            await stream.close()


def _create(client: DockerApi, *, wanted: Document, name: str) -> _CreatedContainer:
    made = client.create_container_from_config(wanted, name=name)
    return _CreatedContainer(client, str(made["Id"]))


def _attach_and_start(client: DockerApi, *, engine_id: str) -> _Attachment:
    attached = client.attach_socket(engine_id, params=dict(_ATTACH_PARAMS))
    attachment = _Attachment(socket.socket(fileno=os.dup(attached.fileno())), attached._response)
    try:
        client.start(engine_id)
    except BaseException:
        attachment.drop()
        raise
    return attachment


def _kill(client: DockerApi, *, engine_id: str) -> None:
    try:
        client.kill(engine_id)
    except APIError as problem:
        if problem.status_code not in {_HTTP_NOT_FOUND, _CONFLICT}:
            raise


def _remove(client: DockerApi, *, engine_id: str) -> None:
    try:
        client.remove_container(engine_id, force=True, v=True)
    except NotFound:
        return
    except APIError as problem:
        if problem.status_code != _CONFLICT:
            raise
        # Another client is removing it, which doesn't prove that it is gone.
        _wait_for_removal(client, engine_id)


def _wait_for_removal(client: DockerApi, engine_id: str) -> None:
    with suppress(NotFound):
        client.wait(engine_id, timeout=_REMOVAL_TIMEOUT_S, condition="removed")


_WARNING_BY_LIMIT = {
    "MemoryLimit": "memory isn't limited: the kernel lacks the memory controller",
    "SwapLimit": "swap isn't limited: boot the kernel with swapaccount=1",
    "PidsLimit": "processes aren't limited: the kernel lacks the pids controller",
    "CpuCfsQuota": "CPU time isn't limited: the kernel lacks CFS bandwidth control",
}


def parse_engine_info(info: Document, version: Document) -> EngineInfo:
    """Return the engine's description and warnings from the responses of ``/info`` and ``/version``."""
    components = dict(_iter_components(version))
    runtime = parse_engine_host(info).runtime
    return EngineInfo(
        name="docker",
        version=str(info.get("ServerVersion", "")),
        runtime=f"{runtime} {components.get(runtime, '')}".strip(),
        kernel=str(info.get("KernelVersion", "")),
        cgroup_version=_parse_cgroup_version(info),
        warnings=(*find_missing_limits(info), *find_known_vulnerabilities(components)),
    )


def parse_engine_host(info: Document) -> EngineHost:
    """Return the host's facts on which a container's document depends. The default runtime is ``runc``."""
    runtime = info.get("DefaultRuntime")
    return EngineHost(
        runtime=runtime if isinstance(runtime, str) and runtime else "runc",
        swappiness=_parse_cgroup_version(info) == 1,
    )


def reject_unsupported_engine(version: Document) -> None:
    """Reject an engine that serves the Docker API but ignores the requested isolation.

    Raises: EngineError ``engine.unsupported``, if the engine is Podman.
    """
    podman = dict(_iter_components(version)).get("Podman Engine")
    if podman is not None:
        message = f"this is Podman {podman}, which ignores flags that isolate containers; use Docker"
        raise EngineError("engine.unsupported", message)


def find_missing_limits(info: Document) -> tuple[str, ...]:
    """Return a message for each required limit, including seccomp, that this host can't enforce."""
    missing = [text for key, text in _WARNING_BY_LIMIT.items() if info.get(key) is not True]
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


def _parse_cgroup_version(info: Document) -> int:
    return 2 if info.get("CgroupVersion") == "2" else 1
