"""The engine disappears during or between runs and returns; a container is killed from outside."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

import pytest

from assayd.ports.engine import LABEL_CONTAINER
from assayd.sandbox.sandbox import read_oom_kill_count
from assayd_client import ClientError, Document, PlainClient
from support.daemons.daemon_process import READY_WITHIN_S, DaemonProcess, new_home
from support.engines.cuttable_engine import CuttableEngine
from support.texts.extractors import GOOD, endless, extractor

pytestmark = pytest.mark.engine

ANSWERS_WITHIN_S = 20.0


class Behind(DaemonProcess):
    """A daemon whose engine is behind a proxy that can be cut."""

    def __init__(self, engine: str) -> None:
        home = new_home()
        self.proxy = CuttableEngine(home / "e", engine)
        settings = {"POOL__DEFAULT_TARGET": "1", "ENGINE__PATIENCE_S": "2"}
        super().__init__(self.proxy.url, home=home, settings=settings)


@pytest.fixture(scope="module")
def daemon(docker_host: str) -> Iterator[Behind]:
    """Return the daemon that all tests share; each test restores its engine."""
    daemon = Behind(docker_host)
    with daemon.proxy:
        daemon.proxy.restore()
        try:
            daemon.start()
            yield daemon
        finally:
            daemon.dispose()


@pytest.fixture
def client(daemon: Behind) -> Iterator[PlainClient]:
    """Return a client of the daemon when it is ready again after the previous test."""
    end = time.monotonic() + READY_WITHIN_S
    with daemon.http() as http:
        while http.get("/readyz").status_code != 200:
            assert time.monotonic() < end
    with daemon.client() as client:
        yield client


def run_until_started(client: PlainClient) -> Document:
    """Submit an attempt that takes long, and wait until its first unit has started."""
    attempt = client.submit(endless())
    next(e for e in client.events(attempt["id"]) if e.kind == "unit" and e.body["status"] == "started")
    return attempt


def assert_is_run_again(client: PlainClient, attempt: Document) -> None:
    running = (event for event in client.events(attempt["id"]) if event.body.get("state") == "running")
    assert all(next(running) for _ in range(2))
    client.cancel(attempt["id"])
    finished = client.attempt(attempt["id"], wait_s=60)
    assert (finished["verdict"], finished["cause"], finished["run_number"]) == ("cancelled", "cancelled", 2)


def kill_container_of(daemon: Behind, attempt: Document) -> str:
    """Kill the container of the attempt's latest run; return its name."""
    query = "SELECT container_ulid FROM runs WHERE attempt_id = ? ORDER BY run_number DESC"
    ulid = str(daemon.rows(query, attempt["id"])[0]["container_ulid"])
    daemon.kill_container(next(c for c in daemon.containers() if c.labels[LABEL_CONTAINER] == ulid))
    return ulid


def test_run_whose_connection_is_lost_is_run_again(daemon: Behind, client: PlainClient) -> None:
    attempt = run_until_started(client)

    daemon.proxy.drop_connections()

    assert_is_run_again(client, attempt)
    assert len(daemon.rows("SELECT * FROM runs WHERE attempt_id = ?", attempt["id"])) == 2


def test_run_whose_container_is_killed_from_outside_is_run_again(daemon: Behind, client: PlainClient) -> None:
    before, (attempt, ulid) = read_oom_kill_count(), killed_once(daemon, client)
    while read_oom_kill_count() != before:  # a kill elsewhere on the machine is taken for the reason
        with suppress(ClientError):  # it has ended
            client.cancel(attempt["id"])
        before, (attempt, ulid) = read_oom_kill_count(), killed_once(daemon, client)

    assert_is_run_again(client, attempt)
    daemon.log.wait_for("container.removed", container=ulid)


def killed_once(daemon: Behind, client: PlainClient) -> tuple[Document, str]:
    """Kill the container of a run; return its attempt once it runs again or is finished, and the name."""
    attempt = run_until_started(client)
    ulid = kill_container_of(daemon, attempt)
    running = (event for event in client.events(attempt["id"]) if event.body.get("state") == "running")
    list(islice(running, 2))
    return attempt, ulid


def lost_twice(daemon: Behind, client: PlainClient) -> Document:
    attempt = client.submit(endless())
    for event in client.events(attempt["id"]):
        if event.kind == "unit" and event.body["status"] == "started":
            kill_container_of(daemon, attempt)
    return client.attempt(attempt["id"], wait_s=60)


def test_run_that_is_lost_twice_is_our_error(daemon: Behind, client: PlainClient) -> None:
    before, finished = read_oom_kill_count(), lost_twice(daemon, client)
    while read_oom_kill_count() != before:  # a kill elsewhere on the machine is taken for the reason
        before, finished = read_oom_kill_count(), lost_twice(daemon, client)

    assert (finished["verdict"], finished["cause"]) == ("error", "infrastructure")
    assert (finished["error"]["code"], finished["run_number"]) == ("run.lost", 2)
    assert finished["report"]["status"] == "ERROR"


def test_idle_container_that_is_killed_is_not_leased(daemon: Behind, client: PlainClient) -> None:
    client.submit(extractor(GOOD), wait_s=60)
    for container in daemon.containers():
        daemon.kill_container(container)

    attempt = client.submit(extractor(GOOD), wait_s=60)

    assert attempt["verdict"] == "validated"


def test_attempt_ends_as_error_when_the_engine_stays_away_and_the_daemon_serves_again_when_it_is_back(
    daemon: Behind, client: PlainClient
) -> None:
    attempt = run_until_started(client)

    daemon.log.forget()
    daemon.proxy.cut()

    finished = client.attempt(attempt["id"], wait_s=60)
    assert (finished["verdict"], finished["error"]["code"]) == ("error", "engine.unreachable")
    assert daemon.bundle(finished).is_dir()

    daemon.log.wait_for("sandbox.not_ready")
    began = time.monotonic()
    with pytest.raises(ClientError) as refused:
        client.submit(extractor(GOOD), wait_s=60)
    assert (refused.value.status, refused.value.code, refused.value.retryable) == (503, "not_ready", True)
    assert time.monotonic() - began < ANSWERS_WITHIN_S

    daemon.log.forget()
    daemon.proxy.restore()
    daemon.log.wait_for("sandbox.ready", 60)
    assert client.submit(extractor(GOOD), wait_s=60)["verdict"] == "validated"


def test_nothing_is_left_of_all_that_trouble(daemon: Behind) -> None:
    assert daemon.stop() == 0

    assert daemon.containers() == []
    assert daemon.rows("SELECT id FROM attempts WHERE id NOT IN (SELECT attempt_id FROM verdicts)") == []
    assert list((daemon.state / "artifacts").rglob(".tmp-*")) == []
