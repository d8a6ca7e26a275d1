from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from assayd.model.attempt import Artifact, Attempt, State
from assayd.model.records import AttemptEvent, AttemptRun
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd.store.jobs import DatabaseJobStore, open_job_store
from support.stores.empty_database import lay_database

START = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


def ulid(number: int) -> str:
    return f"01{number:024d}"


class Make:
    """Builds values for tests that differ by a number."""

    def attempt(self, number: int = 1, **values: object) -> Attempt:
        given = {
            "id": ulid(number),
            "kind": "code",
            "policy": "code",
            "input_digest": "d" * 64,
            "created_at": START + timedelta(seconds=number),
            "peer": Peer(uid=1000, gid=1000, pid=42),
            "labels": {"category": "weather"},
        }
        return Attempt(**{**given, **values})  # type: ignore[arg-type]

    def finished(self, number: int = 1, **values: object) -> Attempt:
        given = {
            "state": State.FINISHED,
            "verdict": Verdict.VALIDATED,
            "run_number": 1,
            "started_at": START + timedelta(seconds=number, milliseconds=1),
            "finished_at": START + timedelta(seconds=number, milliseconds=2),
            "timings_s": {"total": 0.25, "queued": 0.0},
            "warm": True,
            "cause": "completed",
            "bundle": f"code/default/{number}",
            "artifacts": (Artifact(name="a.log", bytes=3, sha256="e" * 64, media_type="text/plain"),),
        }
        return self.attempt(number, **{**given, **values})

    def run(self, number: int = 1, run_number: int = 1, kind: str = "code") -> AttemptRun:
        return AttemptRun(
            attempt_id=ulid(number),
            kind=kind,
            run_number=run_number,
            daemon_id="d",
            generation="g",
            container_ulid=ulid(900 + number),
            leased_at=START,
            expires_at=START + timedelta(minutes=5),
        )

    def event(self, number: int = 1, seq: int = 1, run_number: int = 0, kind: str = "state") -> AttemptEvent:
        return AttemptEvent(
            attempt_id=ulid(number),
            run_number=run_number,
            seq=seq,
            kind=kind,
            at=START,
            body={"state": "queued"},
        )


@pytest.fixture
def make() -> Make:
    return Make()


@pytest.fixture
async def jobs(tmp_path: Path, database_url: str | None) -> AsyncIterator[DatabaseJobStore]:
    if database_url is None:
        lay_database(tmp_path)
    async with open_job_store(tmp_path, database_url) as store:
        yield store
