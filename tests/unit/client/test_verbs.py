import asyncio
import os
import pydoc
import socket
import threading
from pathlib import Path

import pytest

from assayd_client import (
    SYSTEM_SOCKET,
    AsyncClient,
    Client,
    ClientError,
    DaemonUnreachable,
    PlainClient,
    Refused,
    find_socket,
)
from assayd_client.answers import EventReader
from support.daemons.fake_service import FakeService
from support.daemons.server import serving, serving_small

GOOD = {"kind": "extractor", "payload": {"code": "x = 1"}}
ULID = "01JTC8ZK5V7777777777777777"


def test_the_named_socket_comes_before_the_environment() -> None:
    environ = {"ASSAY_SOCKET": "/from/env"}
    named = find_socket("/named", environ)
    assert (named.path, named.source) == (Path("/named"), "--socket")
    assert find_socket(None, environ).source == "ASSAY_SOCKET"
    assert find_socket(None, {"ASSAY_SOCKET": ""}).path == SYSTEM_SOCKET


def test_an_ordinary_user_has_a_socket_of_their_own(tmp_path) -> None:
    expected = tmp_path / "assayd" / "assayd.sock" if os.geteuid() else SYSTEM_SOCKET
    assert find_socket(None, {"XDG_RUNTIME_DIR": str(tmp_path)}).path == expected


def test_blocking_verbs_reach_the_daemon(tmp_path) -> None:
    with serving(FakeService(), tmp_path / "s") as path, Client(path) as client:
        attempt = client.submit(GOOD, wait_s=5)
        assert attempt.verdict == "validated"
        assert client.submit(GOOD, attempt_id=ULID).id == ULID
        assert client.submit(GOOD, idempotency_key="k").id == client.submit(GOOD, idempotency_key="k").id
        assert client.attempt(attempt.id, wait_s=1).id == attempt.id
        assert [a.id for a in client.attempts(limit=1, kind=None).attempts] != []
        assert client.artifact(attempt.id, "files/0.bin") == b"\x00\x01"
        assert client.bundle(attempt.id).startswith(b"no client")
        assert [event.kind for event in client.events(attempt.id)] == ["state", "finished"]
        assert [event.id for event in client.events(attempt.id, after="1.1")] == ["1.2"]
        assert client.kind("extractor") == client.kinds().kinds[0]
        assert client.policy("extractor") == client.policies().policies[0]
        assert client.doctor().checks[0].check == "engine"
        assert client.metrics().startswith(b"assayd_")


async def test_asynchronous_verbs_reach_the_daemon(tmp_path) -> None:
    with serving(FakeService(), tmp_path / "s") as path:
        async with AsyncClient(path) as client:
            many = await asyncio.gather(*(client.submit(GOOD, wait_s=5) for _ in range(5)))
            assert {attempt.verdict for attempt in many} == {"validated"}
            assert await client.artifact(many[0].id, "stdout.log") == b"no client\n"
            assert [event.kind async for event in client.events(many[0].id)] == ["state", "finished"]
            with pytest.raises(ClientError) as caught:
                await client.attempt("nothing")
    assert (caught.value.status, caught.value.code) == (404, "not_found")


def test_a_refusal_carries_code_field_and_status(tmp_path) -> None:
    with serving(FakeService(), tmp_path / "s") as path, Client(path) as client:
        with pytest.raises(ClientError) as caught:
            client.submit({**GOOD, "labels": {"a": "B C"}})
        with pytest.raises(ClientError, match="doesn't exist"):
            list(client.events("nothing"))
    assert (caught.value.status, caught.value.code, caught.value.field) == (422, "invalid", "labels.a")


async def test_without_a_daemon_both_say_so(tmp_path) -> None:
    with (
        Client(tmp_path / "none") as client,
        pytest.raises(DaemonUnreachable, match="the socket doesn't exist"),
    ):
        client.kinds()
    async with AsyncClient(tmp_path / "none") as asynchronous:
        with pytest.raises(DaemonUnreachable, match="the socket doesn't exist"):
            await asynchronous.kinds()
        with pytest.raises(DaemonUnreachable):
            [event async for event in asynchronous.events("x")]


def test_events_are_read_whatever_the_chunks() -> None:
    data = '{"id":"1.1","kind":"stdout","at":"t","body":{"text":"a\u2028b"}}'.encode()
    stream = b": hello\n\nid: 1.1\nevent: stdout\ndata: " + data + b"\n\n: still here\n\nid: 1.2\nevent: half"
    for size in (1, 7, len(stream)):
        reader = EventReader()
        events = [e for n in range(0, len(stream), size) for e in reader.feed(stream[n : n + size])]
        assert [(e.id, e.body["text"]) for e in events] == [("1.1", "a\u2028b")]


@pytest.mark.parametrize(
    ("client", "document", "events", "content"),
    [
        (Client, "AttemptDocument", "Iterator[StreamEvent]", "bytes"),
        (PlainClient, "Document", "Iterator[StreamEvent]", "bytes"),
        (AsyncClient, "Awaitable[AttemptDocument]", "AsyncIterator[StreamEvent]", "Awaitable[bytes]"),
    ],
)
def test_help_shows_signature_and_docstring_of_each_method(
    client: type, document: str, events: str, content: str
) -> None:
    shown = pydoc.render_doc(client, renderer=pydoc.plaintext)

    assert f"attempt(self, attempt_id: 'str', *, wait_s: 'float' = 0) -> '{document}'" in shown
    assert f"events(self, attempt_id: 'str', *, after: 'str | None' = None) -> '{events}'" in shown
    assert f"artifact(self, attempt_id: 'str', name: 'str') -> '{content}'" in shown
    assert "Return one attempt, after waiting up to `wait_s` (at most 600) for its verdict." in shown
    assert "**" not in shown.replace("**filters: 'str | int | None'", "")


async def test_bodies_in_pieces_are_sent_by_both_clients(tmp_path) -> None:
    lines = [b'{"kind": "extractor", ', b'"payload": {"code": "x"}}\n']

    async def pieces():
        for line in lines:
            yield line

    with serving_small(tmp_path) as served:
        with Client(served.path) as client:
            assert client.send_batch(lines, name="a").received.lines == 1
        async with AsyncClient(served.path) as asynchronous:
            assert (await asynchronous.send_batch(pieces(), name="b")).received.lines == 1
            assert (await asynchronous.send_batch(lines, name="c")).received.lines == 1
            assert [row.line async for row in asynchronous.batch_results("a")] == [1]


@pytest.mark.slow
async def test_large_request_that_is_refused_early_is_told_by_both_clients(tmp_path) -> None:
    large = {"kind": "extractor", "payload": {"code": "x" * 40_000_000}}
    with serving(FakeService(), tmp_path / "s") as path:
        with Client(path) as client, pytest.raises(Refused) as refused:
            client.submit(large)
        async with AsyncClient(path) as asynchronous:
            with pytest.raises(Refused) as also:
                await asynchronous.submit(large)
    assert (refused.value.status, also.value.status) == (413, 413)


async def test_answer_that_breaks_off_is_told_by_both_clients(tmp_path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def answer_half() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")

        thread = threading.Thread(target=answer_half)
        thread.start()
        with (
            Client(tmp_path / "s") as client,
            pytest.raises(DaemonUnreachable, match="closed the connection"),
        ):
            client.kinds()
        async with AsyncClient(tmp_path / "s") as asynchronous:
            with pytest.raises(DaemonUnreachable, match="closed the connection"):
                await asynchronous.kinds()
        thread.join()
