"""What answers look like, for the reference at `/openapi.json` alone: nothing is validated with these.

The tests hold them against the documents that `wire` writes.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from assayd.model.attempt import State
from assayd.model.finding import Layer, Severity
from assayd.model.report import CaseStatus, StageStatus, Verdict
from assayd.model.run import Cause, Via


class Described(BaseModel):
    """A document of which every field is known."""

    model_config = ConfigDict(extra="forbid")


class ErrorDetail(Described):
    """Why a request was refused."""

    code: str = Field(description="Stable name of the reason.")
    message: str = Field(description="One sentence for a person.")
    field: str | None = Field(description="The field or parameter at fault.")
    retryable: bool = Field(description="Whether the same request may succeed later.")


class Error(Described):
    """Every answer that is not a success."""

    error: ErrorDetail = Field(description="Why.")


class Peer(Described):
    """Who sent a submission, as the kernel says."""

    uid: int = Field(description="User id.")
    gid: int = Field(description="Primary group id.")
    pid: int = Field(description="Process id when the connection was opened.")


class Timings(Described):
    """Where the time went, in milliseconds; null for what did not happen."""

    queued: float | None = Field(description="From accepted to started.")
    static: float | None = Field(description="Static stages.")
    lease: float | None = Field(description="Waiting for a container.")
    run: float | None = Field(description="Units in the container.")
    report: float | None = Field(description="Judging and writing the bundle.")
    total: float | None = Field(description="From accepted to the verdict.")


class Finding(Described):
    """One thing found, at one place."""

    rule: str = Field(description="Id of the rule, as the kind lists it.")
    category: str = Field(description="Group of rules.")
    severity: Severity = Field(description="Errors fail the submission.")
    message: str = Field(description="What is wrong.")
    file: str | None = Field(description="Which submitted file; null where there is but one text.")
    line: int | None = Field(description="First line, from 1, in the text as it was checked.")
    column: int | None = Field(description="Column, from 1.")
    end_line: int | None = Field(description="Last line.")
    snippet: str | None = Field(description="The source line or lines.")
    suggestion: str | None = Field(description="What to do about it.")
    layer: Layer = Field(description="Found by reading or by running.")


class Edit(Described):
    """A replacement of whole lines that is certain to be right."""

    start_line: int = Field(description="First line to replace, from 1.")
    end_line: int = Field(description="Last line to replace; one less than the first inserts.")
    replacement: str = Field(description="The new lines.")


class FixHint(Described):
    """What a person or a model should change."""

    category: str = Field(description="Group of rules.")
    message: str = Field(description="What is wrong.")
    context: str | None = Field(description="Where: source, or what was run.")
    suggestion: str = Field(description="What to do.")
    file: str | None = Field(description="Which submitted file; null where there is but one text.")
    line: int | None = Field(description="Line, from 1.")
    rule: str = Field(description="Id of the rule.")
    edit: Edit | None = Field(description="The change itself, where it is certain.")


class Stage(Described):
    """One stage of a validation."""

    name: str = Field(description="Name of the stage.")
    status: StageStatus = Field(description="How it ended.")
    duration_ms: float = Field(description="How long it took.")
    findings: list[Finding] = Field(description="What it found.")


class StaticResult(Described):
    """One static check that ran."""

    check: str = Field(description="Name of the check.")
    passed: bool = Field(description="Whether it found no error.")
    details: str = Field(description="What it found, in short.")


class Case(Described):
    """One thing that was run: a sample path, a step, a test, a node."""

    name: str = Field(description="What was run.")
    status: CaseStatus = Field(description="How it ended.")
    cause: Cause | None = Field(description="Why it ended; null when it never started.")
    result: Any = Field(description="The value it gave, as JSON.")
    error_type: str | None = Field(description="Type of the exception.")
    message: str | None = Field(description="What went wrong.")
    traceback: str | None = Field(description="Frames of the submitted code only.")
    file: str | None = Field(description="Which submitted file; null where there is but one text.")
    line: int | None = Field(description="Line of the submitted code.")
    stdout: str = Field(description="Standard output, head and tail.")
    stderr: str = Field(description="Standard error, head and tail.")
    duration_ms: float = Field(description="How long it took.")
    exit_code: int | None = Field(description="Exit code of its process.")


class RuntimeResults(Described):
    """All cases, counted."""

    total: int = Field(description="How many cases there are.")
    passed: int = Field(description="How many did as they should.")
    failed: int = Field(description="How many did something wrong.")
    errored: int = Field(description="How many could not be brought to an end.")
    skipped: int = Field(description="How many never started.")
    cases: list[Case] = Field(description="The cases, in order.")


class Clamp(Described):
    """A value that a profile asked for and did not get."""

    field: str = Field(description="The profile's field.")
    requested: float = Field(description="What it asked for.")
    effective: float = Field(description="What it got.")


class ImportViolation(Described):
    """One import that the policy does not allow."""

    module: str | None = Field(description="Dotted name; null when it is computed.")
    location: Layer = Field(description="Found by reading or by running.")
    file: str | None = Field(description="Submitted file of the import.")
    line: int | None = Field(description="Line of the import.")
    rule: str = Field(description="Id of the rule.")


class Report(Described):
    """Static and runtime results of one attempt, merged."""

    schema_version: Literal[1] = Field(description="Version of this form.")
    attempt_id: str = Field(description="The attempt that this reports on.")
    kind: str = Field(description="Which validator made it.")
    status: Literal["VALIDATED", "FAILED", "ERROR", "CANCELLED"] = Field(description="The verdict.")
    stage_reached: str = Field(description="The first stage that failed, else `complete`.")
    stages: list[Stage] = Field(description="All stages, in order.")
    static_results: list[StaticResult] = Field(description="The static checks that ran.")
    runtime_results: RuntimeResults | None = Field(description="The cases; null when nothing was run.")
    findings: list[Finding] = Field(description="All findings, in stage order.")
    import_violations: list[ImportViolation] = Field(description="Imports not allowed, read or seen.")
    fix_hints: list[FixHint] = Field(description="What to change.")
    retry_context: str | None = Field(description="What to tell a model that tries again.")
    confidence: float | None = Field(description="How sure the validator is, 0 to 1, where it can say.")
    feedback: Any = Field(description="What the kind adds for whoever generates code.")
    effective_limits: dict[str, Any] = Field(description="The limits that were enforced.")
    clamped: list[Clamp] = Field(description="What the profile asked for and did not get.")
    input_digest: str = Field(description="SHA-256 of kind and payload.")
    policy_digest: str = Field(description="SHA-256 of the effective policy.")
    image_digest: str | None = Field(description="Digest of the image; null when nothing was run.")
    validated_at: str | None = Field(description="When the verdict was reached.")


class Import(Described):
    """One import that submitted code made."""

    module: str = Field(description="Dotted name.")
    file: str | None = Field(description="Submitted file of the import.")
    line: int | None = Field(description="Line of the import.")
    allowed: bool = Field(description="Whether the policy allows it.")


class NetworkViolation(Described):
    """One connection that the policy does not allow."""

    host: str = Field(description="Host, address, or what was tried.")
    port: int | None = Field(description="Port, where there is one.")
    blocked: bool = Field(description="Whether it was prevented.")
    reason: str = Field(description="Why it is not allowed.")
    rule: str = Field(description="Id of the rule that decided.")


class NetworkAttempt(Described):
    """One host that submitted code asked the relay for, allowed or not."""

    unit: int = Field(description="Which unit asked, counted from 0.")
    host: str = Field(description="The host, as it was asked for; empty when that could not be read.")
    port: int | None = Field(description="The port.")
    via: Via = Field(description="By CONNECT for TLS, or in plain HTTP.")
    method: str = Field(description="The request's method.")
    allowed: bool = Field(description="Whether the profile allows it.")
    rule: str = Field(description="Id of the rule that decided.")
    trouble: str | None = Field(description="What went wrong with what was allowed.")
    address: str | None = Field(description="The address that was connected to.")
    bytes_up: int = Field(description="Bytes passed on to the host.")
    bytes_down: int = Field(description="Bytes received from the host.")
    duration_ms: float = Field(description="From the request to its end.")


class Container(Described):
    """The container of a run; it is used once."""

    id: str = Field(description="The engine's id.")
    image: str = Field(description="Name of the image.")
    image_digest: str = Field(description="Digest of the image.")
    engine: str = Field(description="Engine and version.")
    runtime: str = Field(description="Runtime below the engine.")
    python: str | None = Field(description="Version of the image's Python.")
    warm: bool = Field(description="Whether it was waiting already.")


class Execution(Described):
    """What one container did, summed over its units."""

    cause: Cause = Field(description="How it ended.")
    cause_evidence: dict[str, Any] = Field(description="What decided the cause.")
    success: bool = Field(description="Whether every unit completed.")
    exit_code: int | None = Field(description="Of the unit that decided.")
    signal: str | None = Field(description="Signal that ended that unit.")
    stdout: str = Field(description="Standard output of all units, head and tail.")
    stderr: str = Field(description="Standard error of all units, head and tail.")
    stdout_bytes: int = Field(description="Exact size of the standard output.")
    stderr_bytes: int = Field(description="Exact size of the standard error.")
    stdout_truncated: bool = Field(description="Whether some of it was dropped.")
    stderr_truncated: bool = Field(description="Whether some of it was dropped.")
    execution_time_ms: float = Field(description="Wall-clock time of the run.")
    cpu_ms: float = Field(description="Processor time of all units.")
    peak_memory_bytes: int = Field(description="Highest memory use of the container.")
    resource_usage: dict[str, Any] = Field(description="Limits, network mode and counters.")
    imports: list[Import] = Field(description="Imports of submitted code, each once.")
    import_violations: list[ImportViolation] = Field(description="Imports that are not allowed.")
    network_violations: list[NetworkViolation] = Field(description="Connections that are not allowed.")
    network_attempts: list[NetworkAttempt] = Field(description="Hosts that the relay was asked for.")
    container: Container = Field(description="The container.")


class Artifact(Described):
    """One file of a bundle."""

    name: str = Field(description="Name within the bundle.")
    bytes: int = Field(description="Size.")
    sha256: str = Field(description="Digest of the content.")
    media_type: str = Field(description="What it is.")
    truncated: bool = Field(description="Whether its content was cut.")


class Failure(Described):
    """Our own trouble, not the code's."""

    code: str = Field(description="Stable name of the trouble.")
    message: str = Field(description="One sentence for a person.")


class Change(Described):
    """One field that differs between an attempt and its replay."""

    field: str = Field(description="Dotted path, e.g. `report.findings.0.line`.")
    before: Any = Field(description="The value of the attempt; null when it has none.")
    after: Any = Field(description="The value of the replay.")


class VerdictChange(Described):
    """The verdicts of an attempt and of its replay."""

    before: Verdict | None = Field(description="The attempt's.")
    after: Verdict | None = Field(description="The replay's.")


class ReplayDiff(Described):
    """How a replay differs from the attempt that it repeats; volatile fields are passed over."""

    of: str = Field(description="The attempt that was repeated.")
    same: bool = Field(description="Whether nothing differs.")
    verdict: VerdictChange = Field(description="Both verdicts.")
    differences: list[Change] = Field(description="What differs; at most 100.")
    more: int = Field(description="How many more differences there are.")


class Attempt(Described):
    """One submission on its way from accepted to a verdict."""

    id: str = Field(description="ULID.")
    kind: str = Field(description="Which validator.")
    policy: str = Field(description="Profile name.")
    state: State = Field(description="Where it is.")
    verdict: Verdict | None = Field(description="What it came to; null until finished.")
    created_at: str = Field(description="When it was accepted.")
    started_at: str | None = Field(description="When it left the queue.")
    finished_at: str | None = Field(description="When it got its verdict.")
    peer: Peer = Field(description="Who sent it.")
    batch_id: str | None = Field(description="The batch that it belongs to.")
    parent_id: str | None = Field(description="The attempt that it follows.")
    replay_of: str | None = Field(description="The attempt that it repeats.")
    attempt_number: int = Field(description="Its place in a chain of repairs, from 1.")
    run_number: int = Field(description="How many runs it has had; a second one only after our own trouble.")
    labels: dict[str, str] = Field(description="Marks of the sender.")
    input_digest: str = Field(description="SHA-256 of kind and payload.")
    timings_ms: Timings = Field(description="Where the time went.")
    warm: bool | None = Field(description="Whether a warm container served it; null when none did.")
    cause: str | None = Field(description="How its run ended; null when nothing was run.")
    rules: list[str] = Field(description="The rules of its errors, each once; the first 50.")
    report: Report | None = Field(description="The report, once finished; left out of lists.")
    execution: Execution | None = Field(description="What the container did; null when none ran.")
    replay_diff: ReplayDiff | None = Field(
        description="How a replay differs from what it repeats; null for others, and when that is gone."
    )
    bundle: str | None = Field(description="Where its files are, below the artifact root.")
    artifacts: list[Artifact] = Field(description="Its files.")
    error: Failure | None = Field(description="Our own trouble, with verdict `error`.")


class AttemptPage(Described):
    """A page of attempts, newest first."""

    attempts: list[Attempt] = Field(description="The attempts, without reports.")
    next_cursor: str | None = Field(description="Where the next page begins; null on the last.")


class Garbage(Described):
    """What retention removed, or would remove."""

    dry_run: bool = Field(description="Whether nothing was removed.")
    attempts: int = Field(description="Finished attempts, with their bundles.")
    bundles: int = Field(description="Bundles of lost runs, beside the one that counts.")
    disk_bytes: int = Field(description="Room on the disk that the attempts took.")


class ArtifactList(Described):
    """The files of a bundle."""

    artifacts: list[Artifact] = Field(description="The files.")


class Rule(Described):
    """A rule that a validator applies."""

    id: str = Field(description="Name in findings.")
    title: str = Field(description="What it is about.")
    severity: Severity = Field(description="What a finding of it weighs.")
    help: str = Field(description="What is wrong, and what would be right.")


class KindOption(Described):
    """An option of `assay validate`."""

    name: str = Field(description="Its name, as in `--option NAME=VALUE`.")
    help: str = Field(description="What it says.")


class Kind(Described):
    """A kind of submission."""

    kind: str = Field(description="Its name.")
    default_policy: str = Field(description="The profile that it takes unless told otherwise.")
    image: str = Field(description="The image that it runs in.")
    stages: list[str] = Field(description="Its stages, in order.")
    payload_schema: dict[str, Any] = Field(description="JSON Schema of the payload.")
    rules: list[Rule] = Field(description="Its rules.")
    options: list[KindOption] = Field(description="What `assay validate --option` may name.")
    forms: list[str] = Field(description="Further forms of its reports, for `assay show --form`.")
    example: dict[str, Any] | None = Field(
        description="A payload that is validated; null where it shows none."
    )


class KindList(Described):
    """The kinds that can be submitted."""

    kinds: list[Kind] = Field(description="The kinds.")


class PolicyList(Described):
    """The profiles."""

    policies: list[dict[str, Any]] = Field(description="The profiles with effective values.")
