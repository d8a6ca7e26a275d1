"""The execution record of an attempt, and the comparison of two runs or two submissions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from pydantic import Field

from assayd.documents.base import BaseDocument, serialize_compact, to_milliseconds, to_plain
from assayd.documents.reports import (
    MAX_LISTED_IMPORTS,
    ImportViolationDocument,
    build_limits_document,
    iter_runtime_violations,
)
from assayd.model.attempt import Attempt
from assayd.model.policy import NetworkPolicy
from assayd.model.report import Verdict
from assayd.model.run import AccessProtocol, CapturedOutput, Cause, Limits, PolicyEvent, RunResult, UnitResult


class ImportDocument(BaseDocument):
    """One import that submitted code made or attempted."""

    module: str = Field(description="Dotted name.")
    file: str | None = Field(description="Submitted file of the import.")
    line: int | None = Field(description="Line of the import.")
    allowed: bool = Field(description="Whether the policy allows it.")


class NetworkViolationDocument(BaseDocument):
    """One connection that the policy doesn't allow."""

    host: str = Field(description="Host, address, or the attempted operation.")
    port: int | None = Field(description="Port, if known.")
    blocked: bool = Field(description="Whether it was prevented.")
    reason: str = Field(description="Why it is not allowed.")
    rule: str = Field(description="Id of the rule that decided.")


class NetworkAttemptDocument(BaseDocument):
    """One access that submitted code requested from the relay, allowed or denied."""

    unit: int = Field(description="Index of the requesting unit, from 0.")
    host: str = Field(description="The requested host; empty if unreadable.")
    port: int | None = Field(description="The port.")
    via: AccessProtocol = Field(description="CONNECT (for TLS) or plain HTTP.")
    method: str = Field(description="The request's method.")
    allowed: bool = Field(description="Whether the profile allows it.")
    rule: str = Field(description="Id of the rule that decided.")
    trouble: str | None = Field(description="Error of an allowed access.")
    address: str | None = Field(description="The address that was connected to.")
    bytes_up: int = Field(description="Bytes sent to the host.")
    bytes_down: int = Field(description="Bytes received from the host.")
    duration_ms: float = Field(description="From the request to its end.")


class ContainerDocument(BaseDocument):
    """The container of a run, which is used only once."""

    id: str = Field(description="The engine's id.")
    image: str = Field(description="Name of the image.")
    image_digest: str = Field(description="Digest of the image.")
    engine: str = Field(description="Engine and version.")
    runtime: str = Field(description="Runtime below the engine.")
    python: str | None = Field(description="Version of the image's Python.")
    warm: bool = Field(description="Whether it was started in advance.")


class ExecutionDocument(BaseDocument):
    """The execution record of one container, summed over its units."""

    cause: Cause = Field(description="How it ended.")
    cause_evidence: dict[str, Any] = Field(description="Facts that decided the cause.")
    success: bool = Field(description="Whether every unit completed.")
    exit_code: int | None = Field(description="Exit code of the decisive unit.")
    signal: str | None = Field(description="Signal that ended that unit.")
    stdout: str = Field(description="Standard output of all units, head and tail.")
    stderr: str = Field(description="Standard error of all units, head and tail.")
    stdout_bytes: int = Field(description="Exact size of the standard output.")
    stderr_bytes: int = Field(description="Exact size of the standard error.")
    stdout_truncated: bool = Field(description="Whether some of it was dropped.")
    stderr_truncated: bool = Field(description="Whether some of it was dropped.")
    execution_time_ms: float = Field(description="Elapsed time of the run.")
    cpu_ms: float = Field(description="Processor time of all units.")
    peak_memory_bytes: int | None = Field(description="Peak memory of the container; null if not measured.")
    resource_usage: dict[str, Any] = Field(description="Limits, network mode and counters.")
    imports: list[ImportDocument] = Field(description="Imports of submitted code, each once.")
    import_violations: list[ImportViolationDocument] = Field(description="Forbidden imports.")
    network_violations: list[NetworkViolationDocument] = Field(
        description="Connections that are not allowed."
    )
    network_attempts: list[NetworkAttemptDocument] = Field(
        description="Hosts that code requested from the relay."
    )
    container: ContainerDocument = Field(description="The container.")


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedOutput:
    """The concatenated output of all units. `total_bytes` is exact."""

    text: str
    total_bytes: int
    truncated: bool


def join_output(streams: Sequence[CapturedOutput], *, kept_bytes: int) -> JoinedOutput:
    """Concatenate the output of units. If it exceeds `kept_bytes`, keep only its start and end."""
    whole = "".join(stream.text() for stream in streams).encode()
    cut = CapturedOutput(
        head=whole[: kept_bytes // 2] if len(whole) > kept_bytes else whole,
        tail=whole[-(kept_bytes // 2) :] if len(whole) > kept_bytes else b"",
        total_bytes=len(whole),
    )
    return JoinedOutput(
        text=cut.text(),
        total_bytes=sum(stream.total_bytes for stream in streams),
        truncated=cut.truncated or any(stream.truncated for stream in streams),
    )


def build_execution_document(
    result: RunResult, *, limits: Limits, network: NetworkPolicy
) -> ExecutionDocument:
    """Return the execution record of an attempt."""
    stdout = join_output([unit.stdout for unit in result.units], kept_bytes=limits.output_kept_bytes)
    stderr = join_output([unit.stderr for unit in result.units], kept_bytes=limits.output_kept_bytes)
    exit_code, signal_name = result.exit
    imports = _list_distinct_events(result.units, kind="import")
    return ExecutionDocument.model_construct(
        cause=result.outcome.cause,
        cause_evidence=dict(result.outcome.evidence),
        success=result.outcome.completed,
        exit_code=exit_code,
        signal=signal_name,
        stdout=stdout.text,
        stderr=stderr.text,
        stdout_bytes=stdout.total_bytes,
        stderr_bytes=stderr.total_bytes,
        stdout_truncated=stdout.truncated,
        stderr_truncated=stderr.truncated,
        execution_time_ms=to_milliseconds(result.wall_s),
        cpu_ms=to_milliseconds(sum(unit.usage.cpu_s for unit in result.units)),
        peak_memory_bytes=result.peak_memory_bytes,
        resource_usage={**build_limits_document(limits, network), **_sum_resource_usage(result.units)},
        imports=[ImportDocument.from_value(event, module=event.detail) for event in imports][
            :MAX_LISTED_IMPORTS
        ],
        import_violations=list(iter_runtime_violations(imports))[:MAX_LISTED_IMPORTS],
        network_violations=_list_network_violations(result.units),
        network_attempts=_list_network_attempts(result.units),
        container=ContainerDocument.from_value(result.container),
    )


def _sum_resource_usage(units: Sequence[UnitResult]) -> dict[str, Any]:
    usages = [unit.usage for unit in units]
    return {
        "oom_kills": sum(usage.oom_kills for usage in usages),
        "pids_refused": sum(usage.pids_refused for usage in usages),
        "work_bytes_used": max((usage.work_bytes for usage in usages), default=0),
        "work_files_used": max((usage.work_files for usage in usages), default=0),
        "starved_ms": to_milliseconds(sum(usage.starved_s for usage in usages)),
        "events_dropped": sum(unit.events_dropped for unit in units),
    }


def _list_network_violations(units: Sequence[UnitResult]) -> list[NetworkViolationDocument]:
    return [
        NetworkViolationDocument.model_construct(
            **_describe_address(event.detail),
            # The container has no network device, so connections fail even without the audit hook.
            blocked=True,
            reason=event.reason or "the profile blocks the network",
            rule=event.rule or "network.blocked",
        )
        for event in _list_distinct_events(units, kind="network")
        if not event.allowed
    ][:MAX_LISTED_IMPORTS]


def _list_network_attempts(units: Sequence[UnitResult]) -> list[NetworkAttemptDocument]:
    """Return the relay accesses of all units in order, each with the index of its unit."""
    asked = [(index, event) for index, unit in enumerate(units) for event in unit.network]
    return [
        NetworkAttemptDocument.from_value(event, unit=index, duration_ms=to_milliseconds(event.duration_s))
        for index, event in asked[:MAX_LISTED_IMPORTS]
    ]


def _describe_address(detail: str) -> dict[str, Any]:
    host, colon, port = detail.rpartition(":")
    if not (colon and port.isascii() and port.isdigit() and len(port) <= 5):
        return {"host": detail, "port": None}
    return {"host": host.removeprefix("[").removesuffix("]"), "port": int(port)}


def _list_distinct_events(units: Sequence[UnitResult], *, kind: str) -> list[PolicyEvent]:
    """Return the distinct events of a kind, which repeat because the same code runs for every path."""
    return list(dict.fromkeys(event for unit in units for event in unit.events if event.kind == kind))


# As marked in docs/result-contract.md; a test compares them.
VOLATILE_FIELDS: Mapping[str, frozenset[str]] = {
    "report": frozenset({"attempt_id", "validated_at"}),
    "report.stages": frozenset({"duration_ms"}),
    "report.runtime_results.cases": frozenset({"stdout", "stderr", "duration_ms", "result_text"}),
    "execution": frozenset(
        {
            "cause_evidence",
            "stdout",
            "stderr",
            "stdout_bytes",
            "stderr_bytes",
            "stdout_truncated",
            "stderr_truncated",
            "execution_time_ms",
            "cpu_ms",
            "peak_memory_bytes",
            "network_attempts",
        }
    ),
    "execution.resource_usage": frozenset(
        {"oom_kills", "pids_refused", "work_bytes_used", "work_files_used", "events_dropped", "starved_ms"}
    ),
    "execution.container": frozenset({"id", "warm"}),
}
"""The fields that may differ, by the path of their object (without indexes)."""

# Repetitions: every finding is also in `report.findings`.
_REPEATED_FIELDS: Mapping[str, frozenset[str]] = {"report.stages": frozenset({"findings"})}

MOST_LISTED = 100
MAX_BYTES = 2048
"""The maximum size of a differing value that is shown. A larger one is replaced by a note."""

# The daemon's own documents, parsed without a schema.
Json = Any


class ChangeDocument(BaseDocument):
    """One field that differs between an attempt and its replay."""

    field: str = Field(description="Dotted path, e.g. `report.findings.0.line`.")
    before: Any = Field(description="The value of the attempt; null when it has none.")
    after: Any = Field(description="The value of the replay.")


class VerdictChangeDocument(BaseDocument):
    """The verdict of an attempt, and the verdict of its replay."""

    before: Verdict | None = Field(description="Verdict of the attempt.")
    after: Verdict | None = Field(description="Verdict of the replay.")


class ReplayDiffDocument(BaseDocument):
    """The differences between a replay and its original, without volatile fields."""

    of: str = Field(description="The attempt that was repeated.")
    same: bool = Field(description="Whether nothing differs.")
    verdict: VerdictChangeDocument = Field(description="Both verdicts.")
    differences: list[ChangeDocument] = Field(description="Differences; at most 100.")
    more: int = Field(description="How many more differences there are.")


def replay_diff(first: Attempt, again: Attempt, before: Json, after: Json) -> ReplayDiffDocument:
    """Return the differences between a replay and its original, without volatile fields.

    Up to `MOST_LISTED` differences are listed.

    Args:
        first: the original attempt.
        again: its finished replay.
        before: report and execution record of the original, as an object with a key for each.
        after: the same for the replay.
    """
    whole_before = {**_summarize_attempt(first), **before}
    whole_after = {**_summarize_attempt(again), **after}
    differences = [
        ChangeDocument.model_construct(field=field, before=_abbreviate(one), after=_abbreviate(other))
        for field, one, other in _iter_differences("", "", whole_before, whole_after)
    ]
    return ReplayDiffDocument.model_construct(
        of=first.id,
        same=not differences,
        verdict=VerdictChangeDocument.model_construct(before=first.verdict, after=again.verdict),
        differences=differences[:MOST_LISTED],
        more=max(0, len(differences) - MOST_LISTED),
    )


def _summarize_attempt(attempt: Attempt) -> dict[str, Json]:
    return {
        "verdict": attempt.verdict,
        "cause": attempt.cause,
        "error": to_plain(attempt.error),
    }


def _iter_differences(path: str, place: str, one: Json, other: Json) -> Iterator[tuple[str, Json, Json]]:
    """Yield the differences between two values. `path` includes list indexes, `place` omits them."""
    if isinstance(one, dict) and isinstance(other, dict):
        passed_over = VOLATILE_FIELDS.get(place, frozenset()) | _REPEATED_FIELDS.get(place, frozenset())
        for key in sorted(one.keys() | other.keys()):
            if key not in passed_over:
                dot = "." if path else ""
                inside = f"{path}{dot}{key}", f"{place}{dot}{key}"
                yield from _iter_differences(inside[0], inside[1], one.get(key), other.get(key))
    elif isinstance(one, list) and isinstance(other, list):
        for index in range(max(len(one), len(other))):
            pair = [each[index] if index < len(each) else None for each in (one, other)]
            yield from _iter_differences(f"{path}.{index}", place, pair[0], pair[1])
    elif type(one) is not type(other) or one != other:
        yield path, one, other


def _abbreviate(value: Json) -> Json:
    size = len(serialize_compact(value))
    return value if size <= MAX_BYTES else f"({size} bytes)"


MAX_COMPARED_LINES = 200
"""The maximum number of changed lines between which unchanged lines are searched for. In a longer part, all
lines count as changed.
"""
MAX_CONTEXT_LINES = 3
MAX_CHARS = 64 * 2**10

Texts = Mapping[str, str]


def build_submission_diff(before: object, after: object) -> str:
    """Return a truncated diff of two payloads. The result is empty if all strings are equal."""
    old, new = dict(_iter_strings("payload", before)), dict(_iter_strings("payload", after))
    lines = [
        line for name in sorted({*old, *new}) for line in _diff_string(name, old.get(name), new.get(name))
    ]
    whole = "".join(f"{line}\n" for line in lines)
    return whole if len(whole) <= MAX_CHARS else f"{whole[:MAX_CHARS]}\n… and more\n"


def _iter_strings(name: str, value: object) -> Iterator[tuple[str, str]]:
    match value:
        case str():
            yield name, value
        case dict():
            for key, part in value.items():
                yield from _iter_strings(f"{name}.{key}", part)
        case list():
            for number, part in enumerate(value):
                yield from _iter_strings(f"{name}.{number}", part)
        case _:
            return


def _diff_string(name: str, old: str | None, new: str | None) -> Iterator[str]:
    """Yield the changes of a string as a single hunk, or nothing if it is unchanged."""
    if old == new:
        return
    before, after = (old or "").splitlines(), (new or "").splitlines()
    shorter = min(len(before), len(after))
    head = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    tail = next((n for n in range(shorter - head) if before[-1 - n] != after[-1 - n]), shorter - head)
    start, end = max(0, head - MAX_CONTEXT_LINES), max(0, tail - MAX_CONTEXT_LINES)
    gone, come = before[head : len(before) - tail], after[head : len(after) - tail]
    yield f"--- {name}"
    yield f"+++ {name}"
    old_range = _format_hunk_range(start, len(before) - end)
    new_range = _format_hunk_range(start, len(after) - end)
    yield f"@@ -{old_range} +{new_range} @@"
    yield from (f" {line}" for line in before[start:head])
    yield from _iter_changed_lines(gone, come)
    yield from (f" {line}" for line in before[len(before) - tail : len(before) - end])


def _format_hunk_range(start: int, end: int) -> str:
    return f"{start + (end > start)},{end - start}"


def _iter_changed_lines(gone: Sequence[str], come: Sequence[str]) -> Iterator[str]:
    if max(len(gone), len(come)) > MAX_COMPARED_LINES:
        yield from (f"-{line}" for line in gone)
        yield from (f"+{line}" for line in come)
        return
    for tag, a, b, c, d in SequenceMatcher(None, gone, come, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from (f" {line}" for line in gone[a:b])
        else:
            yield from (f"-{line}" for line in gone[a:b])
            yield from (f"+{line}" for line in come[c:d])
