"""Which library entries a caller sees and removes; those of others stay hidden."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from assayd.model.submission import Peer
from assayd.store.library import ENTRY_BYTES, MIB
from support.daemons.small_daemon import How, SmallDaemon, small_daemon

OWNER, STRANGER, OPERATOR = 1000, 2000, 0


@pytest.fixture
async def small(tmp_path: Path, app: FastAPI) -> AsyncIterator[SmallDaemon]:
    """Serve a daemon whose user has two versions of `months` in the library."""
    before = app.state.service
    async with small_daemon(tmp_path, How(settings={"limits": {"library_mb_per_uid": 1}})) as daemon:
        app.state.service, app.state.library = daemon.service, daemon.library
        for code in ("run", "run # again"):
            attempt = await daemon.accept(code, peer=Peer(uid=OWNER, gid=OWNER, pid=1))
            await daemon.library.approve(await daemon.finished(attempt), "months", OWNER)
        yield daemon
    app.state.service = before


def versions(answer: httpx.Response) -> list[int]:
    return [entry["version"] for entry in answer.json()["entries"]]


async def test_owner_removes_a_version_and_then_the_name(connect: Any, small: SmallDaemon) -> None:
    owner = connect(uid=OWNER)
    assert versions(await owner.delete("/v1/library/months/1")) == [1]
    assert versions(await owner.get("/v1/library/months")) == [2]
    assert (await owner.delete("/v1/library/months/1")).status_code == 404
    assert versions(await owner.delete("/v1/library/months")) == [2]
    assert (await owner.get("/v1/library/months")).status_code == 404


async def test_operator_sees_and_removes_entries_of_the_user_that_is_named(
    connect: Any, small: SmallDaemon
) -> None:
    operator, whose = connect(uid=OPERATOR), {"uid": OWNER}
    assert versions(await operator.get("/v1/library", params=whose)) == [2]
    assert versions(await operator.get("/v1/library/months", params=whose)) == [2, 1]
    assert (await operator.get("/v1/library/months/1", params=whose)).json()["version"] == 1
    assert (await operator.delete("/v1/library/months")).status_code == 404  # of its own
    assert versions(await operator.delete("/v1/library/months", params=whose)) == [2, 1]


@pytest.mark.parametrize("path", ["/v1/library/months", "/v1/library/months/1"])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_other_users_learn_nothing_of_an_entry_and_remove_none(
    connect: Any, small: SmallDaemon, method: str, path: str
) -> None:
    stranger = connect(uid=STRANGER)
    missing = await stranger.request(method, path)
    named = await stranger.request(method, path, params={"uid": OWNER})
    assert (missing.status_code, missing.json()) == (named.status_code, named.json())
    assert missing.status_code == 404
    assert versions(await connect(uid=OWNER).get("/v1/library/months")) == [2, 1]


async def test_approval_beyond_the_limit_is_answered_with_429(connect: Any, small: SmallDaemon) -> None:
    attempt = await small.finished(await small.accept("run", peer=Peer(uid=OWNER, gid=OWNER, pid=1)))
    most = MIB // ENTRY_BYTES
    for number in range(most):
        answer = await connect(uid=OWNER).post(
            f"/v1/attempts/{attempt.id}/approve", json={"name": f"n{number}"}
        )
        if answer.status_code != 200:
            break
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "quota.library")
    assert number > most // 2
