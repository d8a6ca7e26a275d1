"""Routes for attempts. Each route checks the caller, calls the service once, and responds."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request
from pydantic import AwareDatetime
from starlette.responses import Response

from assayd.api import answers
from assayd.api.call import Call, CallDep, json_response, read_body
from assayd.api.events import EventStream, stream_attempt_events
from assayd.api.middleware import ThrottledStream
from assayd.attempts.policy_trial import run_static_check
from assayd.documents import build_attempt_document, parse_event_id, read_submission
from assayd.documents.attempts import ArtifactListDocument, AttemptPageDocument
from assayd.documents.reports import build_static_check_document
from assayd.errors import RequestError
from assayd.model.attempt import MAX_RUNS, Artifact, Attempt, State
from assayd.model.records import AcceptedSubmission, AttemptQuery
from assayd.model.report import Verdict
from assayd.model.submission import Submission
from assayd.model.text_limits import MAX_WAIT_S, shorten_text

MAX_LABELS = 16
"""The maximum number of label filters in a request. Each is a separate condition of the query."""
MAX_INTENT_CHARS = 200
"""The maximum number of an intent's characters in a list."""
IDEMPOTENCY_KEY_PATTERN = re.compile(r"[\x21-\x7e]{1,128}")
ID_PREFIX_PATTERN = r"^[0-9A-HJKMNP-TV-Z]{1,26}$"
RULE = r"^[a-z0-9_.-]{1,128}$"
ULID = r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$"

router = APIRouter(prefix="/v1/attempts", tags=["attempts"], responses=answers.ERRORS)

Id = Annotated[str, Path(alias="id", description="The attempt's ULID.")]
WaitS = Annotated[
    float,
    Query(ge=0, le=MAX_WAIT_S, allow_inf_nan=False, description="Seconds to wait for the verdict."),
]

IdempotencyKey = Annotated[
    str | None,
    Header(description="The same key with the same body gives the same attempt, while that is kept."),
]

IdPrefix = Annotated[
    str | None, Query(pattern=ID_PREFIX_PATTERN, description="Only attempts whose id begins like this.")
]
StateFilter = Annotated[State | None, Query(description="Only attempts in this state.")]
VerdictFilter = Annotated[Verdict | None, Query(description="Only attempts with this verdict.")]
KindFilter = Annotated[str | None, Query(description="Only attempts of this kind.")]
BatchFilter = Annotated[str | None, Query(description="Only attempts of this batch.")]
LabelFilter = Annotated[
    list[str] | None,
    Query(
        max_length=MAX_LABELS,
        description="Only attempts with this label, as `key=value`; may be repeated.",
    ),
]
SinceFilter = Annotated[
    AwareDatetime | None, Query(description="Only attempts created at or after this time.")
]
CauseFilter = Annotated[
    str | None, Query(max_length=64, description="Only attempts whose run ended with this cause.")
]
RuleFilter = Annotated[
    str | None, Query(pattern=RULE, description="Only attempts with an error of this rule.")
]
UserFilter = Annotated[
    int | None, Query(ge=0, le=2**53 - 1, description="Only attempts of this user; for operators.")
]
NodeFilter = Annotated[
    str | None, Query(max_length=64, description="Only attempts that this node of a cluster judged.")
]
DistrustedFilter = Annotated[
    bool | None, Query(description="Only attempts whose node is distrusted, or only others.")
]


@router.post("", responses=answers.SUBMITTED, openapi_extra=answers.SUBMISSION_BODY)
async def submit_attempt(
    request: Request,
    call: CallDep,
    wait_s: WaitS = 0,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Submit code for validation."""
    _check_idempotency_key(idempotency_key)
    accepted = await _submit(request, call, idempotency_key=idempotency_key)
    return await respond_to_submission(
        call, accepted.attempt, wait_s, pending=200 if accepted.existing else 202
    )


@router.post("/check", responses=answers.CHECKED, openapi_extra=answers.SUBMISSION_BODY)
async def check_submission(request: Request, call: CallDep) -> Response:
    """Run only the static stages of a submission. Record nothing."""
    trials, uid = call.require_trials(), call.caller.peer.uid
    async with trials.turns.hold_user_turn(uid):
        with call.reserve_bytes() as held:
            body = await read_body(request, call, held, max_bytes=call.limits.body_bytes)
            async with trials.turns.hold_size_turn(uid, len(body)):
                async with call.budget.reading(len(body), uid):
                    submission = await read_submission_body(body, call)
                stages = await run_static_check(submission, trials, uid=uid)
    request.state.changes_nothing = True
    return json_response(build_static_check_document(submission, stages))


@router.put("/{id}", responses=answers.SUBMITTED, openapi_extra=answers.SUBMISSION_BODY)
async def put_attempt(
    request: Request,
    call: CallDep,
    attempt_id: Annotated[str, Path(alias="id", pattern=ULID, description="A ULID of the caller's choice.")],
    wait_s: WaitS = 0,
    max_runs: Annotated[
        int | None,
        Query(ge=1, le=MAX_RUNS, description="Run it at most so often, even if the daemon allows more."),
    ] = None,
) -> Response:
    """Submit code under an id chosen by the caller. Submitting it again returns the same attempt."""
    from_gateway = max_runs is not None and call.access.can_be_node_worker(call.caller)
    accepted = await _submit(
        request, call, attempt_id=attempt_id, max_runs=max_runs, from_gateway=from_gateway
    )
    return await respond_to_submission(call, accepted.attempt, wait_s, pending=202)


@router.get("", responses=answers.ATTEMPT_PAGE)
async def list_attempts(  # noqa: PLR0913  (one parameter per filter)
    call: CallDep,
    *,
    id_prefix: IdPrefix = None,
    state: StateFilter = None,
    verdict: VerdictFilter = None,
    kind: KindFilter = None,
    batch: BatchFilter = None,
    label: LabelFilter = None,
    since: SinceFilter = None,
    cause: CauseFilter = None,
    rule: RuleFilter = None,
    uid: UserFilter = None,
    node: NodeFilter = None,
    distrusted: DistrustedFilter = None,
    cursor: Annotated[str | None, Query(max_length=256, description="`next_cursor` of a page.")] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="Maximum number of attempts on a page.")] = 50,
) -> Response:
    """List attempts without reports, the newest first."""
    query = AttemptQuery(
        id_prefix=id_prefix,
        state=state,
        verdict=verdict,
        kind=kind,
        batch_id=batch,
        labels=tuple(_parse_label(text) for text in label or ()),
        since=since,
        cause=cause,
        rule=rule,
        uid=call.resolve_listed_uid(uid),
        node=node,
        distrusted=distrusted,
        cursor=cursor,
        limit=limit,
    )
    page = await call.service.list(query)
    attempts = [build_attempt_document(_shorten_intent(attempt)) for attempt in page.attempts]
    return json_response(AttemptPageDocument.model_construct(attempts=attempts, next_cursor=page.next_cursor))


@router.get("/{id}", responses=answers.ATTEMPT)
async def get_attempt(call: CallDep, attempt_id: Id, wait_s: WaitS = 0) -> Response:
    """Return one attempt. It includes the report once the attempt is finished."""
    attempt = await _wait_for_verdict(call, await call.attempt(attempt_id), wait_s)
    return await call.build_attempt_response(attempt)


@router.post("/{id}/cancel", status_code=202, responses=answers.CANCELLED)
async def cancel_attempt(call: CallDep, attempt_id: Id) -> Response:
    """Cancel an attempt. Its verdict becomes `cancelled` unless it reaches another verdict first."""
    attempt = await call.attempt(attempt_id)
    if attempt.state is State.FINISHED:
        raise RequestError("attempt.finished", "the attempt is finished")
    await call.service.cancel(attempt.id)
    return await call.build_attempt_response(await call.attempt(attempt_id), status=202)


@router.post("/{id}/replay", status_code=202, responses=answers.REPLAYED_RESPONSES)
async def replay_attempt(
    call: CallDep, attempt_id: Id, wait_s: WaitS = 0, idempotency_key: IdempotencyKey = None
) -> Response:
    """Submit the same code again. `replay_diff` of the new attempt contains the differences."""
    _check_idempotency_key(idempotency_key)
    replay = await call.service.replay(
        await call.attempt(attempt_id), peer=call.caller.peer, idempotency_key=idempotency_key
    )
    return await respond_to_submission(call, replay, wait_s, pending=202)


@router.get("/{id}/events", responses=answers.EVENTS_RESPONSES, response_class=Response)
async def follow_attempt(
    call: CallDep,
    attempt_id: Id,
    last_event_id: Annotated[str | None, Header(description="Continue after the event with this id.")] = None,
) -> Response:
    """Stream an attempt as server-sent events until the event `finished`."""
    if last_event_id is not None:
        parse_event_id(last_event_id)
    attempt = await call.attempt(attempt_id)
    events = call.service.events(attempt.id, after=last_event_id)
    return EventStream(stream_attempt_events(events), heartbeat_s=call.limits.heartbeat_s)


@router.get("/{id}/artifacts", responses=answers.ARTIFACT_LIST_RESPONSES)
async def list_artifacts(call: CallDep, attempt_id: Id) -> Response:
    """List the files of an attempt's bundle."""
    attempt = await call.attempt(attempt_id)
    return json_response(ArtifactListDocument.model_construct(artifacts=list(attempt.artifacts)))


@router.get("/{id}/artifacts/{name:path}", responses=answers.ARTIFACT, response_class=Response)
async def get_artifact(
    call: CallDep,
    attempt_id: Id,
    name: Annotated[str, Path(description="Name of the file, as in the list of artifacts.")],
) -> Response:
    """Return one file of an attempt's bundle."""
    attempt = await call.attempt(attempt_id)
    artifact = _find_artifact(attempt, name)
    pieces = call.service.artifact(attempt, artifact.name)
    first = await anext(pieces, b"")  # report missing files before the first byte of the answer
    headers = {
        "Content-Length": str(artifact.bytes),
        "ETag": f'"{artifact.sha256}"',
        "Content-Disposition": "attachment",  # what a guest wrote is never rendered
        "X-Content-Type-Options": "nosniff",
    }
    return ThrottledStream(_prepend_chunk(first, pieces), headers=headers, media_type=artifact.media_type)


@router.get("/{id}/bundle", responses=answers.BUNDLE, response_class=Response)
async def get_bundle(call: CallDep, attempt_id: Id) -> Response:
    """Return all files of an attempt as a tar archive."""
    attempt = await call.attempt(attempt_id)
    if attempt.bundle is None:
        raise RequestError("not_found", "the attempt has no bundle yet")
    headers = {"Content-Disposition": f'attachment; filename="{attempt.id}.tar"'}
    return ThrottledStream(call.service.bundle(attempt), headers=headers, media_type="application/x-tar")


def _check_idempotency_key(key: str | None) -> None:
    if key is not None and not IDEMPOTENCY_KEY_PATTERN.fullmatch(key):
        message = "Idempotency-Key has 1 to 128 visible ASCII characters"
        raise RequestError("invalid", message, field="Idempotency-Key")


async def _prepend_chunk(first: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in pieces:
        yield piece


async def _submit(
    request: Request,
    call: Call,
    *,
    attempt_id: str | None = None,
    idempotency_key: str | None = None,
    max_runs: int | None = None,
    from_gateway: bool = False,
) -> AcceptedSubmission:
    """Read and accept a submission. If it is large, hold the user's turn until it is recorded."""
    async with AsyncExitStack() as turn:
        with call.reserve_bytes() as held:
            body = await read_body(request, call, held, max_bytes=call.limits.body_bytes)
            await turn.enter_async_context(call.budget.reading(len(body), call.caller.peer.uid))
            submission = await read_submission_body(body, call)
            del body  # from here on, the queue counts its bytes
        accepted = await call.service.submit(
            submission,
            peer=call.caller.peer,
            attempt_id=attempt_id,
            idempotency_key=idempotency_key,
            max_runs=max_runs,
            from_gateway=from_gateway,
        )
    request.state.changes_nothing = accepted.existing
    return accepted


async def read_submission_body(body: bytes, call: Call) -> Submission:
    """Parse a submission, in a thread if it is large.

    Raises: RequestError, if it is invalid or the caller can't see its parent.
    """
    read = partial(read_submission, kinds=call.service.kinds, caps=call.limits.payload)
    submission = await call.budget.parse(body, call.caller.peer.uid, read)
    if submission.parent_id is not None:
        parent = await call.service.get(submission.parent_id)
        if parent is None or not call.sees(parent):
            raise RequestError("invalid", "no such attempt", field="parent_id")
    return submission


async def respond_to_submission(call: Call, attempt: Attempt, wait_s: float, *, pending: int) -> Response:
    """Wait up to `wait_s` seconds for an attempt's verdict, and return the response with the attempt.

    `pending` is the HTTP status of a response without a verdict.
    """
    attempt = await _wait_for_verdict(call, attempt, wait_s)
    status = 200 if attempt.state is State.FINISHED else pending
    location = {"Location": f"/v1/attempts/{attempt.id}"}
    return await call.build_attempt_response(attempt, status=status, headers=location)


async def _wait_for_verdict(call: Call, attempt: Attempt, wait_s: float) -> Attempt:
    if attempt.state is State.FINISHED or wait_s <= 0:
        return attempt
    return await call.service.wait(attempt.id, wait_s)


def _parse_label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise RequestError("invalid", "a label filter must be key=value", field="label")
    return key, value


def _shorten_intent(attempt: Attempt) -> Attempt:
    """Return an attempt with its intent shortened for a list, or unchanged if it is short."""
    intent = attempt.intent
    if intent is None or len(intent) <= MAX_INTENT_CHARS:
        return attempt
    return replace(attempt, intent=shorten_text(intent, MAX_INTENT_CHARS))


def _find_artifact(attempt: Attempt, name: str) -> Artifact:
    for artifact in attempt.artifacts:
        if artifact.name == name:
            return artifact
    raise RequestError("not_found", f"the attempt has no artifact {name[:200]!r}")
