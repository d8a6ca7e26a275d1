"""Defines one function for each request of the API. Clients provide these functions as methods (verbs)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from assayd_client import documents
from assayd_client.answers import StreamEvent

T = TypeVar("T")
Query = Sequence[tuple[str, str]]

PATIENCE_S = 30.0
"""Maximum number of seconds for a response, in addition to the requested wait."""
BATCH_TIMEOUT_S = 300.0
"""Maximum number of seconds for a request that reads or uploads all lines of a batch."""
MAX_SILENCE_S = 60.0
"""Maximum number of seconds without data in an event stream, including heartbeats."""
READ_S = 60.0
"""Maximum number of seconds for a request that reads many reports."""
MAINTENANCE_TIMEOUT_S = 3600.0
"""Maximum number of seconds for a request that removes many attempts or reads the whole audit log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRequest(Generic[T]):
    """An API request. `reads` returns the type of the document in the response."""

    method: str
    path: str
    reads: Callable[[], type[T]] | None = None
    query: Query = ()
    document: Mapping[str, object] | None = None
    content: Iterable[bytes] | AsyncIterable[bytes] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    wait_s: float = 0.0

    @property
    def timeout_s(self) -> float:
        """Return the seconds to wait for the response: `wait_s` plus a fixed allowance."""
        return self.wait_s + PATIENCE_S

    @property
    def target(self) -> str:
        """Return the path and the query for the request line."""
        query = urlencode(list(self.query))
        return f"{self.path}?{query}" if query else self.path

    def body(self) -> Any:
        """Return the body as bytes, or as an iterator over pieces of bytes."""
        if self.content is not None:
            return self.content
        return b"" if self.document is None else json.dumps(self.document, allow_nan=False).encode()


def submit(
    submission: Mapping[str, object],
    *,
    wait_s: float = 0,
    attempt_id: str | None = None,
    idempotency_key: str | None = None,
) -> ClientRequest[documents.AttemptDocument]:
    """Submit code and return the attempt, after waiting up to `wait_s` (at most 600) for its verdict.

    If the request contains an `attempt_id` (a ULID) or a key, a repeated request returns the same attempt.
    """
    return ClientRequest(
        reads=lambda: documents.AttemptDocument,
        method="PUT" if attempt_id else "POST",
        path=f"/v1/attempts/{attempt_id}" if attempt_id else "/v1/attempts",
        query=to_wait_query(wait_s),
        document=submission,
        headers={"Idempotency-Key": idempotency_key} if idempotency_key else {},
        wait_s=wait_s,
    )


def check(submission: Mapping[str, object]) -> ClientRequest[Any]:
    """Return the static stages' findings for a submission, as JSON, without recording anything."""
    return _post(lambda: dict[str, Any], "attempts", "check", document=submission)


def attempt(attempt_id: str, *, wait_s: float = 0) -> ClientRequest[documents.AttemptDocument]:
    """Return one attempt, after waiting up to `wait_s` (at most 600) for its verdict."""
    return _get(
        lambda: documents.AttemptDocument, "attempts", attempt_id, query=to_wait_query(wait_s), wait_s=wait_s
    )


def attempts(  # noqa: PLR0913  (one parameter per filter of the API)
    *,
    id_prefix: str | None = None,
    state: str | None = None,
    verdict: str | None = None,
    kind: str | None = None,
    batch: str | None = None,
    label: Sequence[str] = (),
    since: str | None = None,
    cause: str | None = None,
    rule: str | None = None,
    uid: int | None = None,
    node: str | None = None,
    distrusted: bool | None = None,
    cursor: str | None = None,
    limit: int | None = None,
) -> ClientRequest[documents.AttemptPageDocument]:
    """Return a page of attempts that match all filters, newest first.

    `label` contains pairs ``key=value``, `since` is an RFC 3339 time, and `uid` selects another user
    (operators only).
    """
    filters: dict[str, str | int | Sequence[str] | None] = {
        "id_prefix": id_prefix,
        "state": state,
        "verdict": verdict,
        "kind": kind,
        "batch": batch,
        "label": label,
        "since": since,
        "cause": cause,
        "rule": rule,
        "uid": uid,
        "node": node,
        "distrusted": None if distrusted is None else str(distrusted).lower(),
        "cursor": cursor,
        "limit": limit,
    }
    return _get(lambda: documents.AttemptPageDocument, "attempts", query=to_filter_query(filters))


def summary(
    *,
    kind: str | None = None,
    batch: str | None = None,
    since: str | None = None,
    bucket_s: int | None = None,
) -> ClientRequest[documents.SummaryDocument]:
    """Count the results of finished attempts in intervals of `bucket_s` seconds. `batch` is an id."""
    filters = {"kind": kind, "batch": batch, "since": since, "bucket_s": bucket_s}
    return _get(lambda: documents.SummaryDocument, "summary", query=to_filter_query(filters))


def cancel(attempt_id: str) -> ClientRequest[documents.AttemptDocument]:
    """Request the cancellation of an attempt. Raises: ClientError ``attempt.finished``, if it has ended."""
    return _post(lambda: documents.AttemptDocument, "attempts", attempt_id, "cancel")


def replay(
    attempt_id: str, *, wait_s: float = 0, idempotency_key: str | None = None
) -> ClientRequest[documents.AttemptDocument]:
    """Submit an attempt's submission again (once per key); the finished replay has a `replay_diff`."""
    return _post(
        lambda: documents.AttemptDocument,
        "attempts",
        attempt_id,
        "replay",
        query=to_wait_query(wait_s),
        wait_s=wait_s,
        headers={"Idempotency-Key": idempotency_key} if idempotency_key else {},
    )


def events(attempt_id: str, *, after: str | None = None) -> ClientRequest[StreamEvent]:
    """Stream an attempt's events until `finished`, beginning after the event with the id `after`."""
    return _build_stream_request(path("attempts", attempt_id, "events"), after)


def all_events(*, after: str | None = None) -> ClientRequest[StreamEvent]:
    """Stream the events of all attempts that this user can see. The stream doesn't end."""
    return _build_stream_request("/v1/events", after)


def artifact(attempt_id: str, name: str) -> ClientRequest[bytes]:
    """Return the content of one file in an attempt's bundle."""
    return ClientRequest(method="GET", path=path("attempts", attempt_id, "artifacts") + f"/{quote(name)}")


def bundle(attempt_id: str) -> ClientRequest[bytes]:
    """Return all files of an attempt's bundle as a tar archive."""
    return ClientRequest(method="GET", path=path("attempts", attempt_id, "bundle"))


def batch(name: str) -> ClientRequest[documents.BatchDocument]:
    """Return a batch with its counts. `name` is the batch's name or id."""
    return _get(lambda: documents.BatchDocument, "batches", name)


def batches(*, cursor: str | None = None, limit: int = 20) -> ClientRequest[documents.BatchPageDocument]:
    """Return a page of batches, newest first."""
    return _get(lambda: documents.BatchPageDocument, "batches", cursor=cursor, limit=limit)


def batch_items(name: str, *, after: int = 0, limit: int = 100) -> ClientRequest[documents.ItemPageDocument]:
    """Return a page of a batch's items whose line number is greater than `after`."""
    return _get(lambda: documents.ItemPageDocument, "batches", name, "items", after=after, limit=limit)


def batch_results(name: str) -> ClientRequest[documents.BatchResultDocument]:
    """Stream all items of a batch with their attempts, in line order."""
    return _get(lambda: documents.BatchResultDocument, "batches", name, "results", wait_s=BATCH_TIMEOUT_S)


def batch_attestation(name: str) -> ClientRequest[bytes]:
    """Return the signed statement about a finished batch. Raises: ClientError ``batch.unfinished``."""
    return ClientRequest(method="GET", path=path("batches", name, "attestation"))


def batch_events(name: str) -> ClientRequest[StreamEvent]:
    """Stream the events of a batch until `finished`. Every event contains all counts of the batch."""
    return _build_stream_request(path("batches", name, "events"), None)


def retry_batch_errors(name: str) -> ClientRequest[documents.BatchDocument]:
    """Rerun the items of a batch that have the verdict `error`. Raises: ClientError ``batch.cancelled``."""
    return _post(lambda: documents.BatchDocument, "batches", name, "retry-errors")


def cancel_batch(name: str) -> ClientRequest[documents.BatchDocument]:
    """Cancel a batch and its running attempts. Raises: ClientError ``batch.finished``, if it has ended."""
    return _post(lambda: documents.BatchDocument, "batches", name, "cancel")


def repair(
    attempt_id: str,
    *,
    provider: str | None = None,
    max_attempts: int | None = None,
    hint: str | None = None,
    code: str | None = None,
    fresh: bool | None = None,
) -> ClientRequest[documents.RepairDocument]:
    """Start a repair of a failed attempt.

    `hint` is sent to the provider, `code` is tried first, and `fresh` starts from the first submission.
    """
    wanted = _drop_none(provider=provider, max_attempts=max_attempts, hint=hint, code=code, fresh=fresh)
    return _post(lambda: documents.RepairDocument, "attempts", attempt_id, "repair", document=wanted)


def answers(*, weeks: int = 8, kind: str | None = None) -> ClientRequest[documents.AnswersDocument]:
    """Count providers' answers and results by kind, provider and week, for at most 53 weeks."""
    return _get(lambda: documents.AnswersDocument, "answers", weeks=weeks, kind=kind)


def repairs_of(attempt_id: str) -> ClientRequest[documents.RepairPageDocument]:
    """Return the repairs that began with an attempt or contain it."""
    return _get(lambda: documents.RepairPageDocument, "attempts", attempt_id, "repairs")


def repairs(*, cursor: str | None = None, limit: int = 20) -> ClientRequest[documents.RepairPageDocument]:
    """Return a page of repairs, newest first."""
    return _get(lambda: documents.RepairPageDocument, "repairs", cursor=cursor, limit=limit)


def repair_state(repair_id: str) -> ClientRequest[documents.RepairDocument]:
    """Return one repair with its fixes."""
    return _get(lambda: documents.RepairDocument, "repairs", repair_id)


def repair_step(repair_id: str, number: int) -> ClientRequest[documents.StepDocument]:
    """Return the prompt of one fix and the provider's answer."""
    return _get(lambda: documents.StepDocument, "repairs", repair_id, "steps", str(number))


def repair_events(repair_id: str) -> ClientRequest[StreamEvent]:
    """Stream the events of a repair until it ends. Each event contains the complete repair."""
    return ClientRequest(method="GET", path=path("repairs", repair_id, "events"))


def cancel_repair(repair_id: str) -> ClientRequest[documents.RepairDocument]:
    """Cancel a repair. Raises: ClientError ``repair.finished``, if the repair has ended."""
    return _post(lambda: documents.RepairDocument, "repairs", repair_id, "cancel")


def accept_fallback(repair_id: str) -> ClientRequest[documents.RepairDocument]:
    """Accept the rules that a repair offers. Raises: ClientError ``repair.no_fallback``."""
    return _post(lambda: documents.RepairDocument, "repairs", repair_id, "accept-fallback")


def generate(  # noqa: PLR0913  (one parameter per field of the API)
    kind: str,
    intent: str,
    *,
    context: Mapping[str, object] | None = None,
    policy: str | None = None,
    provider: str | None = None,
    max_attempts: int | None = None,
    labels: Mapping[str, str] | None = None,
    webhook: str | None = None,
) -> ClientRequest[documents.GenerationDocument]:
    """Start a generation, which writes code from a natural-language request, validates and repairs it.

    `context` contains the values that the kind declares, e.g. `sample_paths`.
    """
    wanted = _drop_none(
        kind=kind,
        intent=intent,
        context=context,
        policy=policy,
        provider=provider,
        max_attempts=max_attempts,
        labels=labels,
        webhook=webhook,
    )
    return _post(lambda: documents.GenerationDocument, "generations", document=wanted)


def generation(generation_id: str) -> ClientRequest[documents.GenerationDocument]:
    """Return one generation with its attempts."""
    return _get(lambda: documents.GenerationDocument, "generations", generation_id)


def generations(
    *, cursor: str | None = None, limit: int = 20
) -> ClientRequest[documents.GenerationPageDocument]:
    """Return a page of generations, newest first."""
    return _get(lambda: documents.GenerationPageDocument, "generations", cursor=cursor, limit=limit)


def generation_events(generation_id: str) -> ClientRequest[StreamEvent]:
    """Stream the events of a generation until it ends."""
    return ClientRequest(method="GET", path=path("generations", generation_id, "events"))


def generation_step(generation_id: str, number: int) -> ClientRequest[documents.StepDocument]:
    """Return the prompt of one attempt of a generation, and the provider's answer."""
    return _get(lambda: documents.StepDocument, "generations", generation_id, "steps", str(number))


def cancel_generation(generation_id: str) -> ClientRequest[documents.GenerationDocument]:
    """Cancel a generation. Raises: ClientError ``generation.finished``, if the generation has ended."""
    return _post(lambda: documents.GenerationDocument, "generations", generation_id, "cancel")


def hint_generation(
    generation_id: str, hint: str, *, attempt_id: str | None = None
) -> ClientRequest[documents.GenerationDocument]:
    """Continue a finished generation with a hint, optionally from an edited attempt.

    Raises: ClientError ``generation.running``, if the generation hasn't finished.
    """
    document = {"hint": hint} | ({} if attempt_id is None else {"attempt_id": attempt_id})
    return _post(
        lambda: documents.GenerationDocument, "generations", generation_id, "hint", document=document
    )


def approve_generation(generation_id: str, name: str) -> ClientRequest[documents.LibraryEntryDocument]:
    """Add the result of a generation to the library. Raises: ClientError ``library.not_validated``."""
    parts = ("generations", generation_id, "approve")
    return _post(lambda: documents.LibraryEntryDocument, *parts, document={"name": name})


def approve(attempt_id: str, name: str) -> ClientRequest[documents.LibraryEntryDocument]:
    """Add a validated attempt to the library. Raises: ClientError ``library.not_validated``."""
    return _post(
        lambda: documents.LibraryEntryDocument, "attempts", attempt_id, "approve", document={"name": name}
    )


def library(
    *, cursor: str | None = None, limit: int = 100, uid: int | None = None
) -> ClientRequest[documents.LibraryPageDocument]:
    """Return a page of the newest versions in a library. `uid` selects another user (operators only)."""
    return _get(lambda: documents.LibraryPageDocument, "library", cursor=cursor, limit=limit, uid=uid)


def library_history(name: str, *, uid: int | None = None) -> ClientRequest[documents.LibraryPageDocument]:
    """Return all versions of a name, newest first. `uid` selects another user (operators only)."""
    return _get(lambda: documents.LibraryPageDocument, "library", name, uid=uid)


def remove_from_library(
    name: str, version: int | None = None, *, uid: int | None = None
) -> ClientRequest[documents.LibraryPageDocument]:
    """Remove and return one or all versions of a name. `uid` selects another user (operators only)."""
    parts = ("library", name) if version is None else ("library", name, str(version))
    return _delete(lambda: documents.LibraryPageDocument, *parts, query=to_filter_query({"uid": uid}))


def library_entry(name: str, version: int) -> ClientRequest[documents.LibraryEntryDocument]:
    """Return one version of a name with its submission."""
    return _get(lambda: documents.LibraryEntryDocument, "library", name, str(version))


def policies() -> ClientRequest[documents.PolicyListDocument]:
    """Return all policy profiles with their effective values."""
    return _get(lambda: documents.PolicyListDocument, "policies")


def policy(name: str) -> ClientRequest[dict[str, Any]]:
    """Return one policy profile with its effective values."""
    return _get(lambda: dict[str, Any], "policies", name)


def check_policy(name: str, content: bytes) -> ClientRequest[documents.PolicyCheckDocument]:
    """Check a profile's TOML text together with the daemon's other profiles (operators only)."""
    sent: dict[str, Any] = {"content": (content,), "headers": {"Content-Type": "text/plain; charset=utf-8"}}
    return _post(lambda: documents.PolicyCheckDocument, "policies", name, "check", **sent)


def try_policy(  # noqa: PLR0913  (one parameter per field of the API)
    policy: str,
    *,
    profile: str | None = None,
    run: bool = False,
    since: str | None = None,
    batch: str | None = None,
    labels: Sequence[str] = (),
    kind: str | None = None,
) -> ClientRequest[StreamEvent]:
    """Check stored submissions against a profile or its text. The last event contains the result."""
    wanted = _drop_none(since=since, batch=batch, labels=list(labels), kind=kind)
    document = _drop_none(policy=policy, profile=profile, run=run, **wanted)
    return ClientRequest(method="POST", path=path("policies", "try"), document=document)


def suggest_policy(
    policy: str | None = None,
    *,
    since: str | None = None,
    batch: str | None = None,
    labels: Sequence[str] = (),
    kind: str | None = None,
) -> ClientRequest[documents.SuggestionDocument]:
    """Return the profile additions that would have allowed code that was refused."""
    document = _drop_none(policy=policy, since=since, batch=batch, labels=list(labels), kind=kind)
    return _post(
        lambda: documents.SuggestionDocument, "policies", "suggest", document=document, wait_s=READ_S
    )


def explain_policy(
    policy: str, *, language: str, code: str, kind: str | None = None
) -> ClientRequest[documents.ExplanationDocument]:
    """Return the findings of a profile's static rules for a piece of ``python``, ``bash`` or ``sql``."""
    document = _drop_none(policy=policy, language=language, code=code, kind=kind)
    return _post(lambda: documents.ExplanationDocument, "policies", "explain", document=document)


def kinds() -> ClientRequest[documents.KindListDocument]:
    """Return all kinds of submissions that the daemon accepts."""
    return _get(lambda: documents.KindListDocument, "kinds")


def kind(name: str) -> ClientRequest[documents.KindDocument]:
    """Return one kind with its payload schema, stages and rules."""
    return _get(lambda: documents.KindDocument, "kinds", name)


def records(route: str, record_id: str | None = None, **filters: str | int | None) -> ClientRequest[Any]:
    """Return a page of a kind's records, or one record, under the kind's route (e.g. ``pipelines``)."""
    parts = (route,) if record_id is None else (route, record_id)
    return ClientRequest(method="GET", path=path(*parts), query=to_filter_query(filters))


def doctor() -> ClientRequest[documents.ExaminationDocument]:
    """Return the results of the daemon's health checks."""
    return _get(lambda: documents.ExaminationDocument, "doctor")


def daemon() -> ClientRequest[documents.DaemonDocument]:
    """Return the daemon's identity and the path of its state directory (operators only)."""
    return _get(lambda: documents.DaemonDocument, "daemon")


def audit(*, since: str | None = None) -> ClientRequest[bytes]:
    """Return the audit log as lines of JSON, oldest first (operators only)."""
    query = (("since", since),) if since is not None else ()
    return ClientRequest(method="GET", path="/v1/audit", query=query, wait_s=MAINTENANCE_TIMEOUT_S)


def collect_garbage(*, dry_run: bool = False) -> ClientRequest[documents.GarbageDocument]:
    """Delete attempts that exceed the age or size limits (operators only)."""
    query = (("dry_run", "true"),) if dry_run else ()
    return _post(lambda: documents.GarbageDocument, "gc", query=query, wait_s=MAINTENANCE_TIMEOUT_S)


def metrics() -> ClientRequest[bytes]:
    """Return the metrics in the Prometheus text format."""
    return ClientRequest(method="GET", path="/metrics")


def send_batch(
    body: Iterable[bytes] | AsyncIterable[bytes],
    *,
    name: str | None = None,
    concurrency: int | None = None,
    dedupe: bool | None = None,
    webhook: str | None = None,
) -> ClientRequest[documents.BatchDocument]:
    """Upload the lines of a batch in chunks of any size. A repeated upload adds only missing lines."""
    chosen = None if dedupe is None else str(dedupe).lower()
    return ClientRequest(
        method="POST",
        path="/v1/batches",
        reads=lambda: documents.BatchDocument,
        query=to_filter_query(
            {"name": name, "concurrency": concurrency, "dedupe": chosen, "webhook": webhook}
        ),
        content=body,
        headers={"Content-Type": "application/x-ndjson"},
        wait_s=BATCH_TIMEOUT_S,
    )


def create_token(
    name: str, *, tenant: str | None = None, scopes: Sequence[str] | None = None, node: str | None = None
) -> ClientRequest[documents.NewTokenDocument]:
    """Create a token of a gateway. Only this response contains the secret."""
    wanted = _drop_none(name=name, tenant=tenant, scopes=scopes, node=node)
    return _post(lambda: documents.NewTokenDocument, "tokens", document=wanted)


def tokens() -> ClientRequest[documents.TokenListDocument]:
    """Return the tokens of a gateway, without their secrets."""
    return _get(lambda: documents.TokenListDocument, "tokens")


def revoke_token(token_id: str) -> ClientRequest[documents.TokenDocument]:
    """Revoke a token of a gateway."""
    return _delete(lambda: documents.TokenDocument, "tokens", token_id)


def nodes() -> ClientRequest[documents.NodeListDocument]:
    """Return the nodes of a cluster."""
    return _get(lambda: documents.NodeListDocument, "nodes")


def drain_node(name: str) -> ClientRequest[documents.NodeDocument]:
    """Drain a node, so that it accepts no further work."""
    return _post(lambda: documents.NodeDocument, "nodes", name, "drain")


def resume_node(name: str) -> ClientRequest[documents.NodeDocument]:
    """Let a drained node accept work again."""
    return _post(lambda: documents.NodeDocument, "nodes", name, "resume")


def distrust_node(name: str, *, since: str | None = None) -> ClientRequest[documents.DistrustDocument]:
    """Drain a node and mark its verdicts as distrusted, or only those of runs since an RFC 3339 time."""
    query = to_filter_query({"since": since})
    return _post(lambda: documents.DistrustDocument, "nodes", name, "distrust", query=query)


def forget_node(name: str) -> ClientRequest[documents.ForgottenNodeDocument]:
    """Forget a node that has stopped, and revoke the node's tokens."""
    return _post(lambda: documents.ForgottenNodeDocument, "nodes", name, "forget")


def _get(
    reads: Callable[[], type[T]],
    *parts: str,
    query: Query = (),
    wait_s: float = 0.0,
    **filters: str | int | None,
) -> ClientRequest[T]:
    query = (*query, *to_filter_query(filters))
    return ClientRequest(method="GET", path=path(*parts), reads=reads, query=query, wait_s=wait_s)


def _post(reads: Callable[[], type[T]], *parts: str, query: Query = (), **more: Any) -> ClientRequest[T]:
    return ClientRequest(method="POST", path=path(*parts), reads=reads, query=query, **more)


def _delete(reads: Callable[[], type[T]], *parts: str, query: Query = ()) -> ClientRequest[T]:
    return ClientRequest(method="DELETE", path=path(*parts), reads=reads, query=query)


def path(*parts: str) -> str:
    """Return the API path ``/v1/PART/…`` with each part percent-encoded."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def to_wait_query(wait_s: float) -> Sequence[tuple[str, str]]:
    """Return the query parameter `wait_s`, or no parameter if `wait_s` is 0."""
    return (("wait_s", f"{wait_s:g}"),) if wait_s else ()


def to_filter_query(filters: Mapping[str, str | int | Sequence[str] | None]) -> list[tuple[str, str]]:
    """Return filters as query parameters, without those whose value is None."""
    query: list[tuple[str, str]] = []
    for name, value in filters.items():
        values = [str(value)] if isinstance(value, str | int) else value or ()
        query += [(name, item) for item in values]
    return query


def _drop_none(**fields: object) -> dict[str, object]:
    """Return the fields whose value isn't None."""
    return {name: value for name, value in fields.items() if value is not None}


def _build_stream_request(where: str, after: str | None) -> ClientRequest[StreamEvent]:
    return ClientRequest(method="GET", path=where, headers={"Last-Event-ID": after} if after else {})
