"""A message survives the daemon that was about to deliver it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.daemons.daemon_fixtures import MakeDaemon
from support.hosts.webhook_receiver import SECRET, webhook_receiver
from support.texts.extractors import PROCESSES, extractor

pytestmark = pytest.mark.engine


def test_daemon_is_killed_between_verdict_and_delivery_and_the_next_run_delivers(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    with webhook_receiver() as host:
        listed = {"url": host.url, "secret_file": str(secret), "private_addresses": ["127.0.0.0/8"]}
        daemon = make_daemon(settings={"WEBHOOKS__RECEIVERS": json.dumps({"ci": listed})})
        daemon.start()
        host.frozen = True
        with daemon.client() as client:
            wanted = {**extractor(PROCESSES), "webhook": f"{host.url}/a"}
            attempt = client.submit(wanted, wait_s=60)
        first = host.wait_for(1)[0]
        daemon.kill()
        assert len(daemon.rows("SELECT id FROM webhook_messages")) == 1

        host.frozen = False
        daemon.start()
        second = host.wait_for(2)[1]
        daemon.log.wait_for("webhook.delivered")
        assert daemon.stop() == 0
    assert attempt["verdict"] == "failed"
    assert (second.headers["webhook-id"], second.body) == (first.headers["webhook-id"], first.body)
    assert json.loads(second.body)["data"]["id"] == attempt["id"]
    assert daemon.rows("SELECT id FROM webhook_messages") == []
    assert not any(SECRET.removeprefix("whsec_") in line for line in daemon.log.lines)
