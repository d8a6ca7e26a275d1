"""Images of the Docker engine: inspects, loads, saves and removes them."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

from docker.errors import APIError, NotFound

from assayd.engines.docker.calls import DockerApi, Document
from assayd.engines.docker.document import ImageSettings
from assayd.errors import EngineError
from assayd.ports.engine import ImageFacts, ListedImage, build_file_missing_error

_CONFLICT = 409
_TAR_BYTES = 64 * 1024
"""Maximum bytes of tar overhead for a single file."""
_LOADED_PREFIXES = ("Loaded image: ", "Loaded image ID: ")


def parse_image_facts(name: str, inspected: Document) -> ImageFacts:
    """Return the name, digest, size and labels of an inspected image."""
    return ImageFacts(
        name=name,
        digest=cast("str", inspected["Id"]),
        size_bytes=cast("int", inspected["Size"]),
        labels=parse_image_settings(inspected).labels,
    )


def parse_image_settings(inspected: Document) -> ImageSettings:
    """Return the settings that a container of this image inherits."""
    config = cast("Document", inspected["Config"])
    return ImageSettings(
        environment=cast("list[str]", config.get("Env") or []),
        entrypoint=cast("list[str]", config.get("Entrypoint") or []),
        command=cast("list[str]", config.get("Cmd") or []),
        directory=cast("str", config.get("WorkingDir") or ""),
        labels=cast("dict[str, str]", config.get("Labels") or {}),
    )


def load_image(client: DockerApi, *, archive: Path) -> str:
    """Load an archive into the engine, and return the name that the engine gives the image.

    Raises: EngineError ``image.archive_missing``, if the archive doesn't exist; ``image.archive_refused``, if
    the engine reports no image.
    """
    if not archive.is_file():
        raise EngineError(
            "image.archive_missing", f"image archive {archive.name} doesn't exist; build it first"
        )
    with archive.open("rb") as stream:
        names = list(_parse_loaded_images(client.load_image(stream)))
    if not names:
        raise EngineError(
            "image.archive_refused", f"the engine could not load {archive.name}; build it again"
        )
    return names[0]


def list_images(client: DockerApi) -> list[ListedImage]:
    """Return this project's images, sorted by name. Their shared sizes and load times are None."""
    rows = client.images(filters={"reference": "assayd/*"})
    named = [(tag, row) for row in rows for tag in cast("list[str]", row.get("RepoTags") or [])]
    return [
        ListedImage(
            name=tag.removesuffix(":latest"),
            digest=cast("str", row["Id"]),
            size_bytes=cast("int", row["Size"]),
            shared_bytes=None,
            loaded_at=None,
        )
        for tag, row in sorted(named, key=lambda pair: pair[0])
    ]


def save_image(client: DockerApi, *, name: str, target: Path) -> None:
    """Write an image with its layers in the format of `docker save`."""
    with target.open("wb") as stream:
        stream.writelines(client.get_image(name))


def remove_image(client: DockerApi, *, name: str) -> None:
    """Remove an image name. Do nothing if it doesn't exist.

    Raises: EngineError ``image.in_use``, if a container uses the image.
    """
    try:
        with suppress(NotFound):
            client.remove_image(name)
    except APIError as problem:
        if problem.status_code != _CONFLICT:
            raise
        message = f"image {name} is used by a container; remove that first"
        raise EngineError("image.in_use", message) from problem


def read_image_file(client: DockerApi, *, name: str, path: str, most_bytes: int) -> bytes:
    """Return a regular file of an image, copied from a container that never runs.

    Raises: EngineError ``image.file_missing``, if the path doesn't exist, isn't a regular file, or is larger
    than `most_bytes`.
    """
    wanted = {"Image": name, "HostConfig": {"NetworkMode": "none"}}
    container = str(client.create_container_from_config(wanted)["Id"])
    packed = bytearray()
    try:
        for block in client.get_archive(container, f"/{path}")[0]:
            packed += block
            if len(packed) > most_bytes + _TAR_BYTES:
                raise build_file_missing_error(name, path, most_bytes)
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:") as tar:
            member = tar.next()
            if member is None or not member.isreg() or member.size > most_bytes:
                raise build_file_missing_error(name, path, most_bytes)
            return cast("IO[bytes]", tar.extractfile(member)).read()
    except (NotFound, tarfile.TarError) as problem:
        raise build_file_missing_error(name, path, most_bytes) from problem
    finally:
        client.remove_container(container, force=True, v=True)


def _parse_loaded_images(progress: Iterable[Document]) -> Iterable[str]:
    for step in progress:
        text = str(step.get("stream", ""))
        for prefix in _LOADED_PREFIXES:
            if text.startswith(prefix):
                yield text.removeprefix(prefix).strip()
