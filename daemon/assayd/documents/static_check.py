"""The document of a static check, with the static results that an attempt would report."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from assayd.documents.base import BaseDocument
from assayd.documents.reports import FindingDocument, StageDocument, stage_document
from assayd.model.finding import FixHint, fix_hints
from assayd.model.report import StageReport
from assayd.model.submission import Submission


class StaticCheckDocument(BaseDocument):
    """The static stages of a submission that was checked without being recorded."""

    kind: str = Field(description="Kind of the submission.")
    policy: str = Field(description="Its profile.")
    stages: list[StageDocument] = Field(description="All stages, in order; those of a run are skipped.")
    findings: list[FindingDocument] = Field(description="All findings, in stage order.")
    fix_hints: list[FixHint] = Field(description="Suggested changes.")


def static_check_document(submission: Submission, stages: Sequence[StageReport]) -> StaticCheckDocument:
    """Return the document of a static check."""
    written = [stage_document(stage) for stage in stages]
    return StaticCheckDocument.model_construct(
        kind=submission.kind,
        policy=submission.policy,
        stages=written,
        findings=[finding for stage in written for finding in stage.findings],
        fix_hints=list(fix_hints(finding for stage in stages for finding in stage.findings)),
    )
