"""The few calls of the SDK that we make, with the types that it lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import IO, Protocol

Document = Mapping[str, object]


class Closable(Protocol):
    """Something to close."""

    def close(self) -> None:
        """Close it."""
        ...


class AttachedSocket(Protocol):
    """What `attach_socket` gives: a connection that lives no longer than the response that it came with."""

    # The SDK hangs it there for the very purpose of keeping it alive; nothing else closes all of it.
    _response: Closable

    def fileno(self) -> int:
        """Return the connection's descriptor."""
        ...


class DockerApi(Protocol):
    """The part of `docker.APIClient` that we use. Every call blocks and may raise what `calls` translates."""

    trust_env: bool
    post: Callable[..., object]

    def info(self) -> Document:
        """GET /info."""
        ...

    def version(self) -> Document:
        """GET /version."""
        ...

    def create_container_from_config(self, config: Document, name: str | None = None) -> Document:
        """POST /containers/create."""
        ...

    def inspect_container(self, container: str) -> Document:
        """GET /containers/{id}/json."""
        ...

    def containers(self, *, all: bool, filters: Mapping[str, str]) -> list[Document]:  # noqa: A002
        """GET /containers/json."""
        ...

    def attach_socket(self, container: str, params: Mapping[str, int]) -> AttachedSocket:
        """POST /containers/{id}/attach."""
        ...

    def start(self, container: str) -> None:
        """POST /containers/{id}/start."""
        ...

    def kill(self, container: str) -> None:
        """POST /containers/{id}/kill."""
        ...

    def remove_container(self, container: str, *, v: bool, force: bool) -> None:
        """DELETE /containers/{id}."""
        ...

    def wait(self, container: str, timeout: float, condition: str) -> Document:
        """POST /containers/{id}/wait."""
        ...

    def get_archive(self, container: str, path: str) -> tuple[Iterator[bytes], Document]:
        """GET /containers/{id}/archive."""
        ...

    def inspect_image(self, image: str) -> Document:
        """GET /images/{name}/json."""
        ...

    def load_image(self, data: IO[bytes]) -> Iterator[Document]:
        """POST /images/load."""
        ...

    def images(self, *, filters: Mapping[str, str]) -> list[Document]:
        """GET /images/json."""
        ...

    def get_image(self, image: str) -> Iterator[bytes]:
        """GET /images/{name}/get."""
        ...

    def remove_image(self, image: str) -> object:
        """DELETE /images/{name}."""
        ...

    def get_adapter(self, url: str) -> Closable:
        """Return what answers an address."""
        ...

    def mount(self, prefix: str, adapter: object) -> None:
        """Answer addresses that begin with `prefix` through `adapter`."""
        ...

    def close(self) -> None:
        """Close the pooled connections."""
        ...
