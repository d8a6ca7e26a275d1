"""Prepares the request for an answer, and builds the submission from the answer.

The kind defines the contents of a request and how an answer is converted to a payload. Both are computed in
analysis workers, because they process untrusted text. Other modules decide the order of the steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import structlog

from assayd.analysis.analyst import Analyst, Flow, WorkerDiedError
from assayd.analysis.messages import (
    FailedSubmission,
    GenerationBriefing,
    PatchRequest,
    PatchResult,
    RepairDescription,
)
from assayd.errors import AssaydError
from assayd.findings.retry_context import strip_reminders
from assayd.kind import Kind
from assayd.model.policy import ExecutionPolicy
from assayd.model.prompting import Proposal, SourcePart
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd_chains.attempts import AttemptClient, FinishedSubmission
from assayd_chains.fallback import EarlierAttempt, build_fallback_offer, determine_offer_trigger
from assayd_chains.model import (
    Answer,
    Chain,
    Document,
    GenerationRequest,
    Outcome,
    Repair,
    Strategy,
    format_proposal,
)
from assayd_chains.prompts import (
    Revision,
    build_fix_prompt,
    build_generation_prompt,
    list_earlier_answers,
    list_earlier_drafts,
    truncate_middle,
)
from assayd_chains.provider import FixRequest

log = structlog.get_logger()

MAX_STORED_CHARS = 4000
"""Maximum number of characters of a failure to store with each fix."""
MAX_SENT_FINDINGS = 50
"""Maximum number of a report's findings to send to a provider as data."""
_ANSWER_FIELDS = frozenset({"code", "files", "steps", "text", "manifest"})
"""The fields of a payload that an answer may have supplied."""


class AnswerNotApplicableError(Exception):
    """An internal exception raised if an answer doesn't fit its target, or if there is nothing to replace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRequest:
    """A request for an answer, with the payload that the answer changes in part or in full."""

    request: FixRequest
    payload: dict[str, object]
    flow: Flow
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSubmission:
    """A submission document, and the peer on whose behalf it is submitted."""

    document: Document
    peer: Peer


class AnswerApplier:
    """A service that prepares requests to providers and applies their answers to submissions.

    The code of kinds runs in analysis workers.
    """

    def __init__(
        self,
        *,
        attempts: AttemptClient,
        analyst: Analyst,
        kinds: Mapping[str, Kind],
        policies: Callable[[str], ExecutionPolicy],
        source_bytes: int = 2**20,
        questions: bool = False,
    ) -> None:
        self._attempts = attempts
        self._analyst = analyst
        self._kinds = kinds
        self._policies = policies
        self._source_bytes = source_bytes
        self._questions = questions

    async def target(self, chain: Chain, strategy: Strategy) -> AnswerRequest:
        """Return the request for the next answer.

        Raises: AnswerNotApplicableError, if the submission has no text to fix; RequestError, if an attempt no
        longer exists; WorkerDiedError, if an analysis worker died.
        """
        if chain.words is not None and strategy is Strategy.WRITE:
            return await self._build_generation_request(chain, chain.words)
        return await self._build_fix_request(chain, strategy)

    async def digest(self, subject: FinishedSubmission) -> str:
        """Return the digest of the normal form of a failed submission.

        Raises: AnswerNotApplicableError, if no fix can be applied.
        """
        return (await self._describe_for_repair(subject)).digest

    async def apply_answer(self, kind: str, target: AnswerRequest, proposal: Proposal) -> PatchResult:
        """Return the payload after applying an answer, or the reason why the answer doesn't fit."""
        passage = target.request.passage.name
        return await self._apply_patch(kind, target.payload, passage, proposal, target.flow)

    async def build_submission(self, chain: Chain, answer: Answer) -> PreparedSubmission:
        """Return the submission of a recorded answer.

        Raises: AnswerNotApplicableError, if the answer doesn't fit into the submission.
        """
        if answer.is_draft and chain.words is not None:
            base = (await self._build_generation_briefing(chain, chain.words)).base
            patched = await self._apply_patch(chain.kind, base, "", answer.proposal, _get_queue_key(chain))
            return PreparedSubmission(
                document=_build_generated_submission(chain, chain.words, _raise_if_not_applicable(patched)),
                peer=chain.words.peer,
            )
        before = replace(chain.round, fixes=chain.round.fixes[:-1]).last_attempt_id
        parent = await self._attempts.finished(str(before))
        flow = parent.attempt.flow
        patched = await self._apply_patch(chain.kind, parent.payload, answer.passage, answer.proposal, flow)
        kept = {name: value for name, value in parent.submission.items() if name != "repair"}
        document = {
            **kept,
            "payload": _raise_if_not_applicable(patched).payload,
            "parent_id": parent.attempt.id,
        }
        return PreparedSubmission(document=document, peer=parent.attempt.peer)

    async def build_fallback_offer(self, repair: Repair, outcome: Outcome) -> Document | None:
        """Return the rules to offer instead of code, or None.

        Rules are offered if the repair failed and rules can extract at least one field. An error is only
        logged.
        """
        kind = self._kinds.get(repair.kind)
        if kind is None or outcome in {Outcome.VALIDATED, Outcome.CANCELLED}:
            return None
        try:
            return await self._offer_fallback(kind, repair, outcome)
        except (AssaydError, WorkerDiedError) as problem:
            # An attempt was removed meanwhile, its source is too much to read, or an internal error: the
            # repair has its outcome anyway.
            log.warning("repair.nothing_offered", repair_id=repair.id, problem=str(problem))
            return None

    async def _offer_fallback(self, kind: Kind, repair: Repair, outcome: Outcome) -> Document | None:
        ran = (fix.attempt_id for fix in repair.fixes if fix.verdict is not None)
        ids = [repair.attempt_id, *(attempt_id for attempt_id in ran if attempt_id is not None)]
        subjects = [await self._attempts.finished(attempt_id) for attempt_id in ids]
        tries = [EarlierAttempt(cause=one.attempt.cause, report=one.report) for one in subjects]
        for subject in reversed(subjects):
            taken = await self._analyst.taken(kind, subject.payload, flow=subject.attempt.flow)
            if not taken.texts:
                return None
            if taken.fields:
                break
        trigger = determine_offer_trigger(outcome, tries, taken)
        return None if trigger is None else build_fallback_offer(trigger, tries, taken)

    async def _build_generation_request(self, chain: Chain, words: GenerationRequest) -> AnswerRequest:
        briefed = await self._build_generation_briefing(chain, words)
        prompt = build_generation_prompt(
            briefed.briefing,
            words.intent,
            earlier=list_earlier_drafts(chain.drafts),
            revision=await self._build_revision(chain),
            questions=self._questions,
        )
        request = FixRequest(
            system=prompt.system,
            user=prompt.user,
            passage=_build_empty_passage(self._kinds[chain.kind]),
            kind=chain.kind,
            intent=words.intent,
            questions=self._questions,
        )
        return AnswerRequest(request=request, payload=briefed.base, flow=_get_queue_key(chain))

    async def _build_revision(self, chain: Chain) -> Revision | None:
        """Return the current code, its failure and the hints, or None without a user's hint."""
        if not chain.hints:
            return None
        text, failure, last = "", "", chain.last_attempt_id
        if last is not None and (found := await self._attempts.submission(last)) is not None:
            payload = found.get("payload")
            text = _extract_answer_text(payload if isinstance(payload, dict) else {})
            subject = await self._attempts.finished(last)
            if subject.attempt.verdict is Verdict.FAILED:
                failure = strip_reminders(str(subject.report.get("retry_context") or ""))
        return Revision(text=text, hints=chain.hints, failure=failure, question=chain.question)

    async def _build_fix_request(self, chain: Chain, strategy: Strategy) -> AnswerRequest:
        subject = await self._attempts.finished(str(chain.last_attempt_id))
        context = (await self._describe_for_repair(subject)).context
        intent = subject.submission.get("intent")
        intent = intent if isinstance(intent, str) else None
        passage, repair = context.passage, chain.repair
        fixes = chain.round.fixes
        prompt = build_fix_prompt(
            context,
            strategy,
            hint=None if repair is None else repair.hint,
            intent=intent,
            earlier=list_earlier_answers(fixes, context.failure, name=passage.name, text=passage.text),
        )
        request = FixRequest(
            system=prompt.system,
            user=prompt.user,
            passage=passage,
            edits=context.edits,
            others=context.others,
            kind=chain.kind,
            intent=intent,
            findings=tuple(_iter_findings(subject.report)),
        )
        error = truncate_middle(context.failure, MAX_STORED_CHARS)
        return AnswerRequest(request=request, payload=subject.payload, flow=subject.attempt.flow, error=error)

    async def _describe_for_repair(self, subject: FinishedSubmission) -> RepairDescription:
        failed = FailedSubmission(payload=subject.payload, report=dict(subject.report))
        kind = self._kinds[subject.attempt.kind]
        policy = await self._attempts.policy(subject.submission, peer=subject.attempt.peer)
        described = await self._analyst.describe(kind, failed, policy, flow=subject.attempt.flow)
        if not described.context.passage.name:
            raise AnswerNotApplicableError("the submission has no text to fix")
        return described

    async def _build_generation_briefing(self, chain: Chain, words: GenerationRequest) -> GenerationBriefing:
        kind, policy = self._kinds[chain.kind], self._policies(words.policy)
        return await self._analyst.brief(kind, words.context, policy, flow=_get_queue_key(chain))

    async def _apply_patch(
        self, kind: str, payload: dict[str, object], passage: str, proposal: Proposal, flow: Flow
    ) -> PatchResult:
        size, most = len(format_proposal(proposal).encode()), self._source_bytes
        if size > most:
            return PatchResult(payload={}, digest="", problem=f"it has {size} bytes; the limit is {most}")
        patching = PatchRequest(payload=payload, passage=passage, proposal=proposal)
        return await self._analyst.patch(self._kinds[kind], patching, flow=flow)


def _raise_if_not_applicable(patched: PatchResult) -> PatchResult:
    if patched.problem is not None:
        raise AnswerNotApplicableError(patched.problem)
    return patched


def _build_generated_submission(chain: Chain, words: GenerationRequest, patched: PatchResult) -> Document:
    return {
        "kind": chain.kind,
        "policy": words.policy,
        "payload": patched.payload,
        "labels": dict(words.labels),
        "intent": words.intent,
        "parent_id": chain.round.follows,
    }


def _get_queue_key(chain: Chain) -> Flow:
    return chain.uid, f"generation {chain.id}"


def _iter_findings(report: Document) -> Iterator[Document]:
    found = report.get("findings")
    listed = found[:MAX_SENT_FINDINGS] if isinstance(found, list) else []
    yield from (one for one in listed if isinstance(one, dict))


def _extract_answer_text(payload: Document) -> str:
    """Return the part of a payload that answers supply, as text or, for several parts, as JSON."""
    kept = {name: part for name, part in payload.items() if name in _ANSWER_FIELDS}
    return str(kept["code"]) if set(kept) == {"code"} else json.dumps(kept, indent=1, ensure_ascii=False)


def _build_empty_passage(kind: Kind) -> SourcePart:
    """Return an empty passage for an initial request, in the language of the expected answer."""
    if "code" not in kind.forms:
        return SourcePart(name="", language=kind.name, text="")
    return SourcePart(name="", language=kind.language, text="", beginning=kind.beginning)
