"""Attempts of guest code to bypass the allowlist, in a container with a proxy and real packets."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from support.daemons.daemon_fixtures import needs_root
from support.hosts.upstream import Upstream

from .conftest import LISTED, Guests, value_of

pytestmark = needs_root

ASK = """
    import os, socket, ssl

    def proxy():
        host, port = os.environ["HTTP_PROXY"].removeprefix("http://").split(":")
        return socket.create_connection((host, int(port)), timeout=20)

    def said(stream):
        try:
            return b"".join(iter(lambda: stream.recv(65536), b"")).decode("latin-1")
        except OSError as problem:
            return type(problem).__name__

    def ask(text):
        with proxy() as stream:
            stream.sendall(text.encode("latin-1"))
            stream.shutdown(socket.SHUT_WR)
            return said(stream).partition("\\r\\n")[0]

    def tunnel(host, name):
        stream = proxy()
        stream.sendall(f"CONNECT {host}:443 HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n".encode())
        assert stream.recv(65536).startswith(b"HTTP/1.1 200"), host
        context = ssl.create_default_context(cafile="ca.pem")
        context.check_hostname = False
        try:
            context.wrap_socket(stream, server_hostname=name)
            return "let through"
        except ssl.SSLError as problem:
            return problem.reason
"""


async def test_no_notation_of_an_address_and_no_other_port_is_let_through(
    guests: Guests, internet: Upstream
) -> None:
    result = await guests.run(ASK + """
    def extract():
        places = ["203.0.113.10:443", "203.0.28938:443", "3405803786:443", "0xcb00710a:443", "[::1]:80",
                  "0313.0.0161.012:443", "127.0.0.1:80", "169.254.169.254:80", "[2001:db8::10]:443",
                  "api.example.com:22", "private.example.com:443"]
        return [ask(f"CONNECT {place} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n").split()[-1] for place in places]
    """)  # fmt: skip

    literal = ["network.address_literal"] * 9
    assert value_of(result) == [*literal, "network.port_not_listed", "network.address_not_public"]
    assert {event.address for event in result.units[0].network} == {None}


async def test_tls_to_another_name_than_was_asked_for_ends_in_an_alert(guests: Guests) -> None:
    result = await guests.run(ASK + """
    def extract():
        return [tunnel("api.example.com", name) for name in ("api.example.com", "other.example.com", None)]
    """)  # fmt: skip

    denied = "TLSV1_ALERT_ACCESS_DENIED"
    assert value_of(result) == ["let through", denied, denied]
    rules = [event.rule for event in result.units[0].network]
    assert rules == ["network.listed", "network.sni_mismatch", "network.sni_missing"]


async def test_there_is_no_way_but_the_proxy(guests: Guests) -> None:
    result = await guests.run("""
    import socket, urllib.request

    def tried(act):
        try:
            act()
        except OSError as problem:
            return type(problem).__name__ if problem.errno is None else problem.errno
        return "got through"

    def straight():
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return opener.open("http://203.0.113.10/", timeout=5)

    def extract():
        return [tried(act) for act in (
            straight,
            lambda: socket.create_connection(("203.0.113.10", 80), timeout=5),
            lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
            lambda: socket.socket(socket.AF_INET6, socket.SOCK_STREAM),
            lambda: socket.getaddrinfo("api.example.com", 80),
        )]
    """)  # fmt: skip

    seen = value_of(result)
    assert isinstance(seen, list)
    assert "got through" not in seen
    assert seen[1:4] == [101, 1, 1]  # no route, not permitted, not permitted
    rules = {event.rule for event in result.units[0].events if event.kind == "network"}
    assert rules == {"network.not_proxied"}
    assert result.units[0].network == ()


async def test_empty_list_denies_all(guests: Guests) -> None:
    source = (
        ASK
        + """
    def extract():
        return ask("GET http://api.example.com/ HTTP/1.1\\r\\nHost: api.example.com\\r\\n\\r\\n")
    """
    )
    result = await guests.run(source, network=replace(LISTED, hosts=frozenset()))

    assert value_of(result) == "HTTP/1.1 403 network.not_listed"


async def test_two_attempts_at_once_have_lists_of_their_own(guests: Guests) -> None:
    source = ASK + """
    def extract():
        return [ask(f"GET http://{host}/ HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n").split()[1]
                for host in ("api.example.com", "other.example.com")]
    """  # fmt: skip
    lists = [frozenset({"api.example.com"}), frozenset({"other.example.com"})]
    first, second = await asyncio.gather(
        *(guests.run(source, network=replace(LISTED, hosts=hosts)) for hosts in lists)
    )

    assert (value_of(first), value_of(second)) == (["200", "403"], ["403", "200"])
