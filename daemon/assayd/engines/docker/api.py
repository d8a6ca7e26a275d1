"""The part of the SDK that this package uses, with types that the SDK lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import IO, Protocol

Document = Mapping[str, object]


class Closable(Protocol):
    """A resource that can be closed."""

    def close(self) -> None:
        """Close the resource."""
        ...


class AttachedSocket(Protocol):
    """The result of `attach_socket`: a connection that is open only as long as its HTTP response exists."""

    # The SDK sets this attribute to keep the connection alive; closing the response is the only way to close
    # all of it.
    _response: Closable

    def fileno(self) -> int:
        """Return the file descriptor of the connection."""
        ...


class DockerApi(Protocol):
    """The part of `docker.APIClient` that is used. Every call blocks; `calls` translates its exceptions."""

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
        """Return the adapter for a URL."""
        ...

    def mount(self, prefix: str, adapter: object) -> None:
        """Send requests for URLs with this prefix through `adapter`."""
        ...

    def close(self) -> None:
        """Close the pooled connections."""
        ...
