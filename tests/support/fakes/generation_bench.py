"""The parts of a daemon that chains need: in-memory attempts, a real store, a scripted provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

from assayd.analysis.analyst import Analyst
from assayd.clock import SystemClock, UlidGenerator
from assayd.documents import canonical, to_plain
from assayd.errors import RequestError
from assayd.kinds import registry as validators
from assayd.metrics import Metrics
from assayd.model.attempt import Attempt, State
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from assayd.ports.driving import ALONE
from assayd.store.access import DatabaseAccess
from assayd.store.jobs import DatabaseJobStore
from assayd_chains.attempts import FinishedSubmission
from assayd_chains.chains import ChainLimits, Chains, RepairRequests
from assayd_chains.documents import to_generation_document
from assayd_chains.fitting import AnswerApplier
from assayd_chains.loop import ChainRunner
from assayd_chains.model import Chain, ChainView, Document, GenerationTerms
from assayd_chains.provider import FixRequest, Reply
from assayd_chains.store import DatabaseChainStore

PEER = Peer(uid=7, gid=7, pid=1)
NOW = datetime(2026, 5, 4, tzinfo=UTC)
WORDS = "the quarter folder gives start and end month"
ASKED = GenerationTerms(kind="extractor", intent=WORDS, context={"sample_paths": ["/a/Q1/x.csv"]})
POLICIES = load_policies([get_shared_data_path("policies")])


class Attempts:
    """Attempts that are judged on submission: code with ``good`` is validated."""

    def __init__(self, access: DatabaseAccess) -> None:
        self._jobs = DatabaseJobStore(access)
        self.known: dict[str, FinishedSubmission] = {}
        self.cancelled: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def submit(self, attempt_id: str, submission: Document, *, peer: Peer) -> None:
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
        self.known[attempt_id] = FinishedSubmission(attempt=attempt, submission=submission, report=report)

    async def policy(self, submission: Document, *, peer: Peer) -> ExecutionPolicy:
        return POLICIES.get("extractor")

    async def finished(self, attempt_id: str) -> FinishedSubmission:
        await self.gate.wait()
        return self.known[attempt_id]

    async def submission(self, attempt_id: str) -> Document | None:
        return self.known[attempt_id].submission if attempt_id in self.known else None

    async def cancel(self, attempt_id: str) -> None:
        self.cancelled.append(attempt_id)


class ListedHere:
    """An egress that allows one URL."""

    async def check(self, url: str, uid: int) -> None:
        if url != "https://ci.example/":
            raise RequestError("webhook.not_allowed", "not listed", field="webhook")


class Scripted:
    """A provider that gives its answers (a word of code, a reply, a problem) in order, then waits forever."""

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
    """The parts of a daemon that chains need, with one database."""

    def __init__(
        self, analyst: Analyst, access: DatabaseAccess, provider: Scripted, *, questions: bool = False
    ) -> None:
        self.provider, self.attempts, self._questions = provider, Attempts(access), questions
        self._analyst = analyst
        self.store = DatabaseChainStore(access)
        self.new_parts()

    def new_parts(self, limits: ChainLimits = ChainLimits()) -> None:  # noqa: B008 - frozen
        """Create the parts of a new run of the daemon."""
        providers = {"rules": cast("Any", None), "scripted": self.provider}
        kinds = validators.load_validators(())
        fitter = AnswerApplier(
            attempts=self.attempts,
            analyst=self._analyst,
            kinds=kinds,
            policies=POLICIES.get,
            questions=self._questions,
        )
        self.chains = new_chains(
            attempts=self.attempts,
            store=self.store,
            fitter=fitter,
            kinds=kinds,
            providers=providers,
            limits=limits,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Chains]:
        async with self.chains.running() as chains:
            yield chains

    async def ended(self, terms: GenerationTerms = ASKED) -> Chain:
        async with self.running() as chains:
            return await last(chains, await chains.start_generation(terms, PEER))


def new_chains(
    *,
    attempts: Any,
    store: Any,
    fitter: Any,
    kinds: Mapping[str, Any],
    providers: Mapping[str, Any],
    limits: ChainLimits = ChainLimits(),  # noqa: B008 - frozen
) -> Chains:
    """Return the chains of a daemon that isn't in a cluster."""
    clock, ids = SystemClock(), UlidGenerator()
    loop = ChainRunner(
        attempts=attempts,
        store=store,
        fitter=fitter,
        providers=providers,
        clock=clock,
        ids=ids,
        timeout=limits.timeout,
        driving=ALONE,
    )
    requests = RepairRequests(store=store, providers=providers, clock=clock, ids=ids, limits=limits)
    return Chains(
        loop=loop,
        store=store,
        attempts=attempts,
        requests=requests,
        kinds=kinds,
        policies=POLICIES.get,
        providers=providers,
        webhooks=ListedHere(),
        clock=clock,
        ids=ids,
        driving=ALONE,
        metrics=Metrics(),
        limits=limits,
    )


async def last(chains: Chains, chain: Chain) -> Chain:
    views: list[ChainView] = [view async for view in chains.follow(chain.id)]
    return views[-1].chain


def told(chain: Chain) -> dict[str, Any]:
    document: dict[str, Any] = to_plain(to_generation_document(chain))
    return document


def outcome_of(chain: Chain) -> tuple[str | None, list[str | None]]:
    document = told(chain)
    return document["outcome"], [one["verdict"] for one in document["attempts"]]
