"""The report: static and runtime results of one attempt, merged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from assayd.model.document import DOCUMENT, about
from assayd.model.finding import Finding, FixHint, fix_hints
from assayd.model.policy import Clamp, Enforcement
from assayd.model.run import Cause, PolicyEvent
from assayd.model.submission import JsonValue


class Verdict(StrEnum):
    """What an attempt came to."""

    VALIDATED = "validated"
    """Every stage that counts has passed."""
    FAILED = "failed"
    """The submitted code is at fault."""
    ERROR = "error"
    """We are at fault: nothing is known of the code."""
    CANCELLED = "cancelled"
    """A user stopped it."""


class StageStatus(StrEnum):
    """How a stage ended."""

    PASSED = "passed"
    """Nothing found."""
    FAILED = "failed"
    """At least one error."""
    WARNED = "warned"
    """Warnings only."""
    SKIPPED = "skipped"
    """Not run, because an earlier stage failed."""
    ERROR = "error"
    """An internal error."""


class CaseStatus(StrEnum):
    """How one case (path, step, test, node) ended."""

    PASSED = "passed"
    """As it should."""
    FAILED = "failed"
    """The code did something wrong, an exception included."""
    ERROR = "error"
    """It could not be brought to an end: killed, timed out, no result."""
    SKIPPED = "skipped"
    """Never started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticResult:
    """One static check that ran."""

    __pydantic_config__ = DOCUMENT

    check: str = field(metadata=about("Name of the check."))
    passed: bool = field(metadata=about("Whether it found no error."))
    details: str = field(metadata=about("Summary of its findings."))


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport:
    """One stage of an attempt with its findings."""

    name: str
    status: StageStatus
    duration_s: float = 0.0
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One thing that was run: a sample path, a step, a test, a node; `expected` is what it should give."""

    name: str
    status: CaseStatus
    cause: Cause | None = None
    result: JsonValue = None
    error_type: str | None = None
    message: str | None = None
    traceback: str | None = None
    file: str | None = None
    line: int | None = None
    stdout: str = ""
    stderr: str = ""
    duration_s: float = 0.0
    exit_code: int | None = None
    expected: JsonValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a validator makes of a run: findings and cases.

    `stage_findings` are keyed by the runtime stages that the validator names (``sandbox``,
    ``quality``, …), in order. A stage that is missing there was not reached. `score` is the share of hidden
    tests that passed, for a kind that has some; `facts` are what the report's feedback has of a run.
    """

    stage_findings: Mapping[str, tuple[Finding, ...]]
    cases: tuple[Case, ...] = ()
    score: float | None = None
    facts: JsonValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """A kind's rating of a submission, in addition to its findings."""

    confidence: float
    feedback: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The one report of an attempt; the wire form is in `wire`."""

    attempt_id: str
    kind: str
    verdict: Verdict
    stage_reached: str
    stages: tuple[StageReport, ...]
    static_results: tuple[StaticResult, ...] = ()
    cases: tuple[Case, ...] | None = None
    refused_imports: tuple[PolicyEvent, ...] = ()
    retry_context: str | None = None
    confidence: float | None = None
    feedback: JsonValue = None
    score: float | None = None
    integrity: str | None = None
    effective_limits: Mapping[str, JsonValue] = field(default_factory=dict)
    clamped: tuple[Clamp, ...] = ()
    input_digest: str = ""
    policy_digest: str = ""
    enforcement: Enforcement = Enforcement.ENFORCE
    image_digest: str | None = None
    validated_at: datetime | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return all findings, in stage order."""
        return tuple(f for stage in self.stages for f in stage.findings)

    @property
    def rules(self) -> tuple[str, ...]:
        """Name the rules of all errors, each once."""
        return tuple(dict.fromkeys(f.rule for f in self.findings if f.is_error))

    @property
    def fix_hints(self) -> tuple[FixHint, ...]:
        """Return a hint for every finding that says what to do."""
        return fix_hints(self.findings)
