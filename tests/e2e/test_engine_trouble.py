"""The daemon without a usable engine: it serves, says why it isn't ready, and becomes ready later."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from assayd_client import Document
from support.daemons.daemon_fixtures import MakeDaemon
from support.daemons.daemon_process import DaemonProcess, new_home
from support.engines import engine_image
from support.engines.cuttable_engine import CuttableEngine, SilentEngine
from support.texts.extractors import GOOD, extractor

pytestmark = pytest.mark.engine

ANSWERS_WITHIN_S = 20.0
OURS = b"/images/assayd/python/"
FOREIGN = "assayd/pythox"


@pytest.fixture
def proxy(docker_host: str) -> Iterator[CuttableEngine]:
    home = new_home()
    with CuttableEngine(home / "e", docker_host) as proxy:
        yield proxy
    home.rmdir()


@pytest.fixture
def foreign_image(docker_host: str) -> Iterator[str]:
    """Return an image whose label names a different guest version."""
    engine_image.commit(FOREIGN, "pass", "LABEL org.assayd.guest=another")
    yield FOREIGN
    engine_image.drop(FOREIGN)


def refusal(daemon: DaemonProcess) -> Document:
    """Return the daemon's refusal of a submission, after checking that readiness reports the same."""
    with daemon.http() as http:
        began = time.monotonic()
        refused = http.post("/v1/attempts", params={"wait_s": 60}, json=extractor(GOOD))
        assert time.monotonic() - began < ANSWERS_WITHIN_S
        asked = http.get("/readyz")
        assert http.get("/healthz").status_code == 200
    assert refused.status_code == asked.status_code == 503
    assert refused.headers["retry-after"]
    assert refused.json() == asked.json()
    error: Document = refused.json()["error"]
    assert (error["code"], error["retryable"]) == ("not_ready", True)
    return error


def test_daemon_starts_without_an_engine_and_gets_ready_when_it_appears(
    make_daemon: MakeDaemon, proxy: CuttableEngine
) -> None:
    daemon = make_daemon(proxy.url)
    daemon.spawn()
    daemon.log.wait_for("sandbox.not_ready")
    assert "can't reach the container engine" in refusal(daemon)["message"]

    proxy.restore()

    daemon.log.wait_for("daemon.ready", 60)
    with daemon.client() as client, daemon.http() as http:
        assert http.get("/readyz").json()["status"] == "ready"
        assert client.submit(extractor(GOOD), wait_s=60)["verdict"] == "validated"


def test_engine_that_does_not_answer_is_told_from_one_that_is_not_there(make_daemon: MakeDaemon) -> None:
    with ExitStack() as stack:
        home = new_home()
        stack.callback(home.rmdir)
        engine = stack.enter_context(SilentEngine(home / "e"))
        daemon = make_daemon(engine.url, settings={"ENGINE__TIMEOUT_S": "1"})
        daemon.spawn()
        daemon.log.wait_for("sandbox.not_ready")

        assert "didn't answer in time" in refusal(daemon)["message"]
        assert daemon.stop() == 0


def test_missing_image_is_named_with_its_remedy(make_daemon: MakeDaemon, proxy: CuttableEngine) -> None:
    proxy.rewritten = (OURS, b"/images/assayd/absent/")
    proxy.restore()
    daemon = make_daemon(proxy.url)
    daemon.spawn()

    assert daemon.log.wait_for("sandbox.not_ready")["code"] == "image.missing"

    assert "assay images build" in refusal(daemon)["message"]
    doctor = daemon.assay("doctor")
    assert doctor.returncode != 0
    assert "assay images build python" in doctor.stdout + doctor.stderr


def test_image_with_other_guest_code_is_refused_with_its_remedy(
    make_daemon: MakeDaemon, proxy: CuttableEngine, foreign_image: str
) -> None:
    proxy.rewritten = (OURS, f"/images/{foreign_image}/".encode())
    proxy.restore()
    daemon = make_daemon(proxy.url)
    daemon.spawn()

    assert daemon.log.wait_for("sandbox.not_ready")["code"] == "image.mismatch"

    assert "assay images build python" in refusal(daemon)["message"]
    assert daemon.containers() == []


def test_engine_address_that_is_none_is_refused_at_once(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon("ssh://somewhere")
    daemon.spawn()

    assert daemon.wait() == 2
    assert "unix:// or tcp://" in daemon.log.tail()
