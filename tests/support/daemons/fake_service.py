"""An in-memory daemon: it accepts attempts, finishes them on request, and records what it was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from assayd.documents import canonical
from assayd.errors import RequestError
from assayd.kind import Kind
from assayd.model.attempt import Artifact, Attempt, State
from assayd.model.finding import Rule
from assayd.model.health import DaemonFacts, HealthRow, HealthStatus
from assayd.model.policy import ExecutionPolicy
from assayd.model.records import (
    AcceptedSubmission,
    AttemptCount,
    AttemptEvent,
    AttemptPage,
    AttemptQuery,
    SlowAttempt,
    Summary,
)
from assayd.model.report import Judgement, Verdict
from assayd.model.run import Limits, RunResult, RunSpec
from assayd.model.submission import Peer, Submission
from assayd.policies import describe_policy
from assayd.settings import load_settings
from assayd.tomlfile import FileError, Problem
from assayd.wiring.profiles import load_profiles
from assayd_pipeline.stored import PipelineQuery, StoredPipeline

GOLDEN = Path(__file__).parents[2] / "golden"
START = datetime(2026, 5, 4, 10, 20, 30, tzinfo=UTC)
VERDICTS = {
    "validated": Verdict.VALIDATED,
    "failed_at_run": Verdict.FAILED,
    "refused": Verdict.FAILED,
    "broken": Verdict.ERROR,
}


class Payload(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    code: str = Field(description="The code.")
    sample_paths: tuple[str, ...] = Field((), description="What it is tried on.")
    cases: tuple[dict[str, object], ...] = Field((), description="What it has to give.")


class FakeValidator(Kind[Payload]):
    name = "extractor"
    payload = Payload
    default_policy = "extractor"
    image = "python"
    rules = (Rule(id="import.not_allowed", title="Import that is not allowed"),)
    stages = ()
    runtime_stages = ("sandbox", "quality")
    samples = ()

    def plan(self, payload: Payload, policy: ExecutionPolicy, limits: Limits) -> RunSpec | None:
        raise NotImplementedError

    def judge(self, payload: Payload, policy: ExecutionPolicy, result: RunResult) -> Judgement:
        raise NotImplementedError


class FakePipelines:
    """In-memory pipelines."""

    def __init__(self) -> None:
        self.held: dict[str, StoredPipeline] = {}
        self.queries: list[PipelineQuery] = []

    async def get(self, pipeline_id: str) -> StoredPipeline | None:
        return self.held.get(pipeline_id)

    async def list(self, query: PipelineQuery) -> Sequence[StoredPipeline]:
        self.queries.append(query)
        found = [one for one in self.held.values() if query.uid in {None, one.uid}]
        return found[: query.limit]


class FakeService:
    """`outcome` names the golden document that every attempt ends with; with None, attempts wait."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Reset all state, because one server serves many tests."""
        self.outcome: str | None = "validated"
        self.kinds: Mapping[str, Kind] = {"extractor": FakeValidator()}
        self.attempts: dict[str, Attempt] = {}
        self.submissions: dict[str, Submission] = {}
        self.keys: dict[tuple[int, str], str] = {}
        self.unready = ""
        self.artifacts_root = "/nowhere"
        self.refusal: Exception | None = None
        self.files = {"stdout.log": b"no client\n", "files/0.bin": b"\x00\x01"}
        self.scripted: list[tuple[str, dict[str, object]]] = [
            ("state", {"state": "running"}),
            ("finished", {}),
        ]
        self.scripted_for_all: list[tuple[str, str, dict[str, object]]] = []
        self.profiles: dict[str, Mapping[str, object]] = {}
        self.changed = asyncio.Event()
        self.queries: list[AttemptQuery] = []
        self.stored_pipelines = FakePipelines()
        self.closed_streams = 0
        self.waiting = 0
        self.silent = False
        self.from_gateway = False

    @property
    def records(self) -> Mapping[str, object]:
        return {"pipeline": self.stored_pipelines}

    def ready(self) -> tuple[bool, str]:
        return not self.unready, self.unready

    async def require_ready(self) -> None:
        if self.unready:
            raise RequestError("not_ready", self.unready, retryable=True)

    async def submit(
        self,
        submission: Submission,
        *,
        peer: Peer,
        attempt_id: str | None = None,
        idempotency_key: str | None = None,
        max_runs: int | None = None,
        from_gateway: bool = False,
    ) -> AcceptedSubmission:
        if self.refusal is not None:
            raise self.refusal
        self.from_gateway = from_gateway
        known = attempt_id or self.keys.get((peer.uid, idempotency_key or ""))
        if known in self.attempts:
            if self.attempts[known].peer.uid != peer.uid:
                raise RequestError("not_found", f"attempt {known} doesn't exist")
            if self.submissions[known].document != submission.document:
                raise RequestError("conflict", "another submission has this id")
            return AcceptedSubmission(attempt=self.attempts[known], existing=True)
        number = len(self.attempts)
        attempt = Attempt(
            id=attempt_id or f"01JTC8ZK5V00000000000000{number:02d}",
            kind=submission.kind,
            policy=submission.policy,
            input_digest=submission.input_digest,
            created_at=START + timedelta(seconds=number),
            peer=peer,
            labels=submission.labels,
            parent_id=submission.parent_id,
        )
        self.attempts[attempt.id] = attempt
        self.submissions[attempt.id] = submission
        if idempotency_key:
            self.keys[peer.uid, idempotency_key] = attempt.id
        return AcceptedSubmission(attempt=attempt, existing=False)

    def finish(self, attempt_id: str, verdict: Verdict | None = None) -> None:
        artifacts = tuple(
            Artifact(name=name, bytes=len(content), sha256="12" * 32, media_type="text/plain")
            for name, content in self.files.items()
        )
        self.attempts[attempt_id] = replace(
            self.attempts[attempt_id],
            state=State.FINISHED,
            verdict=verdict or VERDICTS[self.outcome or "validated"],
            finished_at=START + timedelta(minutes=1),
            bundle=f"reports/default/{attempt_id}",
            artifacts=artifacts,
        )
        self.changed.set()

    async def wait(self, attempt_id: str, timeout_s: float) -> Attempt:
        self.waiting += 1
        if self.outcome is not None:
            self.finish(attempt_id)
        try:
            async with asyncio.timeout(timeout_s):
                while self.attempts[attempt_id].state is not State.FINISHED:
                    await self.changed.wait()
        except TimeoutError:
            pass
        return self.attempts[attempt_id]

    async def get(self, attempt_id: str) -> Attempt | None:
        return self.attempts.get(attempt_id)

    async def list(self, query: AttemptQuery) -> AttemptPage:
        self.queries.append(query)
        found = [
            a
            for a in self.attempts.values()
            if query.uid in {None, a.peer.uid} and a.id.startswith(query.id_prefix or "")
        ]
        newest = tuple(sorted(found, key=lambda a: a.created_at, reverse=True))
        begin = int(query.cursor or 0)
        end = begin + query.limit
        return AttemptPage(attempts=newest[begin:end], next_cursor=str(end) if end < len(newest) else None)

    async def summary(self, query: AttemptQuery, bucket_s: int) -> Summary:
        self.queries.append(query)
        count = AttemptCount(at=START, kind="extractor", verdict="failed", cause="timeout", number=3)
        slowest = SlowAttempt(attempt_id="01", kind="extractor", verdict="failed", took_s=1.5)
        return Summary(counts=(count,), rules=(("import.not_allowed", 2),), slowest=(slowest,))

    async def cancel(self, attempt_id: str) -> None:
        self.finish(attempt_id, Verdict.CANCELLED)

    async def documents(self, attempt: Attempt) -> tuple[bytes, bytes]:
        golden = json.loads((GOLDEN / f"{self.outcome or 'validated'}.json").read_text())
        if attempt.verdict is Verdict.CANCELLED:
            return b"null", b"null"
        return canonical(golden["report"]), canonical(golden["execution"])

    async def artifact(self, attempt: Attempt, name: str) -> AsyncIterator[bytes]:
        yield self.files[name]

    def bundle_path(self, attempt: Attempt) -> str | None:
        return None if attempt.bundle is None else f"{self.artifacts_root}/{attempt.bundle}"

    async def bundle(self, attempt: Attempt) -> AsyncIterator[bytes]:
        for content in self.files.values():
            yield content

    async def events(
        self, attempt_id: str, *, after: str | None = None
    ) -> AsyncGenerator[AttemptEvent, None]:
        first = int((after or "1.0").partition(".")[2])
        try:
            for seq, (kind, body) in enumerate(self.scripted, 1):
                if kind == "finished" and self.attempts[attempt_id].state is not State.FINISHED:
                    if self.outcome is None:
                        await self.changed.wait()
                    else:
                        self.finish(attempt_id)
                if seq > first:
                    yield AttemptEvent(
                        attempt_id=attempt_id, run_number=1, seq=seq, kind=kind, at=START, body=body
                    )
            if self.silent:
                await asyncio.Event().wait()
        finally:
            self.closed_streams += 1
            self.changed.set()

    async def all_events(
        self, uid: int | None, *, after: str | None = None
    ) -> AsyncGenerator[tuple[str, AttemptEvent], None]:
        for seq, (attempt_id, kind, body) in enumerate(self.scripted_for_all, 1):
            yield (
                str(seq),
                AttemptEvent(attempt_id=attempt_id, run_number=1, seq=seq, kind=kind, at=START, body=body),
            )

    def policies(self) -> Mapping[str, Mapping[str, object]]:
        resources = {"timeout_s": 60, "unit_timeout_s": 5, "memory_mb": 100, "max_processes": 1}
        extractor = {
            "name": "extractor",
            "description": "For extractors",
            "resources": resources,
            "origins": {},
        }
        return {"extractor": extractor, **self.profiles}

    def check_policy(
        self, name: str, content: bytes
    ) -> tuple[Mapping[str, object] | None, Sequence[Problem]]:
        try:
            return describe_policy(
                load_profiles(load_settings()).resolve_file(Path(f"{name}.toml"), content)
            ), ()
        except FileError as error:
            return None, error.problems

    def metrics(self) -> bytes:
        return b"assayd_attempts_total 1.0\n"

    def facts(self) -> DaemonFacts:
        return DaemonFacts(daemon_id="01D", version="1", state_dir="/var/lib/a", database_in_state=True)

    async def health(self) -> Sequence[HealthRow]:
        return [
            HealthRow(check="engine", status=HealthStatus.OK, detail="docker 20.10"),
            HealthRow(
                check="canary",
                status=HealthStatus.WARN,
                detail="not run yet",
                remedy="wait, or restart the daemon",
            ),
        ]
