"""The report: the merged static and run-time results of one attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from assayd.model.document import DOCUMENT, document_field
from assayd.model.finding import Finding, FixHint, list_fix_hints
from assayd.model.policy import ClampedValue, Enforcement
from assayd.model.run import Cause, PolicyEvent
from assayd.model.submission import JsonValue


class Verdict(StrEnum):
    """The result of an attempt."""

    VALIDATED = "validated"
    """All required stages passed."""
    FAILED = "failed"
    """The submitted code is at fault."""
    ERROR = "error"
    """The daemon is at fault; nothing is known about the code."""
    CANCELLED = "cancelled"
    """A user cancelled the attempt."""


class StageStatus(StrEnum):
    """The result of a stage."""

    PASSED = "passed"
    """The stage found no error and no warning."""
    FAILED = "failed"
    """The stage found at least one error."""
    WARNED = "warned"
    """The stage found only warnings."""
    SKIPPED = "skipped"
    """The stage didn't run, usually because an earlier stage failed."""
    ERROR = "error"
    """An internal error stopped the stage."""


class CaseStatus(StrEnum):
    """The status of a case (a path, step, test or node)."""

    PASSED = "passed"
    """The result was as expected."""
    FAILED = "failed"
    """The code did something wrong, e.g. raised an exception."""
    ERROR = "error"
    """The case didn't finish: killed, timed out, or without a result."""
    SKIPPED = "skipped"
    """The case never started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticResult:
    """The result of one static check."""

    __pydantic_config__ = DOCUMENT

    check: str = field(metadata=document_field("Name of the check."))
    passed: bool = field(metadata=document_field("Whether it found no error."))
    details: str = field(metadata=document_field("Summary of its findings."))


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport:
    """One stage of an attempt with its findings."""

    name: str
    status: StageStatus
    duration_s: float = 0.0
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One executed item (a sample path, step, test or node). `expected` is the expected result."""

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
    """A validator's judgement of a run: findings and cases.

    The keys of `stage_findings` are the run-time stages of the validator (``sandbox``, ``quality``, …), in
    order. Stages that weren't reached have no key. `score` is the fraction of hidden tests that passed, for
    kinds with hidden tests. `facts` are the facts of the run for the report's feedback.
    """

    stage_findings: Mapping[str, tuple[Finding, ...]]
    cases: tuple[Case, ...] = ()
    score: float | None = None
    facts: JsonValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """A rating of a submission by its kind, in addition to the findings."""

    confidence: float
    feedback: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The report of an attempt. The module `documents.reports` defines its JSON form."""

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
    clamped: tuple[ClampedValue, ...] = ()
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
        """Return the distinct rules of all errors."""
        return tuple(dict.fromkeys(f.rule for f in self.findings if f.is_error))

    @property
    def fix_hints(self) -> tuple[FixHint, ...]:
        """Return a hint for every finding that has a suggestion."""
        return list_fix_hints(self.findings)
