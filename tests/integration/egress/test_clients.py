"""HTTP clients behind the proxy: listed hosts are reachable, and others are refused with the rule."""

from __future__ import annotations

import pytest

from support.daemons.daemon_fixtures import needs_root

from .conftest import Guests, value_of

pytestmark = needs_root

URLLIB = """
    import ssl, urllib.error, urllib.request

    def fetch(url, body=None):
        context = ssl.create_default_context(cafile="ca.pem")
        try:
            with urllib.request.urlopen(url, data=body, timeout=20, context=context) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as problem:
            return f"{problem.code} {problem.reason} {problem.headers['X-Assayd-Rule']}"
        except urllib.error.URLError as problem:
            return str(problem.reason)
"""
TOUR = """
    def extract():
        return [
            fetch("https://api.example.com/secret"),
            fetch("http://api.example.com/plain"),
            fetch("https://other.example.com/six"),
            fetch("https://api.example.com/sink", b"x" * 100_000),
            fetch("http://evil.example/"),
            fetch("https://evil.example/"),
        ]
"""
REQUESTS = """
    import requests

    def fetch(url, body=None):
        try:
            answer = requests.request("POST" if body else "GET", url, data=body, timeout=20, verify="ca.pem")
        except requests.exceptions.ProxyError as problem:
            return str(problem)
        return answer.text if answer.ok else f"{answer.status_code} {answer.headers['X-Assayd-Rule']}"
"""
HTTPX = """
    import httpx

    def fetch(url, body=None):
        try:
            with httpx.Client(verify="ca.pem", timeout=20) as client:
                answer = client.request("POST" if body else "GET", url, content=body)
        except httpx.ProxyError as problem:
            return str(problem)
        return answer.text if answer.is_success else f"{answer.status_code} {answer.headers['X-Assayd-Rule']}"
"""
AIOHTTP = """
    import aiohttp, asyncio, ssl

    async def asked(url, body):
        context = ssl.create_default_context(cafile="ca.pem")
        async with aiohttp.ClientSession(trust_env=True) as session:
            try:
                method = "POST" if body else "GET"
                async with session.request(method, url, data=body, ssl=context) as answer:
                    text = await answer.text()
                    return text if answer.ok else f"{answer.status} {answer.headers['X-Assayd-Rule']}"
            except aiohttp.ClientHttpProxyError as problem:
                return f"{problem.status} {problem.message}"

    def fetch(url, body=None):
        return asyncio.run(asked(url, body))
"""
CLIENTS = {
    "urllib": ("python", URLLIB),
    "requests": ("adapter", REQUESTS),
    "httpx": ("adapter", HTTPX),
    "aiohttp": ("adapter", AIOHTTP),
}


@pytest.mark.parametrize("client", CLIENTS)
async def test_client_reaches_what_is_listed_and_is_told_why_not_the_rest(
    guests: Guests, client: str
) -> None:
    image, fetch = CLIENTS[client]
    result = await guests.run(fetch + TOUR, image=image)

    *reached, plain, secret = map(str, value_of(result))  # type: ignore[arg-type]
    assert reached == ["/secret", "/plain", "/six", "100000"]
    assert "403" in plain
    assert "network.not_listed" in plain
    assert "403 network.not_listed" in secret
    asked = [(event.host, event.via.value, event.allowed) for event in result.units[0].network]
    assert asked == [
        ("api.example.com", "tls", True),
        ("api.example.com", "http", True),
        ("other.example.com", "tls", True),
        ("api.example.com", "tls", True),
        ("evil.example", "http", False),
        ("evil.example", "tls", False),
    ]


async def test_redirect_is_the_guests_own_next_request_and_judged_as_one(guests: Guests) -> None:
    source = URLLIB + "\n    def extract():\n        return fetch('http://api.example.com/redirect')\n"
    result = await guests.run(source)

    assert "403 network.not_listed" in str(value_of(result))
    assert [event.host for event in result.units[0].network] == ["api.example.com", "evil.example"]
