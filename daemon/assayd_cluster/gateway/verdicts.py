"""Accepts the results that a node sends for its run: checks them, writes the bundle, and then records them.

The results are untrusted until they have been compared with the records of the attempt's owner, the
submission and the run. This module creates the file names and computes the digests.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from heapq import merge
from itertools import islice
from typing import cast

import structlog
from pydantic import ValidationError

from assayd import __version__
from assayd.attempts.conclusion import ended
from assayd.attempts.events import OUTPUT, EventHub
from assayd.attempts.execution import FinishedAttempt
from assayd.clock import Clock
from assayd.documents import canonical, parse_json
from assayd.documents.attempts import build_finished_body, build_state_body
from assayd.documents.reports import CaseDocument
from assayd.errors import AssaydError, RequestError, StoreError
from assayd.model.attempt import ATTESTATION, Attempt, Bundle, Failure, State, format_timestamp
from assayd.model.merge import add_failure
from assayd.model.records import AttemptEvent
from assayd.model.report import Case, Verdict
from assayd.ports.artifacts import ArtifactStore, BuildAttachments
from assayd.store import artifacts
from assayd.store.jobs import DatabaseJobStore
from assayd.store.tables import from_micros
from assayd_cluster.documents import (
    MAX_ERROR_CHARS,
    MAX_EVENT_SEQ,
    MAX_NODE_VALUES,
    MAX_PIECE_CHARS,
    MOST_NAME,
    BundleFile,
    GapEvent,
    LiveEvent,
    RunVerdict,
)
from assayd_cluster.gateway.execution import RemoteExecution
from assayd_cluster.gateway.runs import HeldRun, RunTable
from assayd_cluster.gateway.signing import RunAttester, SignedFacts, read_facts

log = structlog.get_logger()

MANIFEST = "manifest.json"
LARGE_BYTES = 8 * 2**10
"""The total size of files above which they are decoded in a thread, at about a millisecond per 2 KiB."""
STAMPED_PREFIXES = ("stdout", "stderr", "execution", "validation", "submission", "junit")
"""Prefixes of the files that are named by the time at which the attempt was accepted."""
MAX_RULE_CHARS = 128
"""Maximum number of characters of a rule's name to store."""
CASE_TEXT_FIELDS = frozenset({"name", "error_type", "message", "traceback", "file", "stdout", "stderr"})
MAX_STORED_REFUSALS = 200
"""Maximum number of errors to store for a submission that wasn't run."""
MAX_FIELDS = 64
"""Maximum number of fields of a case's document; an honest node sends fewer."""

JsonObject = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunRecords:
    """The cases of a run, or the errors that prevented the run, for kinds that store such records."""

    cases: Sequence[Case]
    refusals: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CheckedVerdict:
    """The checked verdict of a node: the bundle's files by name, the cases, and the facts to sign."""

    files: dict[str, bytes]
    ran: _RunRecords
    facts: SignedFacts | None


class RunVerdictRecorder:
    """A recorder of the verdicts that nodes send.

    Args:
        runs: the live runs and their uploaded files.
        jobs: records of attempts.
        artifacts: the bundles.
        attachments: returns the additional files of an attempt in a chain.
        clock: provides the time of verdicts.
        hub: events of attempts.
        execution: the attempts of this gateway.
        attester: signs verdicts; None if verdicts aren't signed.
    """

    def __init__(  # noqa: PLR0913  (its parts, by name)
        self,
        *,
        runs: RunTable,
        jobs: DatabaseJobStore,
        artifacts: ArtifactStore,
        attachments: BuildAttachments,
        clock: Clock,
        hub: EventHub,
        execution: RemoteExecution,
        attester: RunAttester | None = None,
    ) -> None:
        self._runs = runs
        self._jobs = jobs
        self._artifacts = artifacts
        self._attachments = attachments
        self._clock = clock
        self._hub = hub
        self._execution = execution
        self._attester = attester

    async def record_verdict(self, held: HeldRun, brought: RunVerdict) -> bool:
        """Record the verdict of a run. Return False if another run's verdict was recorded first.

        Raises: RequestError ``invalid``, if the results are malformed or belong to another attempt;
        ``run.foreign``, if the node no longer holds the run; StoreError, if the bundle or the verdict can't
        be written.
        """
        attempt = held.attempt
        if attempt.state is State.FINISHED:
            return False
        early = any(file.base64 is None for file in brought.files)
        uploaded = await self._runs.get_uploaded_files(held) if early else {}
        signs = self._attester is not None
        if early or sum(len(file.base64 or "") for file in brought.files) > LARGE_BYTES:
            checked = await asyncio.to_thread(_check_verdict, attempt, brought, uploaded, signs=signs)
        else:
            checked = _check_verdict(attempt, brought, uploaded, signs=signs)
        files = checked.files
        attempt = _apply_verdict(attempt, held, brought, self._clock)
        files.update(await self._build_gateway_files(attempt, held.document))
        attempt = await self._write_bundle(attempt, held, brought, checked)
        events = self._merge_events(attempt, held, brought.events)
        if not await self._record_verdict(held, attempt, events, checked.ran):
            return False
        if self._execution.is_pending_here(attempt.id):
            self._publish_remaining_events(events, renumber_events(held, brought.events))
        moment = format_timestamp(attempt.created_at)
        self._execution.end(
            FinishedAttempt(
                attempt=attempt,
                report=files[f"validation_{moment}.json"],
                execution=files[f"execution_{moment}.json"],
            )
        )
        return True

    async def _write_bundle(
        self, attempt: Attempt, held: HeldRun, brought: RunVerdict, checked: _CheckedVerdict
    ) -> Attempt:
        """Write the bundle, signed if there is a key. If signing fails, the verdict becomes an error."""
        files = checked.files
        try:
            if self._attester is not None and checked.facts is not None:
                at = attempt.finished_at or self._clock.now()
                signed = {name: content for name, content in files.items() if name != MANIFEST}
                files[ATTESTATION] = await self._attester.attest(
                    attempt, held.document, checked.facts, signed, at
                )
        except AssaydError as trouble:
            log.error("verdict.not_signed", attempt_id=attempt.id, code=trouble.code, message=trouble.message)
            return add_failure(Failure(code=trouble.code, message=trouble.message), attempt)
        written = await self._artifacts.write(_build_bundle(attempt, held, brought, files))
        return replace(attempt, bundle=written.location, artifacts=written.artifacts)

    async def _record_verdict(
        self, held: HeldRun, attempt: Attempt, events: Sequence[AttemptEvent], ran: _RunRecords
    ) -> bool:
        """Record a verdict whose bundle is already written. Remove the bundle if the verdict is rejected.

        The cached run can be outdated, so the transaction checks that the run still belongs to the node.
        """
        try:
            first = await self._jobs.finish(attempt, events, ran.cases, ran.refusals, held_by=held.node)
        except RequestError:
            await self._remove_bundle(attempt.id, attempt.bundle)
            raise
        if not first:
            await self._remove_bundle(attempt.id, attempt.bundle)
        return first

    async def _build_gateway_files(self, attempt: Attempt, document: bytes) -> Mapping[str, bytes]:
        """Return the gateway's files for the bundle: the accepted submission, and the chain so far."""
        files = {f"submission_{format_timestamp(attempt.created_at)}.json": document}
        if attempt.verdict is None:
            return files
        return {**files, **await self._attachments(attempt, attempt.verdict)}

    def _merge_events(
        self, attempt: Attempt, held: HeldRun, brought: Sequence[LiveEvent]
    ) -> Sequence[AttemptEvent]:
        """Return all durable events of an attempt: the acceptance, the node's events, and the verdict."""
        known = [event for event in self._hub.list_durable_events(attempt.id) if event.seq == 1]
        queued = AttemptEvent(
            attempt_id=attempt.id,
            run_number=0,
            seq=1,
            kind="state",
            at=attempt.created_at,
            body={**build_state_body(State.QUEUED), "request_id": None},
        )
        middle = [event for event in renumber_events(held, brought) if event.kind not in OUTPUT]
        last = max((event.seq for event in brought), default=1) + 1 + (held.number - 1) * MAX_EVENT_SEQ
        at = attempt.finished_at or self._clock.now()
        bodies = (("state", build_state_body(attempt.state)), ("finished", build_finished_body(attempt)))
        ends = [
            AttemptEvent(
                attempt_id=attempt.id, run_number=held.number, seq=last + place, kind=kind, at=at, body=body
            )
            for place, (kind, body) in enumerate(bodies)
        ]
        return [*(known or [queued]), *middle, *ends]

    def _publish_remaining_events(
        self, durable: Sequence[AttemptEvent], told: Sequence[AttemptEvent]
    ) -> None:
        """Publish the remaining events, because a short run's output arrives only with the verdict."""
        hub, attempt_id = self._hub, durable[0].attempt_id
        newest, shown = (
            hub.get_newest_event_number(attempt_id),
            {event.seq for event in hub.list_durable_events(attempt_id)},
        )
        output = (event for event in told if event.kind in OUTPUT and event.seq > newest)
        lasting = (event for event in durable if event.seq not in shown)
        for event in merge(lasting, output, key=lambda event: event.seq):
            hub.deliver(event)

    async def _remove_bundle(self, attempt_id: str, location: str | None) -> None:
        """Remove a bundle that isn't recorded, unless another gateway has recorded the same bundle."""
        try:
            recorded = await self._jobs.get(attempt_id)
            if location is not None and (recorded is None or recorded.bundle != location):
                await self._artifacts.remove(location)
        except StoreError as trouble:
            log.warning("bundle.not_removed", code=trouble.code, bundle=location)


def renumber_events(held: HeldRun, brought: Sequence[LiveEvent]) -> list[AttemptEvent]:
    """Return events, except gaps, with the run and sequence numbers that are valid across all nodes."""
    before = held.number - 1
    return [
        AttemptEvent(
            attempt_id=held.attempt_id,
            run_number=event.run + before,
            seq=event.seq + before * MAX_EVENT_SEQ,
            kind=event.kind,
            at=event.at,
            body=event.body.model_dump(mode="json"),
        )
        for event in brought
        if not isinstance(event, GapEvent)
    ]


def _check_verdict(
    attempt: Attempt, brought: RunVerdict, uploaded: Mapping[str, bytes], *, signs: bool = False
) -> _CheckedVerdict:
    """Verify the files' digests, and return the files by name, the cases, and the facts to sign.

    The facts to sign are read only if `signs` is True.

    Raises: RequestError ``invalid``, if a file is missing, malformed or has another digest.

    The API returns the report and the execution record unchanged, so both are rewritten as one line of JSON.
    """
    theirs, ours = (
        format_timestamp(brought.attempt.created_at.astimezone(UTC)),
        format_timestamp(attempt.created_at),
    )
    # A node signs its own bundle, whose files have other names: a gateway with a key signs this one.
    kept = [file for file in brought.files if file.name != ATTESTATION]
    names = [_replace_timestamp(file.name, theirs, ours) for file in kept]
    if len(set(names)) < len(names):
        raise _build_invalid_error("files: two of them have the same name")
    files = {name: _get_verified_content(file, uploaded) for name, file in zip(names, kept, strict=True)}
    for name in ("execution", "validation"):
        if f"{name}_{ours}.json" not in files:
            raise _build_invalid_error(
                f"files: {name}_{theirs}.json is missing; send all files of the bundle"
            )
    execution, validation = f"execution_{ours}.json", f"validation_{ours}.json"
    report = _check_report(attempt, brought, files[validation])
    files[validation] = canonical(report)
    done = None
    if files[execution] != b"null":
        done = _parse_json_object(files[execution], "execution")
        files[execution] = canonical(done)
    ran = _RunRecords(cases=_read_cases(report), refusals=_read_refusals(report))
    facts = read_facts(report, done, ran.cases) if signs else None
    return _CheckedVerdict(files=files, ran=ran, facts=facts)


def _replace_timestamp(name: str, theirs: str, ours: str) -> str:
    """Return a file name with the node's timestamp replaced by the gateway's timestamp of the attempt.

    Raises: RequestError ``invalid``, if no file of a bundle has such a name.
    """
    kind, _, rest = name.partition("_")
    known = kind in STAMPED_PREFIXES and rest.startswith(theirs + ".") and "/" not in rest
    if known:
        name = f"{kind}_{ours}{rest.removeprefix(theirs)}"
    if (known or name == MANIFEST or name.startswith("files/")) and artifacts.split_relative_path(
        name
    ) is not None:
        return name
    raise _build_invalid_error(f"files: {name[:100]!r} isn't a bundle file")


def _get_verified_content(file: BundleFile, uploaded: Mapping[str, bytes]) -> bytes:
    if file.base64 is None:
        content = uploaded.get(file.sha256)
    else:
        try:
            content = base64.b64decode(file.base64, validate=True)
        except (binascii.Error, ValueError):
            content = None
    if content is None:
        raise _build_invalid_error(f"files: the content of {file.name[:100]!r} wasn't sent")
    if len(content) != file.bytes or hashlib.sha256(content).hexdigest() != file.sha256:
        raise _build_invalid_error(f"files: the content of {file.name[:100]!r} has another size or digest")
    return content


def _check_report(attempt: Attempt, brought: RunVerdict, text: bytes) -> JsonObject:
    """Return the report, after checking that it belongs to this attempt and matches the verdict.

    Raises: RequestError ``invalid``, if it doesn't.
    """
    report = _parse_json_object(text, "report")
    said = {
        "attempt_id": attempt.id,
        "kind": attempt.kind,
        "input_digest": attempt.input_digest,
        "status": brought.attempt.verdict.value.upper(),
    }
    for name, value in said.items():
        if report.get(name) != value:
            raise _build_invalid_error(f"report: {name} must be {value!r} for this attempt")
    return report


def _parse_json_object(text: bytes, what: str) -> JsonObject:
    try:
        found = parse_json(text, most_values=MAX_NODE_VALUES)
    except RequestError as problem:
        raise _build_invalid_error(f"{what}: unreadable: {problem.message}") from problem
    if not isinstance(found, dict):
        raise _build_invalid_error(f"{what}: not a JSON object")
    return cast("JsonObject", found)


def _apply_verdict(attempt: Attempt, held: HeldRun, brought: RunVerdict, clock: Clock) -> Attempt:
    """Return the recorded attempt with the run's verdict applied.

    Raises: RequestError ``invalid``, if the verdict is inconsistent or belongs to another attempt.
    """
    said = brought.attempt
    same = (said.id, said.kind, said.policy, said.input_digest)
    if same != (attempt.id, attempt.kind, attempt.policy, attempt.input_digest):
        raise _build_invalid_error("attempt: id, kind, policy or input_digest belong to another attempt")
    if said.state is not State.FINISHED:
        raise _build_invalid_error("attempt: verdict missing")
    if (said.error is None) == (said.verdict is Verdict.ERROR):
        raise _build_invalid_error(
            "attempt: the verdict `error` must have an error, and other verdicts must not"
        )
    times = {name: took / 1000 for name, took in said.timings_ms if took is not None}
    started_at = from_micros(held.leased_at)
    times["queued"] = max(0.0, (started_at - attempt.created_at).total_seconds())
    failure = None
    if said.error is not None:
        failure = Failure(code=said.error.code, message=_sanitize_text(said.error.message, MAX_ERROR_CHARS))
    judged = replace(
        attempt,
        verdict=said.verdict,
        cause=None if said.cause is None else said.cause.value,  # a string, like the recorded ones
        rules=tuple(_sanitize_text(rule, MAX_RULE_CHARS) for rule in said.rules),
        enforcement=said.enforcement,
        approvable=said.approvable,
        warm=said.warm,
        error=failure,
        run_number=held.number,
        started_at=started_at,
        node=held.node,
    )
    return ended(judged, clock.now(), times)


def _sanitize_text(text: str, most: int) -> str:
    """Return the first `most` characters, with U+FFFD for each NUL, which PostgreSQL rejects."""
    return text[:most].replace("\0", "\ufffd")


def _build_bundle(attempt: Attempt, held: HeldRun, brought: RunVerdict, files: Mapping[str, bytes]) -> Bundle:
    theirs = _parse_json_object(files[MANIFEST], "manifest.json") if MANIFEST in files else {}
    cut = {_strip_timestamp(file.name) for file in brought.files if file.truncated}
    return Bundle(
        attempt_id=attempt.id,
        run_number=held.number,
        created_at=attempt.created_at,
        category=attempt.labels.get("category", attempt.kind),
        platform=attempt.labels.get("platform", "default"),
        files={name: content for name, content in files.items() if name != MANIFEST},
        truncated=frozenset(name for name in files if _strip_timestamp(name) in cut),
        manifest={
            "assayd": __version__,
            "attempt_id": attempt.id,
            "input_digest": attempt.input_digest,
            "image_digest": theirs.get("image_digest"),
            "python": theirs.get("python"),
            "node": held.node,
        },
    )


def _strip_timestamp(name: str) -> str:
    """Return the type of a file: its name without the timestamp."""
    kind = name.partition("_")[0]
    return kind if kind in STAMPED_PREFIXES else name


def _read_refusals(report: JsonObject) -> Sequence[str]:
    """Return the messages of the errors that prevented a run, for kinds that record such errors.

    The result is empty if the submission was run.
    """
    found = report.get("findings")
    if report.get("runtime_results") is not None or not isinstance(found, list):
        return ()
    errors = (each for each in found if isinstance(each, dict) and each.get("severity") == "error")
    return [
        _sanitize_text(str(each.get("message")), MAX_ERROR_CHARS)
        for each in islice(errors, MAX_STORED_REFUSALS)
    ]


def _read_cases(report: JsonObject) -> Sequence[Case]:
    """Return the cases in the payload that was run, for kinds that record cases.

    The result is empty if the report has no cases.

    Raises: RequestError ``invalid``, if a case is malformed.
    """
    results = report.get("runtime_results")
    found = results.get("cases") if isinstance(results, dict) else None
    if not isinstance(found, list):
        return ()
    if not all(isinstance(each, dict) and len(each) <= MAX_FIELDS for each in found):
        raise _build_invalid_error(f"report: cases are objects of at most {MAX_FIELDS} fields")
    try:
        # A node that is one minor version ahead may send more fields.
        known = [{name: each[name] for name in CaseDocument.model_fields if name in each} for each in found]
        documents = [CaseDocument.model_validate(each) for each in known]
    except ValidationError as problem:
        raise _build_invalid_error(f"report: invalid case: {problem.errors()[0]['msg']}") from problem
    return [_build_case(each) for each in documents]


def _build_case(document: CaseDocument) -> Case:
    """Build a case whose texts are truncated to the maximum length that an honest node sends."""
    values = {
        name: getattr(document, name)
        for name in CaseDocument.model_fields
        if name not in {"duration_ms", "preview", "result_text"}
    }
    texts = {
        name: _sanitize_text(value, MOST_NAME if name == "name" else MAX_PIECE_CHARS)
        for name, value in values.items()
        if isinstance(value, str) and name in CASE_TEXT_FIELDS
    }
    return Case(duration_s=document.duration_ms / 1000, **{**values, **texts})


def _build_invalid_error(message: str) -> RequestError:
    return RequestError("invalid", message)
