import json
import subprocess
import sys
from pathlib import Path

import pytest

from assayd.errors import RequestError
from assayd_client import (
    Client,
    ClientError,
    Conflict,
    DaemonUnreachable,
    NotFound,
    NotReady,
    QueueFull,
    Refused,
)
from assayd_client.answers import raise_response_error
from support.daemons.fake_service import FakeService
from support.daemons.server import serving

GOOD = {"kind": "extractor", "payload": {"code": "x = 1"}}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("not_found", NotFound),
        ("conflict", Conflict),
        ("peer.not_allowed", Refused),
        ("too_large", Refused),
        ("override.wider", Refused),
        ("queue.full", QueueFull),
        ("not_ready", NotReady),
    ],
)
def test_each_situation_has_its_class(tmp_path: Path, code: str, expected: type[ClientError]) -> None:
    service = FakeService()
    service.refusal = RequestError(code, "no", retryable=True)
    with (
        serving(service, tmp_path / "s") as path,
        Client(path) as client,
        pytest.raises(ClientError) as caught,
    ):
        client.submit(GOOD)
    assert (type(caught.value), caught.value.code) == (expected, code)


def test_full_queue_says_when_to_come_back() -> None:
    error = {"error": {"code": "queue.full", "message": "full", "field": None, "retryable": True}}
    with pytest.raises(QueueFull) as caught:
        raise_response_error(429, {"retry-after": "7"}, json.dumps(error).encode())
    assert (caught.value.retry_after_s, caught.value.retryable, caught.value.status) == (7.0, True, 429)


@pytest.mark.parametrize("header", ["", "soon", "-1", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_time_to_come_back_that_is_no_number_is_a_second(header: str) -> None:
    with pytest.raises(NotReady) as caught:
        raise_response_error(503, {"retry-after": header} if header else {}, b"<html>")
    assert (caught.value.retry_after_s, caught.value.code) == (1.0, "http")


def test_failure_of_the_daemon_is_none_of_these() -> None:
    with pytest.raises(ClientError) as caught:
        raise_response_error(500, {}, b"broken")
    assert type(caught.value) is ClientError


def test_lost_daemon_is_a_client_error_too(tmp_path: Path) -> None:
    with Client(tmp_path / "none") as client, pytest.raises(ClientError) as caught:
        client.kinds()
    assert (type(caught.value), caught.value.status) == (DaemonUnreachable, 0)


def test_plain_answers_need_no_pydantic(tmp_path: Path) -> None:
    program = (
        "import sys; from assayd_client import PlainClient\n"
        f"with PlainClient({str(tmp_path / 's')!r}) as client: print(client.kinds()['kinds'][0]['kind'])\n"
        "print([name for name in ('pydantic', 'assayd.documents') if name in sys.modules])"
    )
    with serving(FakeService(), tmp_path / "s"):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
        )
    assert done.stdout.splitlines() == ["extractor", "[]"]
