import asyncio
import json

import pytest

from assayd.documents.attempts import AttemptDocument
from assayd.model.health import HealthRow
from support.daemons.fake_service import GOLDEN


async def test_kinds_show_schema_stages_and_rules(connect) -> None:
    (listed,) = (await connect().get("/v1/kinds")).json()["kinds"]
    one = (await connect().get("/v1/kinds/extractor")).json()
    assert one == listed
    assert one["stages"] == ["sandbox", "quality"]
    assert one["writers"] == []
    assert one["payload_schema"]["required"] == ["code"]
    assert one["rules"][0]["id"] == "import.not_allowed"


async def test_policies_show_effective_values(connect) -> None:
    (listed,) = (await connect().get("/v1/policies")).json()["policies"]
    assert (await connect().get("/v1/policies/extractor")).json() == listed
    assert listed["resources"]["memory_mb"] == 100


async def test_profile_is_checked_for_operators(connect) -> None:
    good = b'extends = "extractor"\n[resources]\ntimeout_s = 90\n'
    told = (await connect(0).post("/v1/policies/mine/check", content=good)).json()
    assert told["problems"] == []
    assert told["policy"]["name"] == "mine"
    assert told["policy"]["clamped"] == [{"field": "resources.timeout_s", "requested": 90, "effective": 60}]
    bad = (await connect(0).post("/v1/policies/mine/check", content=b"\nx = 1\n")).json()
    assert bad["policy"] is None
    assert [(each["line"], each["key"]) for each in bad["problems"]] == [(2, "x")]
    refused = await connect(2000).post("/v1/policies/mine/check", content=good)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "peer.not_operator")


@pytest.mark.parametrize(
    "content", [b"\xff", b"x = ", b"[[" * 5000, b"x = " + b"1" * 5000, b"x = " + b"[" * 5000]
)
async def test_profile_that_cannot_be_read_is_told_as_a_problem(connect, content: bytes) -> None:
    told = (await connect(0).post("/v1/policies/mine/check", content=content)).json()
    assert told["policy"] is None
    assert told["problems"]


async def test_profile_that_is_too_long_is_refused(connect) -> None:
    response = await connect(0).post("/v1/policies/mine/check", content=b"#" * (256 * 2**10 + 1))
    assert (response.status_code, response.json()["error"]["code"]) == (413, "too_large")


async def test_doctor_gives_status_and_remedy(connect) -> None:
    checks = (await connect(0).get("/v1/doctor")).json()["checks"]
    assert [(check["check"], check["status"]) for check in checks] == [("engine", "ok"), ("canary", "warn")]


async def test_doctor_examines_for_one_at_a_time(connect, service, monkeypatch) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> list[HealthRow]:
        begun.set()
        await go_on.wait()
        return []

    monkeypatch.setattr(service, "health", slow)
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(connect(0).get("/v1/doctor"))
        await begun.wait()
        second = await connect(0).get("/v1/doctor")
        go_on.set()
    assert (second.status_code, second.json()["error"]["code"]) == (429, "doctor.busy")
    assert (first.result().status_code, (await connect(0).get("/v1/doctor")).status_code) == (200, 200)


async def test_doctor_examines_for_operators_and_tells_others_what_it_told_last(
    app, connect, service, monkeypatch
) -> None:
    app.state.examined = None
    examined: list[int] = []
    health = service.health

    async def counted() -> list[HealthRow]:
        examined.append(1)
        return await health()

    monkeypatch.setattr(service, "health", counted)
    refused = await connect(2000).get("/v1/doctor")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "peer.not_operator")
    told = (await connect(0).get("/v1/doctor")).json()
    others = [(await connect(2000).get("/v1/doctor")).json() for _ in range(3)]
    assert told["age_ms"] == 0
    assert all(other["checks"] == told["checks"] and other["age_ms"] >= 0 for other in others)
    assert len(examined) == 1


async def test_health_and_readiness_differ(connect, service) -> None:
    service.unready = "the canary failed"
    assert (await connect().get("/healthz")).json() == {"status": "ok"}
    response = await connect().get("/readyz")
    assert (response.status_code, response.json()["error"]["message"]) == (503, "the canary failed")
    service.unready = ""
    assert (await connect().get("/readyz")).json() == {"status": "ready", "max_runs": 2}


async def test_metrics_are_plain_text(connect) -> None:
    response = await connect().get("/metrics")
    assert (response.text, response.headers["Content-Type"].partition(";")[0]) == (
        "assayd_attempts_total 1.0\n",
        "text/plain",
    )


@pytest.mark.parametrize("name", ["validated", "failed_at_run", "refused", "broken"])
def test_the_described_attempt_is_the_one_that_is_written(name: str) -> None:
    document = json.loads((GOLDEN / f"{name}.json").read_text())
    assert AttemptDocument.model_validate(document).model_dump(mode="json") == document


async def test_the_reference_describes_every_field_and_resolves(connect) -> None:
    reference = (await connect().get("/openapi.json")).json()
    models = reference["components"]["schemas"]
    wanted = {"Attempt", "Report", "Execution", "SubmissionBody", "Resources", "Error"}
    assert wanted <= set(models)
    bare = [
        f"{model}.{field}"
        for model, schema in models.items()
        for field, shown in schema.get("properties", {}).items()
        if "description" not in shown and "$ref" not in shown
    ]
    assert bare == []
    for part in json.dumps(reference).split('"$ref": "#/components/schemas/')[1:]:
        assert part.partition('"')[0] in models


async def test_where_the_state_lies_is_told_to_operators(connect) -> None:
    told = (await connect(0).get("/v1/daemon")).json()
    assert (told["state_dir"], told["database_in_state"]) == ("/var/lib/a", True)
    refused = await connect().get("/v1/daemon")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "peer.not_operator")


@pytest.mark.parametrize(
    ("path", "name"),
    [("/v1/kinds", "kinds"), ("/v1/kinds/extractor", "kind extractor"), ("/openapi.json", "reference")],
)
async def test_what_never_changes_is_made_once(connect, app, path: str, name: str) -> None:
    first = await connect().get(path)
    assert app.state.kept.get(name, never, changes=False) == first.content


def never() -> bytes:
    raise AssertionError("it is made again")
