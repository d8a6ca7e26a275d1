import asyncio
import json
from types import SimpleNamespace

import pytest

from assayd.analysis.analyst import CheckedSubmission
from assayd.attempts.policy_trial import CheckConcurrencyLimiter
from assayd.byte_budget import LARGE_BYTES
from assayd.documents import parse_json
from assayd.errors import EngineError, RequestError, StoreError
from assayd.kinds import registry
from assayd.model.report import Verdict
from support.slowness import SLOWER_BY


class HeldAnalyst:
    """An analyst that answers when it is released, and counts simultaneous submissions."""

    def __init__(self) -> None:
        self.asked, self.released = asyncio.Event(), asyncio.Event()
        self.now = self.most = 0

    async def check(self, kind, payload, policy, *, flow):
        self.now += 1
        self.most = max(self.most, self.now)
        self.asked.set()
        await self.released.wait()
        self.now -= 1
        return CheckedSubmission(stages=(), payload=payload)


class Admission:
    """An admission that completes nothing and needs no policy."""

    async def complete(self, submission, uid):
        return submission

    def policy(self, submission) -> None:
        return None


@pytest.fixture
def analyst(app):
    """Give an application static checks with this analyst during a test."""
    analyst, kinds = HeldAnalyst(), {"extractor": registry.find_validator("extractor")}
    app.state.trials = SimpleNamespace(
        admission=Admission(), analyst=analyst, kinds=kinds, turns=CheckConcurrencyLimiter()
    )
    yield analyst
    app.state.trials = None


GOOD = {"kind": "extractor", "payload": {"code": "x = 1", "sample_paths": ["/a"]}}
ULID = "01JTC8ZK5V7777777777777777"


def code(response) -> str:
    error = response.json()["error"]
    assert set(error) == {"code", "message", "field", "retryable"}
    return error["code"]


async def submit(client, **changes):
    response = await client.post("/v1/attempts", json={**GOOD, **changes})
    assert response.status_code == 202
    return response.json()["id"]


class TestPost:
    async def test_without_waiting_it_is_accepted_and_located(self, connect) -> None:
        response = await connect().post("/v1/attempts", json=GOOD)
        body = response.json()
        assert (response.status_code, body["state"], body["report"]) == (202, "queued", None)
        assert response.headers["Location"] == f"/v1/attempts/{body['id']}"
        assert body["peer"] == {"uid": 1000, "gid": 1000, "pid": 1}

    async def test_waiting_gives_the_finished_attempt(self, connect) -> None:
        response = await connect().post("/v1/attempts?wait_s=5", json=GOOD)
        assert (response.status_code, response.json()["report"]["status"]) == (200, "VALIDATED")
        assert isinstance(parse_json(response.content), dict)

    async def test_static_check_is_refused_where_nodes_judge(self, connect, service) -> None:
        response = await connect().post("/v1/attempts/check", json=GOOD)
        assert (response.status_code, code(response), service.attempts) == (409, "policy.elsewhere", {})

    async def test_large_check_that_waits_for_its_analysis_delays_no_other_user(
        self, analyst, connect
    ) -> None:
        large = json.dumps(GOOD).encode() + b" " * LARGE_BYTES
        check = asyncio.create_task(connect(2000).post("/v1/attempts/check", content=large))
        await analyst.asked.wait()
        async with asyncio.timeout(10 * SLOWER_BY):
            response = await connect().post("/v1/attempts", content=large)
        assert (response.status_code, check.done()) == (202, False)
        analyst.released.set()
        assert (await check).status_code == 200

    async def test_further_check_of_a_user_waits_for_the_one_under_way(self, analyst, connect) -> None:
        first, second = (
            asyncio.create_task(connect().post("/v1/attempts/check", json=GOOD)) for _ in range(2)
        )
        await analyst.asked.wait()
        async with asyncio.timeout(10 * SLOWER_BY):
            await connect().post("/v1/attempts", json=GOOD)
        assert analyst.most == 1
        analyst.released.set()
        assert [(await each).status_code for each in (first, second)] == [200, 200]
        assert analyst.most == 1

    async def test_a_wait_that_is_too_short_is_202(self, connect, service) -> None:
        service.outcome = None
        response = await connect().post("/v1/attempts?wait_s=0.001", json=GOOD)
        assert (response.status_code, response.json()["verdict"]) == (202, None)

    async def test_an_idempotency_key_gives_the_same_attempt(self, connect) -> None:
        client, headers = connect(), {"Idempotency-Key": "one"}
        first = await client.post("/v1/attempts", json=GOOD, headers=headers)
        again = await client.post("/v1/attempts", json=GOOD, headers=headers)
        other = await client.post("/v1/attempts", json={**GOOD, "policy": "p"}, headers=headers)
        somebody = await connect(2000).post("/v1/attempts", json=GOOD, headers=headers)
        assert (first.status_code, again.status_code, other.status_code) == (202, 200, 409)
        assert again.json()["id"] == first.json()["id"] != somebody.json()["id"]

    @pytest.mark.parametrize("key", ["", "a b", "x" * 129, "é"])
    async def test_an_unusable_key_is_refused(self, connect, key) -> None:
        response = await connect().post("/v1/attempts", json=GOOD, headers={"Idempotency-Key": key.encode()})
        assert (response.status_code, response.json()["error"]["field"]) == (422, "Idempotency-Key")

    @pytest.mark.parametrize(
        ("body", "status", "name"),
        [
            (b"", 400, "malformed"),
            (b'{"kind": "extractor", "kind": "x"}', 400, "malformed"),
            (b'{"kind": NaN}', 400, "malformed"),
            (b"[]", 400, "malformed"),
            (b'{"kind": "x", "payload": {}}', 422, "kind.unknown"),
            (b'{"kind": "extractor", "payload": {}}', 422, "invalid"),
            (json.dumps({**GOOD, "payload": {"code": "x" * (2**20 + 1)}}).encode(), 413, "too_large"),
            (b" " * (2 * 2**20 + 1), 413, "too_large"),
        ],
    )
    async def test_a_bad_body_is_refused(self, connect, service, body, status, name) -> None:
        response = await connect().post("/v1/attempts", content=body)
        assert (response.status_code, code(response)) == (status, name)
        assert service.attempts == {}

    async def test_a_body_without_declared_size_is_cut_off_at_the_cap(self, connect) -> None:
        sent = []

        async def endless():
            while True:
                sent.append(1)
                yield b" " * 2**20

        response = await connect().post("/v1/attempts", content=endless())
        assert (response.status_code, len(sent)) == (413, 3)

    @pytest.mark.parametrize(
        ("refusal", "status", "retry_after"),
        [
            (RequestError("queue.full", "full", retryable=True), 429, "1"),
            (RequestError("not_ready", "canary", retryable=True), 503, "5"),
            (RequestError("override.wider", "wider", field="overrides.resources.timeout_s"), 422, None),
            (RequestError("something.new", "refused"), 422, None),
            (EngineError("engine.unreachable", "unix:///secret/path", retryable=True), 503, "5"),
            (StoreError("store.broken", "/secret/path"), 500, None),
            (ZeroDivisionError("secret"), 500, None),
        ],
    )
    async def test_refusals_have_their_status_and_keep_secrets(
        self, connect, service, refusal, status, retry_after
    ) -> None:
        service.refusal = refusal
        response = await connect().post("/v1/attempts", json=GOOD)
        assert (response.status_code, response.headers.get("Retry-After")) == (status, retry_after)
        assert code(response) == getattr(refusal, "code", "internal")
        assert "secret" not in response.text

    async def test_a_parent_must_be_ones_own(self, connect) -> None:
        foreign = await submit(connect(2000))
        own = await submit(connect())
        assert (await connect().post("/v1/attempts", json={**GOOD, "parent_id": own})).status_code == 202
        refused = await connect().post("/v1/attempts", json={**GOOD, "parent_id": foreign})
        assert (refused.status_code, refused.json()["error"]["field"]) == (422, "parent_id")


class TestPut:
    async def test_the_same_id_and_body_is_the_same_attempt(self, connect, service) -> None:
        client = connect()
        first = await client.put(f"/v1/attempts/{ULID}", json=GOOD)
        pending = await client.put(f"/v1/attempts/{ULID}", json=GOOD)
        service.finish(ULID)
        done = await client.put(f"/v1/attempts/{ULID}", json=GOOD)
        other = await client.put(f"/v1/attempts/{ULID}", json={**GOOD, "policy": "p"})
        assert [r.status_code for r in (first, pending, done, other)] == [202, 202, 200, 409]
        assert first.json()["id"] == done.json()["id"] == ULID
        assert len(service.attempts) == 1

    async def test_id_of_another_user_is_not_found(self, connect) -> None:
        await connect(2000).put(f"/v1/attempts/{ULID}", json=GOOD)
        response = await connect().put(f"/v1/attempts/{ULID}", json=GOOD)
        assert (response.status_code, code(response)) == (404, "not_found")

    @pytest.mark.parametrize("name", ["abc", ULID.lower(), ULID[:-1], "8" + ULID[1:], "I" * 26])
    async def test_what_is_no_ulid_is_refused(self, connect, name) -> None:
        response = await connect().put(f"/v1/attempts/{name}", json=GOOD)
        assert (response.status_code, response.json()["error"]["field"]) == (422, "id")


class TestVisibility:
    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("GET", ""),
            ("POST", "/cancel"),
            ("GET", "/events"),
            ("GET", "/artifacts"),
            ("GET", "/artifacts/stdout.log"),
            ("GET", "/bundle"),
        ],
    )
    async def test_an_attempt_of_somebody_else_does_not_exist(self, connect, method, path) -> None:
        attempt = await submit(connect(2000))
        response = await connect().request(method, f"/v1/attempts/{attempt}{path}")
        assert (response.status_code, code(response)) == (404, "not_found")

    @pytest.mark.parametrize(("uid", "groups"), [(0, ()), (1000, (500,)), (2000, ())])
    async def test_operators_root_and_the_owner_see_it(self, connect, uid, groups) -> None:
        attempt = await submit(connect(2000))
        assert (await connect(uid, *groups).get(f"/v1/attempts/{attempt}")).status_code == 200

    async def test_a_listing_has_ones_own_only(self, connect) -> None:
        own = await submit(connect())
        foreign = await submit(connect(2000))
        mine = (await connect().get("/v1/attempts")).json()
        everybodys = (await connect(0).get("/v1/attempts")).json()
        assert [a["id"] for a in mine["attempts"]] == [own]
        assert [a["id"] for a in everybodys["attempts"]] == [foreign, own]

    async def test_only_operators_list_those_of_one_other_user(self, connect) -> None:
        own, foreign = await submit(connect()), await submit(connect(2000))
        mine = (await connect().get("/v1/attempts?uid=1000")).json()
        theirs = (await connect(0).get("/v1/attempts?uid=2000")).json()
        refused = await connect().get("/v1/attempts?uid=2000")
        assert [a["id"] for a in mine["attempts"]] == [own]
        assert [a["id"] for a in theirs["attempts"]] == [foreign]
        assert (refused.status_code, code(refused)) == (403, "peer.not_operator")


class TestList:
    async def test_pages_follow_each_other(self, connect) -> None:
        client = connect()
        ids = [await submit(client) for _ in range(3)]
        first = (await client.get("/v1/attempts", params={"limit": 2})).json()
        last = (await client.get("/v1/attempts", params={"limit": 2, "cursor": first["next_cursor"]})).json()
        assert [a["id"] for a in first["attempts"] + last["attempts"]] == ids[::-1]
        assert last["next_cursor"] is None

    async def test_filters_reach_the_service(self, connect, service) -> None:
        query = (
            "state=finished&verdict=failed&kind=extractor&batch=b&label=a%3Db&label=c%3Dd"
            "&since=2026-01-02T03:04:05Z&limit=7&cause=timeout&rule=case.failed&uid=1000"
        )
        assert (await connect().get(f"/v1/attempts?{query}")).status_code == 200
        (asked,) = service.queries
        assert (asked.state, asked.verdict, asked.kind, asked.batch_id) == (
            "finished",
            "failed",
            "extractor",
            "b",
        )
        assert (asked.labels, asked.limit, asked.uid) == ((("a", "b"), ("c", "d")), 7, 1000)
        assert asked.since.isoformat() == "2026-01-02T03:04:05+00:00"
        assert (asked.cause, asked.rule) == ("timeout", "case.failed")

    @pytest.mark.parametrize(
        ("query", "field"),
        [
            ("state=nowhere", "state"),
            ("limit=0", "limit"),
            ("limit=501", "limit"),
            ("limit=x", "limit"),
            ("label=novalue", "label"),
            ("&".join(["label=a%3Db"] * 17), "label"),
            ("since=yesterday", "since"),
            ("since=2026-01-02T03:04:05", "since"),
            ("colour=red", "colour"),
            ("rule=%25", "rule"),
            ("uid=-1", "uid"),
            ("limit=1&limit=2", "limit"),
            ("cursor=" + "x" * 300, "cursor"),
        ],
    )
    async def test_a_query_that_cannot_be_is_refused(self, connect, query, field) -> None:
        response = await connect().get(f"/v1/attempts?{query}")
        assert (response.status_code, response.json()["error"]["field"]) == (422, field)


class TestCancel:
    async def test_a_waiting_attempt_is_cancelled(self, connect, service) -> None:
        attempt = await submit(connect())
        response = await connect().post(f"/v1/attempts/{attempt}/cancel")
        assert (response.status_code, response.json()["verdict"]) == (202, "cancelled")

    async def test_a_finished_attempt_is_a_conflict(self, connect, service) -> None:
        attempt = await submit(connect())
        service.finish(attempt, Verdict.VALIDATED)
        response = await connect().post(f"/v1/attempts/{attempt}/cancel")
        assert (response.status_code, code(response)) == (409, "attempt.finished")


class TestArtifacts:
    async def test_listed_files_can_be_fetched(self, connect, service) -> None:
        attempt = await submit(connect())
        service.finish(attempt)
        listed = (await connect().get(f"/v1/attempts/{attempt}/artifacts")).json()["artifacts"]
        assert [artifact["name"] for artifact in listed] == ["stdout.log", "files/0.bin"]
        one = await connect().get(f"/v1/attempts/{attempt}/artifacts/files/0.bin")
        assert (one.content, one.headers["Content-Disposition"]) == (b"\x00\x01", "attachment")
        assert (one.headers["ETag"], one.headers["X-Content-Type-Options"]) == (f'"{"12" * 32}"', "nosniff")

    @pytest.mark.parametrize(
        "name", ["nothing", "../../../etc/passwd", "%2e%2e/secret", "files%2f..%2fstdout.log"]
    )
    async def test_a_name_that_is_not_listed_does_not_exist(self, connect, service, name) -> None:
        attempt = await submit(connect())
        service.finish(attempt)
        response = await connect().get(f"/v1/attempts/{attempt}/artifacts/{name}")
        assert response.status_code == 404

    async def test_the_bundle_is_a_tar_once_it_is_there(self, connect, service) -> None:
        attempt = await submit(connect())
        assert (await connect().get(f"/v1/attempts/{attempt}/bundle")).status_code == 404
        service.finish(attempt)
        response = await connect().get(f"/v1/attempts/{attempt}/bundle")
        assert response.content == b"no client\n\x00\x01"
        assert response.headers["Content-Type"] == "application/x-tar"


class TestUnknown:
    @pytest.mark.parametrize(
        ("method", "path", "status", "name"),
        [
            ("GET", "/", 404, "not_found"),
            ("GET", "/v1/nothing", 404, "not_found"),
            ("GET", "/v1/attempts/", 404, "not_found"),
            ("GET", "/docs", 404, "not_found"),
            ("DELETE", "/v1/attempts", 405, "method_not_allowed"),
            ("GET", "/healthz?verbose=1", 422, "invalid"),
            ("POST", "/v1/attempts?wait_s=601", 422, "invalid"),
            ("POST", "/v1/attempts?wait_s=nan", 422, "invalid"),
            ("POST", "/v1/attempts?wait_s=-1", 422, "invalid"),
            ("GET", "/v1/kinds/nothing", 404, "not_found"),
            ("GET", "/v1/policies/nothing", 404, "not_found"),
        ],
    )
    async def test_it_gets_the_one_error_form(self, connect, method, path, status, name) -> None:
        response = await connect().request(method, path, json=GOOD if method == "POST" else None)
        assert (response.status_code, code(response)) == (status, name)


async def test_many_waiters_of_one_attempt_all_get_its_verdict(connect, service) -> None:
    service.outcome = None
    client = connect()
    waiting = [
        asyncio.ensure_future(client.put(f"/v1/attempts/{ULID}?wait_s=5", json=GOOD)) for _ in range(3)
    ]
    while not service.attempts:
        await asyncio.sleep(0)
    service.finish(ULID)
    assert [(await one).json()["verdict"] for one in waiting] == ["validated"] * 3
