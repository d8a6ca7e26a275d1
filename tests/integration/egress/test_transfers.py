"""Large, slow, broken and endless transfers, and the leftovers of an attempt that is killed during one."""

from __future__ import annotations

import asyncio

import pytest

from assayd.model.run import RunEndReason
from support.daemons.daemon_fixtures import needs_root
from support.hosts.upstream import BIG, Upstream

from .conftest import Guests, value_of
from .test_clients import URLLIB

pytestmark = needs_root


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_ten_megabytes_go_down_and_up(guests: Guests, scheme: str) -> None:
    result = await guests.run(URLLIB + f"""
    def extract():
        down = fetch("{scheme}://api.example.com/big")
        return [len(down), fetch("{scheme}://api.example.com/sink", bytes({BIG}))]
    """)  # fmt: skip

    assert value_of(result) == [BIG, str(BIG)]
    down, up = result.units[0].network
    assert down.bytes_down > BIG
    assert up.bytes_up > BIG


async def test_host_that_resets_is_an_error_for_the_guest_and_no_violation(guests: Guests) -> None:
    result = await guests.run(URLLIB + """
    import http.client

    def extract():
        try:
            return len(fetch("http://api.example.com/reset"))
        except (OSError, http.client.HTTPException) as problem:
            return type(problem).__name__
    """)  # fmt: skip

    assert value_of(result) in {"IncompleteRead", "ConnectionResetError"}
    (event,) = result.units[0].network
    assert (event.allowed, event.trouble) == (True, "network.broken_off")


@pytest.mark.parametrize("path", ["/stall", "/endless"])
async def test_attempt_that_is_killed_in_mid_transfer_leaves_no_connection(
    guests: Guests, internet: Upstream, path: str
) -> None:
    source = f"""
    import urllib.request

    def extract():
        with urllib.request.urlopen("http://api.example.com{path}") as answer:
            print(answer.read(1))
            answer.read()
    """
    result = await guests.run(source, killed_at_output=True)

    assert result.end is RunEndReason.CANCELLED
    (event,) = result.units[0].network
    assert (event.host, event.bytes_down > 0) == ("api.example.com", True)
    await asyncio.to_thread(internet.wait_until_nobody_gets, path)


async def test_guest_that_opens_a_thousand_connections_costs_what_it_may_and_goes_on(guests: Guests) -> None:
    result = await guests.run(URLLIB + """
    import os, socket

    def extract():
        host, port = os.environ["HTTP_PROXY"].removeprefix("http://").split(":")
        first = fetch("http://api.example.com/first")
        for _ in range(1000):
            socket.create_connection((host, int(port)), timeout=20).close()
        return first
    """)  # fmt: skip

    assert value_of(result) == "/first"
    assert [event.rule for event in result.units[0].network] == [
        "network.listed",
        "network.too_many_connections",
    ]
