"""Webhook messages of a daemon, sent to a real receiver."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from assayd_client import Conflict, PlainClient, Refused
from assayd_client.cli.app import app
from support.cluster.either import EITHER, serving_either
from support.daemons.server import Served
from support.daemons.small_daemon import How, submission
from support.hosts.webhook_receiver import SECRET, Received, WebhookReceiver, webhook_receiver

PAGE = Path(__file__).resolve().parents[3] / "docs/webhooks.md"
UNLISTED = "https://unlisted.example/"


@pytest.fixture
def host() -> Iterator[WebhookReceiver]:
    with webhook_receiver() as host:
        yield host


@pytest.fixture(params=EITHER)
def served(
    request: pytest.FixtureRequest, host: WebhookReceiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Served]:
    monkeypatch.setenv("TEST_WEBHOOK_SECRET", SECRET)
    with serving_either(request, tmp_path, How(settings={"webhooks": host.settings()})) as served:
        yield served


@pytest.fixture
def client(served: Served) -> Iterator[PlainClient]:
    with PlainClient(served.path) as client:
        yield client


def told(came: Received) -> dict[str, Any]:
    """Return a message's content after checking it with the page's own code."""
    [block] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    shown: dict[str, Any] = {}
    exec(compile(block, PAGE.name, "exec"), shown)
    now = float(came.headers["webhook-timestamp"])
    body: dict[str, Any] = shown["verified"](SECRET, came.headers, came.body, now)
    with pytest.raises(ValueError, match="signature"):
        shown["verified"](SECRET, came.headers, came.body + b" ", now)
    with pytest.raises(ValueError, match="old"):
        shown["verified"](SECRET, came.headers, came.body, now + 301)
    return body


def test_verdict_is_told_signed_and_without_what_was_submitted(
    client: PlainClient, host: WebhookReceiver
) -> None:
    url = f"{host.url}/hooks?team=7"
    attempt = client.submit(submission("bad SECRETIVE", webhook=url, labels={"n": "1"}), wait_s=30)
    [came] = host.wait_for(1)
    body = told(came)
    assert (came.path, attempt["webhook"]) == ("/hooks?team=7", url)
    assert body == {
        "type": "attempt.finished",
        "timestamp": attempt["finished_at"],
        "data": {
            "id": attempt["id"],
            "kind": "small",
            "state": "finished",
            "verdict": "failed",
            "cause": None,
            "batch_id": None,
            "parent_id": None,
            "labels": {"n": "1"},
            "uid": os.getuid(),
            "path": f"/v1/attempts/{attempt['id']}",
        },
    }
    assert b"SECRETIVE" not in came.body


def test_end_of_a_batch_is_told_once_with_its_counts(client: PlainClient, host: WebhookReceiver) -> None:
    lines = [json.dumps(submission(code)).encode() + b"\n" for code in ("one", "bad")]
    batch = client.send_batch(lines, name="told", webhook=f"{host.url}/b")
    assert batch["webhook"] == f"{host.url}/b"
    [came] = host.wait_for(1)
    body = told(came)
    assert (body["type"], body["data"]["name"], body["data"]["state"]) == (
        "batch.finished",
        "told",
        "finished",
    )
    counts: Mapping[str, int] = body["data"]["counts"]
    assert (counts["total"], counts["validated"], counts["failed"]) == (2, 1, 1)
    client.send_batch(lines, name="told")
    last = client.submit(submission("x", webhook=f"{host.url}/last"), wait_s=30)
    assert [one.path for one in host.wait_for(2)] == ["/b", "/last"]
    assert last["verdict"] == "validated"


def test_batch_that_is_cancelled_is_told_as_such(
    client: PlainClient, served: Served, host: WebhookReceiver
) -> None:
    served.call(served.daemon.checks.open.clear)
    client.send_batch([json.dumps(submission()).encode()], name="stopped", webhook=f"{host.url}/b")
    client.cancel_batch("stopped")
    [came] = host.wait_for(1)
    assert told(came)["data"]["state"] == "cancelled"
    served.call(served.daemon.checks.open.set)


def test_lines_name_receivers_of_their_own_and_are_each_told(
    client: PlainClient, host: WebhookReceiver
) -> None:
    named = [submission("same", webhook=f"{host.url}/{n}") for n in (1, 2)]
    lines = [json.dumps(one).encode() + b"\n" for one in (*named, submission("same", webhook=UNLISTED))]
    client.send_batch(lines, name="each", dedupe=True)
    assert sorted(one.path for one in host.wait_for(2)) == ["/1", "/2"]
    items = client.batch_items("each")["items"]
    assert items[2]["error"]["code"] == "webhook.not_allowed"


def test_url_that_is_not_listed_is_refused_and_nothing_is_accepted(client: PlainClient) -> None:
    for ask in (
        lambda: client.submit(submission(webhook=UNLISTED)),
        lambda: client.send_batch([b"{}"], name="b", webhook=UNLISTED),
    ):
        with pytest.raises(Refused, match="no receiver matches") as caught:
            ask()
        assert (caught.value.status, caught.value.code, caught.value.field) == (
            422,
            "webhook.not_allowed",
            "webhook",
        )
    assert client.attempts()["attempts"] == []
    assert client.batches()["batches"] == []


def test_replay_is_not_told(client: PlainClient, host: WebhookReceiver) -> None:
    first = client.submit(submission(webhook=f"{host.url}/first"), wait_s=30)
    again = client.replay(first["id"], wait_s=30)
    client.submit(submission(webhook=f"{host.url}/last"), wait_s=30)
    assert again["webhook"] is None
    assert [one.path for one in host.wait_for(2)] == ["/first", "/last"]


def test_same_id_with_another_receiver_is_another_submission(
    client: PlainClient, host: WebhookReceiver
) -> None:
    first = client.submit(submission(webhook=f"{host.url}/a"), wait_s=30)
    with pytest.raises(Conflict):
        client.submit(submission(webhook=f"{host.url}/b"), attempt_id=first["id"])
    assert client.submit(submission(webhook=f"{host.url}/a"), attempt_id=first["id"])["id"] == first["id"]


def test_batch_on_the_command_line_names_who_is_told(
    served: Served, host: WebhookReceiver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps(submission("one")))
    with pytest.raises(SystemExit, match="0"):
        app(["--socket", str(served.path), "batch", "run", str(lines), "--webhook", f"{host.url}/cli"])
    assert [one.path for one in host.wait_for(1)] == ["/cli"]
    assert "1 validated" in capsys.readouterr().out
