"""One daemon for all tests that only use it; those that stop or starve one make their own.

With TESTS_BEHIND=gateway the same tests run against a gateway before RabbitMQ, PostgreSQL and a node.
"""

import os
from collections.abc import Iterator

import httpx
import pytest

from assayd_client import PlainClient
from support.cluster.apart import exclude_time
from support.cluster.gateway_process import cluster_servers
from support.daemons.chosen import BEHIND_GATEWAY, new_daemon
from support.daemons.daemon_fixtures import make_daemon, pytest_runtest_makereport  # noqa: F401 - pytest finds them
from support.daemons.daemon_process import DaemonProcess
from support.engines.oci import needs_oci
from support.stores.postgres import PostgresServer

OCI = pytest.param("oci", marks=needs_oci)
ONE_ENGINE = [OCI] if BEHIND_GATEWAY or os.geteuid() == 0 else ["docker"]
EACH_ENGINE = [OCI] if BEHIND_GATEWAY else ["docker", OCI]

if BEHIND_GATEWAY:

    def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
        exclude_time(config, items)

    @pytest.fixture(scope="session", autouse=True)
    def servers(postgres: PostgresServer) -> Iterator[None]:
        with cluster_servers(postgres):
            yield

    @pytest.fixture(scope="session")
    def docker_host() -> str:
        """Return the engine of a gateway's node."""
        return "oci"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests marked `each_engine` on each engine, and all others on one."""
    if "engine_name" in metafunc.fixturenames:
        each = metafunc.definition.get_closest_marker("each_engine")
        metafunc.parametrize("engine_name", EACH_ENGINE if each else ONE_ENGINE, scope="session")


@pytest.fixture(scope="session")
def daemon(request: pytest.FixtureRequest, engine_name: str) -> Iterator[DaemonProcess]:
    """Return a daemon on the test's engine that accepts requests from every user of this machine."""
    engine = "oci" if engine_name == "oci" else request.getfixturevalue("docker_host")
    made = new_daemon(engine, settings={"SOCKET_MODE": "0666", "POOL__DEFAULT_TARGET": "1"})
    made.home.chmod(0o755)
    try:
        made.start()
        yield made
    finally:
        made.dispose()


@pytest.fixture
def client(daemon: DaemonProcess) -> Iterator[PlainClient]:
    with daemon.client() as client:
        yield client


@pytest.fixture
def http(daemon: DaemonProcess) -> Iterator[httpx.Client]:
    with daemon.http() as client:
        yield client
