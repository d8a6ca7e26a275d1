"""Malformed, oversized and absurd requests: each gets one clear answer, and the daemon continues."""

import json
import socket
from contextlib import closing
from http import client as http_client

import httpx
import pytest

from assayd_client import Document, PlainClient
from support.daemons.daemon_process import DaemonProcess
from support.texts.extractors import GOOD, PATH, extractor

pytestmark = pytest.mark.engine

DEEP = 10_000
GOOD_BODY = extractor(GOOD)


def with_payload(**changes: object) -> Document:
    payload = {"code": GOOD, "sample_paths": [PATH], **changes}
    return {"kind": "extractor", "payload": payload}


@pytest.fixture(autouse=True)
def unharmed(daemon: DaemonProcess, client: PlainClient) -> None:
    """Check after each test that the daemon still validates."""
    assert daemon.alive
    assert client.submit(GOOD_BODY, wait_s=60)["verdict"] == "validated"


@pytest.mark.parametrize(
    ("changes", "status", "code", "field"),
    [
        (with_payload(code="#" * 5 * 2**20), 413, "too_large", "payload.code"),
        (with_payload(sample_paths=[]), 422, "invalid", "payload.sample_paths"),
        (with_payload(sample_paths=[PATH] * 10_000), 413, "too_large", "payload.sample_paths"),
        (with_payload(sample_paths=[1]), 422, "invalid", "payload.sample_paths.0"),
        (with_payload(colour="red"), 422, "invalid", "payload.colour"),
        ({"kind": "spreadsheet"}, 422, "kind.unknown", "kind"),
        ({"kind": 7}, 422, "invalid", "kind"),
        ({"payload": None}, 422, "invalid", "payload"),
        ({"policy": "anything_goes"}, 422, "policy.unknown", "policy"),
        (
            {"overrides": {"resources": {"unit_timeout_s": 50}}},
            422,
            "override.wider",
            "overrides.resources.unit_timeout_s",
        ),
        ({"overrides": {"resources": {"cpus": 64}}}, 422, "invalid", "overrides.resources.cpus"),
        ({"labels": {"category": "../../etc"}}, 422, "invalid", "labels.category"),
        ({"parent_id": "01" + "Z" * 24}, 422, "invalid", "parent_id"),
        ({"image": "ubuntu"}, 422, "invalid", "image"),
    ],
    ids=lambda value: str(value)[:48],
)
def test_submission_is_refused_with_the_name_of_its_field(
    http: httpx.Client, changes: Document, status: int, code: str, field: str
) -> None:
    response = http.post("/v1/attempts", json={**GOOD_BODY, **changes})

    error = response.json()["error"]
    assert (response.status_code, error["code"], error["field"]) == (status, code, field)
    assert error["retryable"] is False


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"not json",
        b'{"kind": "extractor", "kind": "extractor"}',
        json.dumps(GOOD_BODY).encode().replace(b"CLIENT", b"\xff\xfe"),
        b'{"kind": "extractor", "payload": {"code": "\\ud800", "sample_paths": ["a"]}}',
        b'{"kind": "extractor", "payload": {"code": "x", "sample_paths": [NaN]}}',
        b"[" * DEEP + b"]" * DEEP,
        b'{"kind": ' * DEEP,
    ],
    ids=["empty", "array", "text", "twice", "utf8", "surrogate", "nan", "deep", "open"],
)
def test_body_that_is_not_strict_json_is_malformed(http: httpx.Client, body: bytes) -> None:
    response = http.post("/v1/attempts", content=body)

    assert (response.status_code, response.json()["error"]["code"]) == (400, "malformed")


def test_body_beyond_its_cap_is_refused_before_it_is_sent(daemon: DaemonProcess) -> None:
    connection = http_client.HTTPConnection("assayd")
    with closing(connection), socket.socket(socket.AF_UNIX) as connection.sock:
        connection.sock.connect(str(daemon.socket))
        connection.putrequest("POST", "/v1/attempts")
        connection.putheader("Content-Length", str(2**40))
        connection.endheaders()

        response = connection.getresponse()

        assert (response.status, json.load(response)["error"]["code"]) == (413, "too_large")


@pytest.mark.parametrize(
    ("code", "rules"),
    [
        ("x = " + "(" * DEEP + ")" * DEEP, {"syntax.invalid", "syntax.too_deep", "source.unanalysable"}),
        ("x = " + "-" * DEEP + "1", {"syntax.invalid", "syntax.too_deep", "source.unanalysable"}),
        (GOOD + "\0", {"source.nul_byte"}),
    ],
    ids=["brackets", "minus", "nul"],
)
def test_source_that_cannot_be_parsed_is_a_finding(client: PlainClient, code: str, rules: set[str]) -> None:
    attempt = client.submit(extractor(code), wait_s=60)

    assert (attempt["verdict"], attempt["report"]["stage_reached"]) == ("failed", "syntax")
    assert rules & {finding["rule"] for finding in attempt["report"]["findings"]}
    assert attempt["execution"] is None


@pytest.mark.parametrize(
    ("query", "field"),
    [("wait_s=601", "wait_s"), ("wait_s=nan", "wait_s"), ("wait=1", "wait"), ("wait_s=1&wait_s=2", "wait_s")],
)
def test_query_that_is_not_understood_is_refused(http: httpx.Client, query: str, field: str) -> None:
    response = http.post(f"/v1/attempts?{query}", json=GOOD_BODY)

    error = response.json()["error"]
    assert (response.status_code, error["code"], error["field"]) == (422, "invalid", field)


@pytest.mark.parametrize("name", ["../../../assayd.db", "..%2f..%2fdaemon-id", "manifest.json%00", "%ff"])
def test_artifact_outside_of_the_bundle_is_not_found(
    http: httpx.Client, client: PlainClient, name: str
) -> None:
    attempt = client.submit(GOOD_BODY, wait_s=60)

    response = http.get(httpx.URL(f"http://assayd/v1/attempts/{attempt['id']}/artifacts/{name}"))

    assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")
