"""Messages over real connections: receivers that fail, hang, redirect, never end, or are private."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path

import pytest

from assayd.clock import SystemClock
from assayd.egress.resolver import Resolver
from assayd.metrics import Metrics
from assayd.model.hosts import parse_webhook_url
from assayd.store.access import open_access
from assayd.store.outbox import Outbox, build_attempt_message_row
from assayd.webhooks import (
    NotDeliveredError,
    OutgoingMessage,
    Receiver,
    WebhookClient,
    WebhookLimits,
    WebhookSender,
    read_secret,
)
from support.hosts.webhook_receiver import SECRET, TLS, WebhookReceiver, webhook_receiver
from support.stores.empty_database import lay_database
from support.stores.stored_attempts import Make

LOOPBACK = (ip_network("127.0.0.0/8"),)


@pytest.fixture
def host() -> Iterator[WebhookReceiver]:
    with webhook_receiver() as host:
        yield host


def post(url: str, *, private: bool = True) -> OutgoingMessage:
    read = parse_webhook_url(url)
    receiver = Receiver(name="test", url=read, key=read_secret(SECRET), private=LOOPBACK if private else ())
    return OutgoingMessage(receiver=receiver, url=read, uid=1000, headers={"webhook-id": "m"}, body=b"{}")


async def failure(sent: OutgoingMessage, *, timeout_s: float = 20.0, resolver: Resolver | None = None) -> str:
    with pytest.raises(NotDeliveredError) as caught:
        await WebhookClient(resolver or Resolver(), timeout_s).deliver(sent)
    return caught.value.reason


async def test_message_arrives_with_its_headers(host: WebhookReceiver) -> None:
    await WebhookClient(Resolver(), 20.0).deliver(post(f"{host.url}/a?b=c"))
    [came] = host.received
    assert (came.path, came.body, came.headers["webhook-id"]) == ("/a?b=c", b"{}", "m")
    assert came.headers["host"] == f"127.0.0.1:{host.port}"
    assert came.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/drop", "no answer"),
        ("/endless", "answer too long"),
        ("/hints", "answer too long"),
        ("/redirect", "status 302"),
    ],
)
async def test_answer_that_is_none_is_a_failed_try(host: WebhookReceiver, path: str, reason: str) -> None:
    assert await failure(post(f"{host.url}{path}")) == reason
    assert [came.path for came in host.received] == [path]


async def test_receiver_that_never_answers_is_left_when_the_time_is_over(host: WebhookReceiver) -> None:
    assert await failure(post(f"{host.url}/hang"), timeout_s=0.3) == "timeout"
    host.wait_for(1)


async def test_private_address_that_is_not_listed_is_not_connected_to(host: WebhookReceiver) -> None:
    assert await failure(post(f"{host.url}/a", private=False)) == "address not public"
    assert host.received == []


async def test_name_that_leads_to_a_private_address_is_not_connected_to(host: WebhookReceiver) -> None:
    resolver = Resolver(lambda *_: ("127.0.0.1",))
    sent = post(f"https://rebound.example:{host.port}/a", private=False)
    assert await failure(sent, resolver=resolver) == "address not public"
    assert host.received == []


async def test_address_that_was_judged_is_the_one_that_is_connected_to(host: WebhookReceiver) -> None:
    answers = [("127.0.0.1", "169.254.169.254"), ("169.254.169.254",)]
    asked: list[str] = []

    def look_up(name: str, port: int) -> tuple[str, ...]:
        asked.append(name)
        return answers.pop(0)

    await WebhookClient(Resolver(look_up), 20.0).deliver(post(f"http://rebound.example:{host.port}/a"))
    assert (asked, len(host.received)) == (["rebound.example"], 1)


async def test_name_that_leads_nowhere_is_a_failed_try() -> None:
    assert (
        await failure(post("https://none.example/"), resolver=Resolver(lambda *_: ())) == "name not resolved"
    )


async def test_address_that_does_not_answer_leaves_time_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: a name's first address used up all the time."""
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "ca.pem"))
    with webhook_receiver(tls=True) as host, socket.create_server(("127.0.0.2", host.port)):
        resolver = Resolver(lambda *_: ("127.0.0.2", "127.0.0.1"))
        await WebhookClient(resolver, 4.0).deliver(post(f"https://api.example.com:{host.port}/a"))
        assert [came.path for came in host.received] == ["/a"]


async def test_certificate_is_checked_against_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "ca.pem"))
    resolver = Resolver(lambda *_: ("127.0.0.1",))
    with webhook_receiver(tls=True) as host:
        await WebhookClient(resolver, 20.0).deliver(post(f"https://api.example.com:{host.port}/a"))
        assert await failure(post(f"https://evil.example.com:{host.port}/a"), resolver=resolver) == "tls"
        assert [came.path for came in host.received] == ["/a"]


async def test_receiver_that_errs_twice_gets_the_same_message_a_third_time(
    host: WebhookReceiver, tmp_path: Path
) -> None:
    lay_database(tmp_path)
    metrics, clock = Metrics(), SystemClock()
    listed = post(f"{host.url}/").receiver
    async with open_access(tmp_path) as access:
        store = Outbox(access)
        sender = WebhookSender(
            [listed],
            store=store,
            courier=WebhookClient(Resolver(), 20.0),
            clock=clock,
            metrics=metrics,
            added=access.messages_added,
            limits=WebhookLimits(first_pause_s=0.01),
        )
        finished = Make().finished(webhook=f"{host.url}/twice", finished_at=clock.now())
        row = build_attempt_message_row(finished)
        await access.write(lambda connection: store.add(connection, row))  # type: ignore[attr-defined]
        async with sender.running():
            came = await asyncio.to_thread(host.wait_for, 3)
            async with asyncio.timeout(20):
                while await store.waiting(1000):
                    await asyncio.sleep(0)
    assert len({(one.headers["webhook-id"], one.body) for one in came}) == 1
    assert all(one.headers["webhook-signature"].startswith("v1,") for one in came)
