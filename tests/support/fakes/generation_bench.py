"""The parts of a daemon that generations need: attempts in memory, real stores, a scripted provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

from assayd.analysis.analyst import Analyst
from assayd.documents import canonical, plain
from assayd.documents.generations import generation_document
from assayd.errors import RequestError
from assayd.generations.generations import DaemonGenerations
from assayd.generations.loop import GenerationDependencies
from assayd.ids import SystemClock, Ulids
from assayd.kinds import registry as validators
from assayd.metrics import Metrics
from assayd.model.attempt import Attempt, State
from assayd.model.generation import Generation
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd.package_data import share
from assayd.policies import load_policies
from assayd.ports.generations import GenerationRequest, GenerationView
from assayd.ports.llm import FixRequest, Reply
from assayd.ports.repairs import Document, Subject
from assayd.repairs.loop import RepairDependencies
from assayd.repairs.repairs import DaemonRepairs, RepairLimits
from assayd.repairs.requests import RecordedRequests
from assayd.store.access import DatabaseAccess
from assayd.store.generations import DatabaseGenerationStore
from assayd.store.jobs import DatabaseJobStore
from assayd.store.repairs import DatabaseRepairStore

PEER = Peer(uid=7, gid=7, pid=1)
NOW = datetime(2026, 5, 4, tzinfo=UTC)
WORDS = "the quarter folder gives start and end month"
ASKED = GenerationRequest(kind="extractor", intent=WORDS, context={"sample_paths": ["/a/Q1/x.csv"]})
POLICIES = load_policies([share("policies")])


class Attempts:
    """Attempts that are judged as soon as they are submitted: ``good`` in the code is validated."""

    def __init__(self, access: DatabaseAccess) -> None:
        self._jobs = DatabaseJobStore(access)
        self.known: dict[str, Subject] = {}
        self.cancelled: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def submit(self, attempt_id: str, submission: Document, *, parent: Attempt) -> None:
        await self.submit_new(attempt_id, {**submission, "parent_id": parent.id}, peer=parent.peer)

    async def submit_new(self, attempt_id: str, submission: Document, *, peer: Peer) -> None:
        if attempt_id in self.known:
            return
        code = str(cast("Mapping[str, object]", submission["payload"])["code"])
        attempt = Attempt(
            id=attempt_id,
            kind="extractor",
            policy="extractor",
            input_digest="d",
            created_at=NOW,
            peer=peer,
            state=State.FINISHED,
            verdict=Verdict.VALIDATED if "good" in code else Verdict.FAILED,
            cause="exited_nonzero",
            parent_id=cast("str | None", submission.get("parent_id")),
        )
        await self._jobs.accept(replace(attempt, verdict=None), canonical(dict(submission)))
        finding = {"rule": "sandbox.raised", "severity": "error", "message": code}
        report = {"stage_reached": "sandbox", "findings": [finding], "retry_context": f"{code} failed"}
        self.known[attempt_id] = Subject(attempt=attempt, submission=submission, report=report)

    async def policy(self, submission: Document) -> ExecutionPolicy:
        return POLICIES.get("extractor")

    async def finished(self, attempt_id: str) -> Subject:
        await self.gate.wait()
        return self.known[attempt_id]

    async def submission(self, attempt_id: str) -> Document | None:
        return self.known[attempt_id].submission if attempt_id in self.known else None

    async def cancel(self, attempt_id: str) -> None:
        self.cancelled.append(attempt_id)


class ListedHere:
    """Allows one URL."""

    async def check(self, url: str, uid: int) -> None:
        if url != "https://ci.example/":
            raise RequestError("webhook.not_allowed", "not listed", field="webhook")


class Scripted:
    """Answers one after the other: a word of code, a whole reply, a problem; then waits for ever."""

    name = "scripted"

    def __init__(self, answers: Iterable[str | Reply | Exception]) -> None:
        self._answers = iter(answers)
        self.asked: list[FixRequest] = []
        self.waits = asyncio.Event()

    async def fix(self, request: FixRequest, *, timeout_s: float) -> Reply:
        self.asked.append(request)
        answer = next(self._answers, None)
        if answer is None:
            self.waits.set()
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Reply):
            return answer
        code = f"def extract(path: str) -> dict:\n    return {{'{answer}': path}}\n"
        return Reply(code=code, reason=f"now {answer}", text=f'{{"code": "{answer}"}}')


class Bench:
    """The parts of a daemon that generations need, on one database."""

    def __init__(self, analyst: Analyst, access: DatabaseAccess, provider: Scripted) -> None:
        self.provider, self.attempts = provider, Attempts(access)
        self._analyst, self._access = analyst, access
        self.store = DatabaseGenerationStore(access)
        self.new_parts()

    def new_parts(self) -> None:
        """Make what a run of the daemon has, anew."""
        clock, ids, kinds = SystemClock(), Ulids(), validators.load(())
        providers = {"rules": cast("Any", None), "scripted": self.provider}
        repair_store = DatabaseRepairStore(self._access)
        deps = RepairDependencies(
            attempts=self.attempts,
            repairs=repair_store,
            analyst=self._analyst,
            kinds=kinds,
            providers=providers,
            clock=clock,
            ids=ids,
        )
        requests = RecordedRequests(store=repair_store, providers=providers, clock=clock, ids=ids)
        self.repairs = DaemonRepairs(deps, requests, RepairLimits(), Metrics())
        self.generations = DaemonGenerations(
            GenerationDependencies(
                attempts=self.attempts,
                repairs=self.repairs,
                store=self.store,
                analyst=self._analyst,
                kinds=kinds,
                policies=POLICIES.get,
                providers=providers,
                clock=clock,
                ids=ids,
                webhooks=ListedHere(),
            )
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[DaemonGenerations]:
        async with self.repairs.running(), self.generations.running():
            yield self.generations

    async def ended(self, request: GenerationRequest = ASKED) -> GenerationView:
        async with self.running() as generations:
            view = await generations.start(request, PEER)
            return await last(generations, view.generation)


async def last(generations: DaemonGenerations, generation: Generation) -> GenerationView:
    views = [view async for view in generations.follow(generation.id)]
    return views[-1]


def told(view: GenerationView) -> dict[str, Any]:
    document: dict[str, Any] = plain(generation_document(view))
    return document


def outcome_of(view: GenerationView) -> tuple[str | None, list[str | None]]:
    document = told(view)
    return document["outcome"], [one["verdict"] for one in document["attempts"]]
