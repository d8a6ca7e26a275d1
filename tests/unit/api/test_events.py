import asyncio
import socket
from itertools import count
from types import SimpleNamespace

import httpx
import pytest

from assayd.api.events import EventStream
from assayd.api.peer import unread_bytes
from support.daemons.fake_service import FakeService
from support.daemons.server import serving

GOOD = {"kind": "extractor", "payload": {"code": "x = 1"}}


def fields(text: str, name: str) -> list[str]:
    return [line.partition(": ")[2] for line in text.splitlines() if line.startswith(f"{name}: ")]


async def test_a_stream_has_ids_kinds_and_json_up_to_finished(connect, service) -> None:
    service.scripted = [("state", {}), ("stdout", {"text": "two\nlines\u2028"}), ("finished", {})]
    attempt = (await connect().post("/v1/attempts", json=GOOD)).json()["id"]
    response = await connect().get(f"/v1/attempts/{attempt}/events")
    assert response.headers["Content-Type"].startswith("text/event-stream")
    assert fields(response.text, "id") == ["1.1", "1.2", "1.3"]
    assert fields(response.text, "event") == ["state", "stdout", "finished"]
    assert '"text":"two\\nlines' in fields(response.text.replace("\u2028", " "), "data")[1]


async def test_a_stream_resumes_after_the_last_id(connect) -> None:
    attempt = (await connect().post("/v1/attempts", json=GOOD)).json()["id"]
    response = await connect().get(f"/v1/attempts/{attempt}/events", headers={"Last-Event-ID": "1.1"})
    assert fields(response.text, "event") == ["finished"]


async def test_a_foreign_last_id_is_refused(connect) -> None:
    attempt = (await connect().post("/v1/attempts", json=GOOD)).json()["id"]
    response = await connect().get(f"/v1/attempts/{attempt}/events", headers={"Last-Event-ID": "x"})
    assert (response.status_code, response.json()["error"]["field"]) == (422, "Last-Event-ID")


@pytest.mark.parametrize("seen_first", [b": still here", b"event: state"])
async def test_a_client_that_goes_away_ends_the_subscription(tmp_path, seen_first) -> None:
    service = FakeService()
    service.scripted, service.silent = [("state", {})], True
    with serving(service, tmp_path / "s") as path:
        transport = httpx.AsyncHTTPTransport(uds=str(path), verify=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://assayd") as client:
            attempt = (await client.post("/v1/attempts", json=GOOD)).json()["id"]
            async with client.stream("GET", f"/v1/attempts/{attempt}/events") as response:
                async for chunk in response.aiter_raw():
                    if seen_first in chunk:
                        break
        async with asyncio.timeout(5):
            while not service.closed_streams:
                await asyncio.sleep(0.001)
    assert service.closed_streams == 1


async def silence():
    await asyncio.Event().wait()
    yield


@pytest.mark.parametrize(("unread", "ends"), [(1, True), (0, False)], ids=["unread", "read"])
async def test_a_silent_stream_ends_only_if_its_client_reads_nothing(unread, ends) -> None:
    sent = []

    async def send(message) -> None:
        sent.append(message)

    async def receive():
        while len(sent) < 1000:
            await asyncio.sleep(0)
        return {"type": "http.disconnect"}

    stream = EventStream(silence(), heartbeat_s=0, clock=count().__next__)
    await stream({"type": "http", "state": {"unread_bytes": lambda: unread}}, receive, send)

    assert sent[-1]["more_body"] is False
    assert (len(sent) < 1000) is ends


def test_unread_bytes_are_those_that_the_peer_has_not_taken() -> None:
    near, far = socket.socketpair()
    with near, far:
        transport = SimpleNamespace(get_extra_info=lambda _: near, is_closing=lambda: False)
        near.sendall(b"event")
        assert unread_bytes(transport) > 0
        far.recv(5)
        assert unread_bytes(transport) == 0
