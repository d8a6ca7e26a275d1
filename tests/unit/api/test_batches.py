import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import pytest

from assayd.api import ApiLimits, Caller, SocketAccess, create_app
from assayd.documents.attempts import AttemptDocument
from assayd.documents.batches import BatchDocument, BatchPageDocument, BatchResultDocument, ItemPageDocument
from assayd.documents.discovery import GarbageDocument
from assayd.model.submission import Peer
from support.daemons.small_daemon import How, SmallDaemon, small_daemon, submission

GOOD = json.dumps(submission("x")).encode()


def lines(*codes: str) -> bytes:
    return b"\n".join(json.dumps(submission(code)).encode() for code in codes)


class Served:
    """An application on a small daemon, for any caller."""

    def __init__(self, daemon: SmallDaemon, limits: ApiLimits) -> None:
        self.daemon = daemon
        self._app = create_app(
            daemon.service,
            daemon.batches,
            access=SocketAccess(operators_gid=500, own_uid=33),
            limits=limits,
        )

    @asynccontextmanager
    async def as_user(self, uid: int = 1000, *groups: int) -> AsyncIterator[httpx.AsyncClient]:
        caller = Caller(peer=Peer(uid=uid, gid=uid, pid=1), groups=frozenset({uid, *groups}))

        async def app(scope, receive, send):
            await self._app({**scope, "state": {"caller": caller}}, receive, send)

        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://assayd") as client:
            yield client

    async def sent(self, client: httpx.AsyncClient, body: bytes, query: str = "?name=b") -> dict:
        response = await client.post(f"/v1/batches{query}", content=body)
        assert response.status_code == 202, response.text
        return response.json()

    async def events(self, client: httpx.AsyncClient, batch: str) -> list[dict]:
        text = (await client.get(f"/v1/batches/{batch}/events")).text
        return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


@pytest.fixture
async def served(tmp_path) -> AsyncIterator[Served]:
    async with small_daemon(tmp_path) as daemon:
        yield Served(daemon, ApiLimits(heartbeat_s=0.01, silence_s=0.05))


async def test_sent_lines_are_counted_run_and_listed(served) -> None:
    async with served.as_user() as client:
        sent = await served.sent(client, lines("one", "bad") + b"\n{")
        assert BatchDocument.model_validate(sent).model_dump(mode="json") == sent
        assert sent["received"] == {"lines": 3, "added": 3, "known": 0, "malformed": 1, "conflicting": []}
        events = await served.events(client, "b")
        assert (events[-1]["kind"], events[-1]["body"]["state"]) == ("finished", "finished")
        got = (await client.get(f"/v1/batches/{sent['id']}")).json()
        assert got["counts"] == {
            "total": 3,
            "waiting": 0,
            "running": 0,
            "validated": 1,
            "failed": 1,
            "error": 1,
            "cancelled": 0,
            "malformed": 1,
        }
        page = (await client.get("/v1/batches")).json()
        assert BatchPageDocument.model_validate(page).model_dump(mode="json") == page
        assert page["batches"] == [got]
        attempts = (await client.get(f"/v1/attempts?batch={sent['id']}")).json()["attempts"]
        assert {attempt["verdict"] for attempt in attempts} == {"validated", "failed"}


async def test_items_are_paged_in_line_order(served) -> None:
    async with served.as_user() as client:
        sent = await served.sent(client, lines("one", "two") + b"\n\n" + GOOD)
        await served.events(client, "b")
        first = (await client.get(f"/v1/batches/{sent['id']}/items?limit=2")).json()
        assert ItemPageDocument.model_validate(first).model_dump(mode="json") == first
        last = (await client.get(f"/v1/batches/b/items?limit=2&after={first['next_after']}")).json()
        assert [item["line"] for item in first["items"] + last["items"]] == [1, 2, 4]
        assert last["next_after"] is None


async def test_results_are_lines_with_whole_attempts(served) -> None:
    async with served.as_user() as client:
        await served.sent(client, lines("one", "run two") + b"\n{")
        await served.events(client, "b")
        response = await client.get("/v1/batches/b/results")
        assert response.headers["content-type"] == "application/x-ndjson"
        results = [json.loads(line) for line in response.text.splitlines()]
    assert [result["line"] for result in results] == [1, 2, 3]
    assert results[2]["attempt"] is None
    for result in results[:2]:
        assert BatchResultDocument.model_validate(result).model_dump(mode="json") == result


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("?name=" + "x" * 65, "name"),
        ("?name=.hidden", "name"),
        ("?name=a/b", "name"),
        ("?name=01JTC8ZK5V7777777777777777", "name"),
        ("?concurrency=0", "concurrency"),
        ("?concurrency=1000", "concurrency"),
        ("?dedupe=maybe", "dedupe"),
        ("?colour=red", "colour"),
    ],
)
async def test_what_a_batch_cannot_be_is_refused(served, query, field) -> None:
    async with served.as_user() as client:
        response = await client.post(f"/v1/batches{query}", content=GOOD)
        assert (response.status_code, response.json()["error"]["field"]) == (422, field)
        assert (await client.get("/v1/batches")).json()["batches"] == []


async def test_batch_of_somebody_else_does_not_exist(served) -> None:
    async with served.as_user(2000) as other, served.as_user() as client, served.as_user(1, 500) as operator:
        batch = await served.sent(other, GOOD)
        for method, path in (
            ("GET", ""),
            ("GET", "/items"),
            ("GET", "/results"),
            ("GET", "/events"),
            ("POST", "/cancel"),
        ):
            for name in (batch["id"], "b"):
                assert (await client.request(method, f"/v1/batches/{name}{path}")).status_code == 404
        assert (await client.get("/v1/batches")).json()["batches"] == []
        assert len((await operator.get("/v1/batches")).json()["batches"]) == 1
        assert (await operator.get(f"/v1/batches/{batch['id']}")).status_code == 200
        mine = await served.sent(client, GOOD)
        assert mine["id"] != batch["id"]


async def test_parent_of_a_line_must_be_ones_own(served) -> None:
    async with served.as_user(2000) as other, served.as_user() as client:
        foreign = (await other.post("/v1/attempts", content=GOOD)).json()["id"]
        own = (await client.post("/v1/attempts", content=GOOD)).json()["id"]
        body = "\n".join(json.dumps(submission("x", parent_id=each)) for each in (foreign, own))
        assert (await served.sent(client, body.encode()))["received"]["malformed"] == 1


async def test_body_that_does_not_come_is_not_waited_for_and_what_came_stays(served) -> None:
    async def stuck() -> AsyncIterator[bytes]:
        yield lines("one", "two") + b"\n"
        await served.daemon.checks.open.wait()

    served.daemon.checks.open.clear()
    async with served.as_user() as client:
        response = await client.post("/v1/batches?name=b", content=stuck())
        assert (response.status_code, response.json()["error"]["code"]) == (408, "too_slow")
        batch = (await client.get("/v1/batches/b")).json()
        assert (batch["state"], batch["counts"]["total"]) == ("open", 2)
        served.daemon.checks.open.set()


async def test_cancelled_batch_says_so_and_a_finished_one_refuses(served) -> None:
    served.daemon.checks.open.clear()
    async with served.as_user() as client:
        await served.sent(client, lines("one", "two"))
        cancelled = await client.post("/v1/batches/b/cancel")
        assert (cancelled.status_code, cancelled.json()["state"]) == (202, "cancelled")
        served.daemon.checks.open.set()
        await served.sent(client, GOOD, "?name=other")
        await served.events(client, "other")
        refused = await client.post("/v1/batches/other/cancel")
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "batch.finished")


async def test_too_many_batches_are_429_with_retry_after(tmp_path) -> None:
    how = How()
    async with small_daemon(tmp_path, replace(how, batch=replace(how.batch, per_uid=1))) as daemon:
        served = Served(daemon, ApiLimits())
        daemon.checks.open.clear()
        async with served.as_user() as client:
            await served.sent(client, GOOD)
            refused = await client.post("/v1/batches?name=c", content=GOOD)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "quota.full")
        assert refused.headers["Retry-After"]


class TestReplay:
    async def test_replay_tells_that_nothing_differs(self, served) -> None:
        async with served.as_user() as client:
            first = (await client.post("/v1/attempts?wait_s=5", json=submission("run"))).json()
            response = await client.post(f"/v1/attempts/{first['id']}/replay?wait_s=5")
        again = response.json()
        assert (response.status_code, again["replay_of"]) == (200, first["id"])
        assert again["id"] != first["id"]
        assert again["input_digest"] == first["input_digest"]
        assert again["replay_diff"] == {
            "of": first["id"],
            "same": True,
            "verdict": {"before": "validated", "after": "validated"},
            "differences": [],
            "more": 0,
        }
        assert AttemptDocument.model_validate(again).model_dump(mode="json") == again
        assert first["replay_diff"] is None

    async def test_replay_tells_what_differs(self, served) -> None:
        async with served.as_user() as client:
            first = (await client.post("/v1/attempts?wait_s=5", json=submission("run"))).json()
            served.daemon.sandbox.image_digest = "sha256:newer"
            again = (await client.post(f"/v1/attempts/{first['id']}/replay?wait_s=5")).json()
            shown = (await client.get(f"/v1/attempts/{again['id']}")).json()
        assert not again["replay_diff"]["same"]
        assert {each["field"]: each["after"] for each in again["replay_diff"]["differences"]} == {
            "execution.container.image_digest": "sha256:newer",
            "report.image_digest": "sha256:newer",
        }
        assert shown == again

    async def test_replay_of_what_is_not_finished_is_a_conflict(self, served) -> None:
        served.daemon.checks.open.clear()
        async with served.as_user() as client, served.as_user(2000) as other:
            attempt = (await client.post("/v1/attempts", json=submission())).json()["id"]
            refused = await client.post(f"/v1/attempts/{attempt}/replay")
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "attempt.unfinished")
            assert (await other.post(f"/v1/attempts/{attempt}/replay")).status_code == 404
        served.daemon.checks.open.set()

    async def test_replay_whose_attempt_is_gone_has_no_diff(self, served) -> None:
        async with served.as_user() as client:
            first = (await client.post("/v1/attempts?wait_s=5", json=submission())).json()
            again = (await client.post(f"/v1/attempts/{first['id']}/replay?wait_s=5")).json()
            await served.daemon.artifacts.remove(first["bundle"])
            assert (await client.get(f"/v1/attempts/{again['id']}")).json()["replay_diff"] is None


class TestAllEvents:
    async def test_a_user_sees_its_own_and_an_operator_all(self, served) -> None:
        places = {}
        async with served.as_user(2000) as other, served.as_user() as client:
            foreign = (await other.post("/v1/attempts?wait_s=5", json=submission())).json()["id"]
            own = (await client.post("/v1/attempts?wait_s=5", json=submission())).json()["id"]
            for who, uid in (("own", 1000), ("all", None)):
                stream = served.daemon.service.all_events(uid, after="nowhere.0")
                seen = []
                async for place, event in stream:
                    seen.append(event.attempt_id)
                    places[who] = place
                    if event.attempt_id == own and event.kind == "finished":
                        break
                await stream.aclose()
                places[who, "seen"] = set(seen) - {""}
        assert places["own", "seen"] == {own}
        assert places["all", "seen"] == {own, foreign}


class TestGarbage:
    @pytest.mark.parametrize(
        ("uid", "groups", "status"), [(0, (), 200), (33, (), 200), (1, (500,), 200), (1, (), 403)]
    )
    async def test_it_is_for_operators(self, served, uid, groups, status) -> None:
        async with served.as_user(uid, *groups) as client:
            assert (await client.post("/v1/gc")).status_code == status

    async def test_a_dry_run_tells_and_removes_nothing(self, served) -> None:
        async with served.as_user(0) as client:
            attempt = (await client.post("/v1/attempts?wait_s=5", json=submission())).json()
            served.daemon.clock.days = 40
            told = (await client.post("/v1/gc?dry_run=true")).json()
            assert GarbageDocument.model_validate(told).model_dump() == told
            assert (told["dry_run"], told["attempts"]) == (True, 1)
            assert told["disk_bytes"] >= 4096 * 4
            assert (await client.get(f"/v1/attempts/{attempt['id']}")).status_code == 200
            done = (await client.post("/v1/gc")).json()
            assert done == {**told, "dry_run": False}
            assert (await client.get(f"/v1/attempts/{attempt['id']}")).status_code == 404


async def test_known_key_is_answered_while_nothing_can_run(served) -> None:
    key = {"Idempotency-Key": "one"}
    async with served.as_user() as client:
        first = (await client.post("/v1/attempts?wait_s=5", json=submission(), headers=key)).json()
        served.daemon.readiness.problem = "no engine"
        same = await client.post("/v1/attempts", json=submission(), headers=key)
        other = await client.post("/v1/attempts", json=submission(), headers={"Idempotency-Key": "two"})
        put = await client.put(f"/v1/attempts/{first['id']}", json=submission())
    assert (same.status_code, same.json()["id"]) == (200, first["id"])
    assert (other.status_code, put.status_code) == (503, 200)


async def test_foreign_id_is_refused_the_same_whatever_is_put(served) -> None:
    async with served.as_user(2000) as other, served.as_user() as client:
        taken = (await other.post("/v1/attempts?wait_s=5", json=submission("secret"))).json()["id"]
        answers = [
            await client.put(f"/v1/attempts/{taken}", json=submission(code)) for code in ("secret", "guess")
        ]
        served.daemon.readiness.problem = "no engine"
        unready = await client.put(f"/v1/attempts/{taken}", json=submission("secret"))
    assert answers[0].status_code == answers[1].status_code == 404
    assert answers[0].json() == answers[1].json()
    assert unready.status_code == 503
