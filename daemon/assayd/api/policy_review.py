"""Routes that show the effects of a policy change. They neither load nor enforce a policy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

from fastapi import APIRouter, Request
from starlette.responses import Response

from assayd.api import answers
from assayd.api.call import Call, CallDep, json_response, read_model
from assayd.api.events import EventStream
from assayd.attempts.policy_review import Snippet, explain, listed, suggest_additions
from assayd.attempts.policy_trial import PolicyTrial, read_findings
from assayd.documents import format_optional_time
from assayd.documents.policy_review import (
    AdditionDocument,
    ExplainBody,
    ExplainedDocument,
    ExplanationDocument,
    ReviewBody,
    SuggestBody,
    SuggestionDocument,
    TrialChangeDocument,
    TrialDocument,
    TrialEventDocument,
    TrialExampleDocument,
    TryBody,
)
from assayd.errors import RequestError
from assayd.model.attempt import Attempt, State
from assayd.model.finding import Finding
from assayd.model.merge import would_fail
from assayd.model.policy import ExecutionPolicy
from assayd.model.records import AttemptQuery
from assayd.tomlfile import FileError

MAX_REPORTS_READ = 1000
"""The maximum number of reports that a suggestion reads, starting with the newest."""
READ_TIMEOUT_S = 60.0
ATTEMPTS_PER_PROGRESS = 10

router = APIRouter(prefix="/v1/policies", tags=["discovery"], responses=answers.ERRORS)


@router.post(
    "/try",
    responses=answers.TRIAL_RESPONSES,
    response_class=Response,
    openapi_extra=answers.describe_request_body(TryBody),
)
async def try_policy(request: Request, call: CallDep) -> Response:
    """Check the caller's stored submissions under a profile. Cancel the trial if the stream is closed."""
    wanted = await read_model(request, call, TryBody)
    policy = await _resolve_policy(call, wanted)
    if wanted.run and wanted.profile is not None:
        message = "run: a profile must be loaded before code can run under it; remove `run` or `profile`"
        raise RequestError("invalid", message, field="run")
    trial = call.require_trials().run(policy, _build_query(call, wanted), call.caller.peer, run=wanted.run)
    first = await anext(trial)  # before the answer starts, so that a refusal has its status code
    told = _iter_trial_events(first, trial, policy.name, "run" if wanted.run else "static")
    return EventStream(told, heartbeat_s=call.limits.heartbeat_s)


@router.post(
    "/suggest",
    responses=answers.SUGGESTION_RESPONSES,
    openapi_extra=answers.describe_request_body(SuggestBody),
)
async def suggest_policy(request: Request, call: CallDep) -> Response:
    """Return the smallest additions to a profile that would have let the caller's refused code pass."""
    wanted = await read_model(request, call, SuggestBody)
    trials, query = call.require_trials(), _build_query(call, wanted)
    with trials.hold_review_slot(call.caller.peer.uid):
        name = wanted.policy or await _find_last_refused_policy(call, query)
        policy = trials.policies.get(name)
        suggestion = await suggest_additions(
            policy, _iter_refused_attempts(call, query), partial(_iter_failing_findings, call)
        )
    document = SuggestionDocument.model_construct(
        policy=policy.name,
        seen=suggestion.seen,
        helped=suggestion.helped,
        toml=suggestion.toml(),
        additions=[AdditionDocument.from_value(one) for one in listed(suggestion.additions)],
        withheld=[AdditionDocument.from_value(one) for one in listed(suggestion.withheld)],
    )
    return json_response(document)


@router.post(
    "/explain",
    responses=answers.EXPLANATION_RESPONSES,
    openapi_extra=answers.describe_request_body(ExplainBody),
)
async def explain_policy(request: Request, call: CallDep) -> Response:
    """Return the findings of a profile's static rules for a piece of code, without running the code."""
    wanted = await read_model(request, call, ExplainBody)
    trials, uid = call.require_trials(), call.caller.peer.uid
    policy = trials.policies.get(wanted.policy)
    with trials.hold_review_slot(uid):
        snippet = Snippet(language=wanted.language, text=wanted.code)
        kind, found = await explain(snippet, policy, trials.kinds, trials.analyst, kind=wanted.kind, uid=uid)
    document = ExplanationDocument.model_construct(
        policy=policy.name,
        kind=kind,
        allowed=not any(finding.is_error for finding in found),
        findings=[ExplainedDocument.from_value(each) for each in found],
    )
    return json_response(document)


async def _resolve_policy(call: Call, wanted: TryBody) -> ExecutionPolicy:
    """Return the profile to try: a loaded one, or for operators also one passed as text.

    Raises: RequestError, if the profile is unknown or has errors, or the caller isn't an operator.
    """
    policies = call.require_trials().policies
    if wanted.profile is None:
        return policies.get(wanted.policy)
    call.require_operator()
    path = Path(f"{Path(wanted.policy).name}.toml")
    try:
        return await asyncio.to_thread(policies.resolve_file, path, wanted.profile.encode())
    except FileError as problem:
        raise RequestError("invalid", f"profile: {problem}", field="profile") from problem


def _build_query(call: Call, wanted: ReviewBody) -> AttemptQuery:
    labels = tuple((label.partition("=")[0], label.partition("=")[2]) for label in wanted.labels)
    return AttemptQuery(
        since=wanted.since,
        batch_id=wanted.batch,
        labels=labels,
        kind=wanted.kind,
        uid=call.visible_uid,
    )


async def _iter_trial_events(
    first: PolicyTrial, trial: AsyncGenerator[PolicyTrial, None], policy: str, mode: str
) -> AsyncGenerator[TrialEventDocument, None]:
    number, told, last = 0, 0, first
    async with aclosing(trial):
        async for last in trial:
            if last.tried - told >= ATTEMPTS_PER_PROGRESS and not last.complete:
                number, told = number + 1, last.tried
                yield _build_trial_event(number, "progress", last, policy, mode)
    yield _build_trial_event(number + 1, "finished", last, policy, mode)


def _build_trial_event(
    number: int, kind: Literal["progress", "finished"], trial: PolicyTrial, policy: str, mode: str
) -> TrialEventDocument:
    changes = sorted(trial.changes.values(), key=lambda one: (-one.count, one.rule))
    documents = [
        TrialChangeDocument.from_value(
            change,
            direction="would_fail" if change.would_fail else "would_pass",
            examples=[TrialExampleDocument.from_value(example) for example in change.examples],
        )
        for change in (changes if kind == "finished" else ())
    ]
    body = TrialDocument.from_value(trial, policy=policy, mode=mode, changes=documents)
    return TrialEventDocument.model_construct(
        id=str(number), kind=kind, at=str(format_optional_time(datetime.now(UTC))), body=body
    )


async def _iter_refused_attempts(call: Call, query: AttemptQuery) -> AsyncGenerator[Attempt, None]:
    """Yield the newest finished attempts for which rules may have refused or reported something.

    Stop after `MAX_REPORTS_READ` attempts or `READ_S` seconds.
    """
    read, due = 0, asyncio.get_running_loop().time() + READ_TIMEOUT_S
    query = replace(query, state=State.FINISHED, limit=100)
    while read < MAX_REPORTS_READ:
        page = await call.service.list(query)
        for attempt in page.attempts:
            if not attempt.rules and attempt.enforcement != "report":
                continue
            if read == MAX_REPORTS_READ or asyncio.get_running_loop().time() >= due:
                return
            read += 1
            yield attempt
        if page.next_cursor is None:
            return
        query = replace(query, cursor=page.next_cursor)


async def _find_last_refused_policy(call: Call, query: AttemptQuery) -> str:
    """Return the profile of the newest refused attempt.

    Raises: RequestError ``not_found``, if none was refused.
    """
    async with aclosing(_iter_refused_attempts(call, query)) as refused:
        async for attempt in refused:
            return attempt.policy
    raise RequestError("not_found", "none of these attempts was refused; name the profile in `policy`")


async def _iter_failing_findings(call: Call, attempt: Attempt) -> Iterable[Finding]:
    report, _ = await call.service.documents(attempt)
    found = await call.budget.parse_in_turn(report, call.caller.peer.uid, read_findings)
    return [one for one in found if one.is_error or would_fail([one])]
