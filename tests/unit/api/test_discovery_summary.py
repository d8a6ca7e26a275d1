"""Summaries of many attempts through the API."""

from __future__ import annotations

import pytest


async def test_counts_are_summed_by_verdict_cause_kind_rule_and_time(connect, service) -> None:
    answer = await connect().get("/v1/summary?bucket_s=60")

    assert answer.json() == {
        "total": 3,
        "verdicts": {"failed": 3},
        "causes": {"timeout": 3},
        "kinds": {"extractor": 3},
        "rules": {"import.not_allowed": 2},
        "bucket_s": 60,
        "buckets": [{"at": "2026-05-04T10:20:30.000000Z", "verdicts": {"failed": 3}}],
        "slowest": [{"attempt_id": "01", "kind": "extractor", "verdict": "failed", "duration_ms": 1500.0}],
    }


async def test_users_are_told_of_their_own_attempts_and_operators_of_all(connect, service) -> None:
    await connect(1000).get("/v1/summary?kind=extractor&batch=B")
    await connect(1000, 500).get("/v1/summary")

    assert [(query.uid, query.kind, query.batch_id) for query in service.queries] == [
        (1000, "extractor", "B"),
        (None, None, None),
    ]


@pytest.mark.parametrize("query", ["bucket_s=0", "since=yesterday", "until=now"])
async def test_other_parameters_are_refused(connect, query) -> None:
    assert (await connect().get(f"/v1/summary?{query}")).status_code == 422
