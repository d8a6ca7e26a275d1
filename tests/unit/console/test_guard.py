"""Who is answered, and the headers of answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from assayd_client import AsyncClient
from assayd_console.daemon import ConsoleDaemon
from assayd_console.guard import COOKIE, SESSION_LIFETIME_S, SessionStore
from assayd_console.serving import build_console
from support.daemons.fake_service import FakeService
from support.daemons.server import serving

HOST = "127.0.0.1:8737"
ORIGIN = {"Origin": f"http://{HOST}"}
HTML = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def socket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with serving(FakeService(), tmp_path_factory.mktemp("server") / "s") as path:
        yield path


@pytest.fixture
def sessions() -> SessionStore:
    return SessionStore()


@pytest.fixture
async def visitor(socket: Path, sessions: SessionStore) -> AsyncIterator[httpx.AsyncClient]:
    async with AsyncClient(socket) as daemon:
        app = build_console(ConsoleDaemon(daemon), sessions, frozenset({HOST}))
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url=f"http://{HOST}", headers=HTML
        ) as client:
            yield client


async def log_in(visitor: httpx.AsyncClient, sessions: SessionStore) -> httpx.Response:
    return await visitor.post("/login", content=sessions.offer(), headers=ORIGIN)


async def test_token_becomes_a_session_that_scripts_and_other_sites_do_not_get(visitor, sessions) -> None:
    answer = await log_in(visitor, sessions)

    assert answer.status_code == 204
    said = answer.headers["set-cookie"].lower()
    assert all(word in said for word in ("httponly", "samesite=strict", "path=/"))
    assert (await visitor.get("/attempts")).status_code == 200


async def test_without_a_session_there_is_the_login_and_nothing_else(visitor) -> None:
    page = await visitor.get("/attempts")
    piece = await visitor.get("/attempts/live", headers={"Accept": "text/event-stream"})

    assert (page.status_code, "login.js" in page.text) == (401, True)
    assert piece.status_code == 401
    assert (await visitor.post("/submit", headers=ORIGIN, content=b"kind=x")).status_code == 401


async def test_token_is_of_no_use_twice_nor_is_a_wrong_one(visitor, sessions) -> None:
    token = sessions.offer()
    answers = [
        (await visitor.post("/login", content=text, headers=ORIGIN)).status_code
        for text in ("x" * 43, token, token, "", "\u202e")
    ]
    assert answers == [403, 204, 403, 403, 403]


@pytest.mark.parametrize("host", ["rebound.example:8737", "127.0.0.1:1", "127.0.0.1", ""])
async def test_request_for_another_host_is_refused_even_with_a_session(visitor, sessions, host) -> None:
    await log_in(visitor, sessions)

    assert (await visitor.get("/attempts", headers={"Host": host})).status_code == 421


@pytest.mark.parametrize(
    "origin", [None, "null", "http://127.0.0.1:9", "https://127.0.0.1:8737", "http://evil.example"]
)
async def test_change_from_elsewhere_is_refused_even_with_a_session(visitor, sessions, origin) -> None:
    await log_in(visitor, sessions)
    headers = {} if origin is None else {"Origin": origin}

    assert (await visitor.post("/logout", headers=headers)).status_code == 403
    assert (await visitor.get("/attempts")).status_code == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH"])
async def test_other_methods_are_refused(visitor, sessions, method) -> None:
    await log_in(visitor, sessions)

    assert (await visitor.request(method, "/attempts")).status_code == 405


async def test_every_answer_forbids_scripts_of_others_frames_and_guessing(visitor, sessions) -> None:
    await log_in(visitor, sessions)
    for path in ("/attempts", "/nowhere", "/static/console.js"):
        headers = (await visitor.get(path)).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        kept = "private, max-age=86400" if path.startswith("/static/") else "no-store"
        assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", kept)


async def test_session_ends_by_logging_out(visitor, sessions) -> None:
    await log_in(visitor, sessions)
    cookie = visitor.cookies[COOKIE]
    await visitor.post("/logout", headers=ORIGIN)
    visitor.cookies.set(COOKIE, cookie)

    assert (await visitor.get("/attempts")).status_code == 401


def test_session_ends_after_its_time() -> None:
    now = [0.0]
    sessions = SessionStore(clock=lambda: now[0])
    session = sessions.redeem_login_token(sessions.offer()) or ""

    assert sessions.is_valid(session)
    now[0] = SESSION_LIFETIME_S
    assert not sessions.is_valid(session)
