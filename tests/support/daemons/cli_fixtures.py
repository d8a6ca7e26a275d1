"""`assay` with an in-memory daemon, for tests of the command line."""

from collections.abc import Callable, Iterator

import pytest

from assayd_client import PlainClient
from assayd_client.cli import main
from support.daemons.fake_service import FakeService
from support.daemons.server import serving

GOOD = {"kind": "extractor", "payload": {"code": "x = 1"}}


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[tuple[str, FakeService]]:
    """Serve an in-memory daemon for all tests of a module."""
    service = FakeService()
    with serving(service, tmp_path_factory.mktemp("server") / "s") as path:
        yield str(path), service


@pytest.fixture
def service(server: tuple[str, FakeService]) -> FakeService:
    server[1].reset()
    return server[1]


@pytest.fixture
def socket(server: tuple[str, FakeService], service: FakeService) -> str:
    return server[0]


@pytest.fixture
def assay(socket: str) -> Callable[..., int]:
    """Return a function that runs a command against the server."""
    return lambda *arguments: main(["--socket", socket, *arguments])


@pytest.fixture
def finished(socket: str, service: FakeService) -> str:
    """Return the id of an attempt that has its verdict."""
    with PlainClient(socket) as client:
        return client.submit(GOOD, wait_s=5)["id"]
