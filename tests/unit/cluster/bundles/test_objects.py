"""Errors of object storage that answers every request with the same error."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from assayd.errors import StoreError
from assayd.model.attempt import Bundle
from assayd_cluster.bundles import open_bundles
from assayd_cluster.bundles.verified import VerifiedArtifactStore
from assayd_cluster.settings import BundleSettings

BUNDLE = Bundle(
    attempt_id="01" + "0" * 23 + "1",
    run_number=1,
    created_at=datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC),
    category="weather",
    platform="sea",
    files={"report.json": b'{"a": 1}', "copy.json": b'{"a": 1}'},
    truncated=frozenset(),
    manifest={"kind": "code"},
)
LOCATION = "weather/sea/20260301T120000.123456Z_" + BUNDLE.attempt_id + "-" + "0" * 32


@dataclass
class Answer:
    """The storage's answer to every request."""

    status: int
    code: str

    def text(self) -> bytes:
        return f'<?xml version="1.0"?>\n<Error><Code>{self.code}</Code><Key>private</Key></Error>'.encode()


@pytest.fixture(params=[(403, "AccessDenied"), (404, "NoSuchBucket")])
def answer(request: pytest.FixtureRequest) -> Answer:
    return Answer(*request.param)


@pytest.fixture
def bundles(answer: Answer, tmp_path: Path) -> Iterator[VerifiedArtifactStore]:
    class Refusing(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _refuse(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(answer.text())))
            self.end_headers()
            self.wfile.write(answer.text())

        do_GET = do_PUT = do_POST = do_DELETE = _refuse  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Log nothing."""

    key = tmp_path / "key"
    key.write_text("key\n")
    key.chmod(0o600)
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        settings = BundleSettings(kind="s3", endpoint=endpoint, access_key_file=key, secret_key_file=key)
        yield open_bundles(settings, tmp_path)
        server.shutdown()
        serving.join()


@pytest.mark.parametrize("verb", ["write", "read", "remove", "sweep"])
async def test_refusal_is_told_in_one_line_with_its_code(
    bundles: VerifiedArtifactStore, answer: Answer, verb: str
) -> None:
    work = {
        "write": lambda: bundles.write(BUNDLE),
        "read": lambda: bundles.read(LOCATION, "report.json"),
        "remove": lambda: bundles.remove(LOCATION),
        "sweep": bundles.sweep,
    }[verb]
    with pytest.raises(StoreError) as caught:
        await work()
    expected = {403: "store.unwritable", 404: "store.unreachable"}[answer.status]
    assert caught.value.code == expected
    assert f"({answer.code}); check that the " in caught.value.message
    assert "\n" not in caught.value.message
    assert "private" not in caught.value.message
