"""Refusals: users who aren't listed, users with too many attempts, everybody if the disk is nearly full."""

from __future__ import annotations

import httpx
import pytest

from support.daemons.ask import NOBODY, ask_as_nobody
from support.daemons.daemon_fixtures import MakeDaemon, needs_root
from support.texts.extractors import GOOD, endless, extractor

pytestmark = pytest.mark.engine


def post(http: httpx.Client, submission: dict[str, object]) -> httpx.Response:
    return http.post("/v1/attempts", json=submission)


def test_user_with_too_many_unfinished_attempts_has_to_wait(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(settings={"LIMITS__ATTEMPTS_PER_UID": "2"})
    daemon.start()
    with daemon.client() as client, daemon.http() as http:
        running = [client.submit(endless()), client.submit(endless())]

        refused = post(http, extractor(GOOD))

        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "quota.full")
        assert refused.headers["retry-after"]
        for attempt in running:
            client.cancel(attempt["id"])
            assert client.attempt(attempt["id"], wait_s=60)["verdict"] == "cancelled"
        assert client.submit(extractor(GOOD), wait_s=60)["verdict"] == "validated"


def test_nothing_is_accepted_while_the_disk_is_low(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(settings={"LIMITS__MIN_FREE_MB": str(10**9)})
    daemon.start()
    with daemon.http() as http:
        refused = post(http, extractor(GOOD))

    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "not_ready")
    assert "limits.min_free_mb" in refused.json()["error"]["message"]
    assert daemon.rows("SELECT * FROM attempts") == []


@needs_root
def test_only_listed_users_are_served(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(settings={"SOCKET_MODE": "0666", "ACCESS__UIDS": f"[{NOBODY + 1}]"})
    daemon.home.chmod(0o755)
    daemon.start()

    for method, target in (("GET", "/healthz"), ("GET", "/v1/kinds"), ("POST", "/v1/attempts")):
        status, document = ask_as_nobody(daemon, method, target)
        assert (status, document["error"]["code"]) == (403, "peer.not_allowed")
    with daemon.client() as client:
        assert client.submit(extractor(GOOD), wait_s=60)["verdict"] == "validated"
