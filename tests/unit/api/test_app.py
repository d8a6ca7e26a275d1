"""What the loopback port shows, and nothing else."""

from __future__ import annotations

import httpx
import pytest

from assayd.api.app import build_loopback_app


async def ask(path: str, method: str = "GET") -> httpx.Response:
    transport = httpx.ASGITransport(build_loopback_app(lambda: b"assayd_ready 1.0\n"))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return await client.request(method, path)


async def test_metrics_are_given_in_their_form() -> None:
    response = await ask("/metrics")
    assert (response.status_code, response.content) == (200, b"assayd_ready 1.0\n")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


async def test_life_is_shown() -> None:
    assert (await ask("/healthz")).text == "ok\n"


@pytest.mark.parametrize("path", ["/", "/v1/attempts", "/readyz", "/openapi.json", "/metrics/", "//metrics"])
async def test_nothing_else_is_there(path: str) -> None:
    assert (await ask(path)).status_code == 404


async def test_nothing_can_be_sent() -> None:
    response = await ask("/metrics", "POST")
    assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD")
