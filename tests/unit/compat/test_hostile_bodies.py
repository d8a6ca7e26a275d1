"""Bodies that no client of these interfaces sends: each interface refuses them in its own form."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from assayd_compat import bodies
from support.fakes.scripted_executor import ScriptedExecutor

JSON = {"content-type": "application/json"}
NESTED = b'{"code": ' + b"[" * 200_000
Told = Callable[[dict[str, Any]], object]
INTERFACES: list[tuple[str, Told]] = [
    ("/run_code", lambda answer: answer["detail"][0]["msg"]),
    ("/run_jupyter", lambda answer: answer["detail"][0]["msg"]),
    ("/api/v2/execute", lambda answer: answer["message"]),
    ("/submissions", lambda answer: next(iter(answer.values()))[0]),
    ("/submissions/batch", lambda answer: next(iter(answer.values()))[0]),
]
interfaces = pytest.mark.parametrize(("path", "told"), INTERFACES)


@interfaces
@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b'"x"', b"{", b"\xff\xfe", b'{"code": "\\ud800"}', b'{"a":NaN}', NESTED],
    ids=["empty", "null", "list", "string", "cut", "no-utf8", "surrogate", "nan", "nested"],
)
async def test_malformed_body_is_refused(
    http: httpx.AsyncClient, executor: ScriptedExecutor, path: str, told: Told, body: bytes
) -> None:
    answer = await http.post(path, content=body, headers=JSON)
    assert answer.status_code in {400, 413, 422}
    assert told(answer.json())
    assert executor.programs == []


@interfaces
async def test_oversized_body_is_refused(
    http: httpx.AsyncClient, executor: ScriptedExecutor, path: str, told: Told
) -> None:
    answer = await http.post(path, content=b" " * (bodies.BODY_BYTES + 1), headers=JSON)
    assert (answer.status_code, executor.programs) == (413, [])
    assert told(answer.json())


@interfaces
async def test_slow_body_is_refused(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, path: str, told: Told
) -> None:
    async def never_ending() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    monkeypatch.setattr(bodies, "BODY_S", 0.01)
    answer = await http.post(path, content=never_ending(), headers=JSON)
    assert answer.status_code == 408
    assert told(answer.json())


async def test_what_a_refused_body_held_is_free_again(http: httpx.AsyncClient) -> None:
    for _ in range(bodies.HELD_BYTES // bodies.BODY_BYTES + 2):
        answer = await http.post("/run_code", content=b" " * (bodies.BODY_BYTES + 1), headers=JSON)
        assert answer.status_code == 413
    asked = {"language": "python", "code": "print(1)"}
    assert (await http.post("/run_code", json=asked)).json()["status"] == "Success"
