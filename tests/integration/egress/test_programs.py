"""Programs that a unit executes find the proxy in their environment, and have no other connection."""

from __future__ import annotations

import pytest

from assayd.model.run import Cause, RunResult
from support.daemons.daemon_fixtures import needs_root
from support.hosts.upstream import BIG

from .conftest import Guests

pytestmark = needs_root

CURL = ("curl", "--silent", "--show-error", "--max-time", "20", "--cacert", "ca.pem")


def said(result: RunResult) -> tuple[int, str, str]:
    """Return exit status, standard output and standard error of the only unit."""
    (unit,) = result.units
    return unit.wait_status >> 8, unit.stdout.text(), unit.stderr.text()


@pytest.mark.parametrize(("scheme", "via"), [("http", "http"), ("https", "tls")])
async def test_curl_fetches_from_a_listed_host(guests: Guests, scheme: str, via: str) -> None:
    url = f"{scheme}://api.example.com"
    result = await guests.execute(*CURL, f"{url}/some/path", f"{url}/big", "-o", "-", "-o", "/dev/null")

    assert (result.outcome.cause, said(result)) == (Cause.COMPLETED, (0, "/some/path", ""))
    asked = result.units[0].network
    assert {(event.host, event.via.value, event.allowed) for event in asked} == {
        ("api.example.com", via, True)
    }
    assert sum(event.bytes_down for event in asked) > BIG


async def test_curl_is_told_the_rule_that_refuses_a_host(guests: Guests) -> None:
    plain = await guests.execute(*CURL, "--fail-with-body", "http://evil.example/")
    secret = await guests.execute(*CURL, "https://evil.example/")

    status, body, _ = said(plain)
    assert (status, body.splitlines()[0]) == (22, "network.not_listed: the host isn't on the allowlist")
    status, _, complaint = said(secret)
    assert (status, "response 403" in complaint) == (56, True)
    asked = [event for result in (plain, secret) for event in result.units[0].network]
    assert [(event.host, event.rule) for event in asked] == [("evil.example", "network.not_listed")] * 2


@pytest.mark.parametrize(
    "how",
    [
        ("--noproxy", "*", "http://203.0.113.10/"),
        ("--noproxy", "*", "http://api.example.com/"),
        ("--proxy", "", "https://203.0.113.10/"),
        ("--resolve", "api.example.com:80:203.0.113.10", "--noproxy", "*", "http://api.example.com/"),
        ("--proxy", "socks5h://127.0.0.1:3128", "http://api.example.com/"),
        ("http://203.0.113.10/",),
        ("--http2-prior-knowledge", "--noproxy", "*", "http://203.0.113.10/"),
        ("--fail", "--connect-to", "::evil.example:", "https://api.example.com/"),
    ],
)
async def test_curl_finds_no_way_around_the_proxy(guests: Guests, how: tuple[str, ...]) -> None:
    result = await guests.execute(*CURL, "--fail", *how)

    status, output, _ = said(result)
    assert (status != 0, output) == (True, "")
    assert not any(event.allowed for event in result.units[0].network)
