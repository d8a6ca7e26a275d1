"""Repairs as the contract names them, and the request that begins one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from assayd.documents.base import BaseDocument, Timestamp, milliseconds, written_time
from assayd.model.repair import Fix, Repair

if TYPE_CHECKING:  # the client reads documents without these
    from assayd.ports.llm import ProviderStep


class RepairBody(BaseModel):
    """How an attempt is to be repaired."""

    model_config = ConfigDict(extra="forbid", strict=True)

    provider: str | None = Field(
        None, description="Provider; null: `rules`, or with a hint the only configured one."
    )
    max_attempts: int | None = Field(None, ge=1, le=10, description="Maximum number of fixes.")
    hint: str | None = Field(None, max_length=4096, description="Advice for the provider.")
    code: str | None = Field(None, description="A correction by a person, tried first.")
    fresh: bool = Field(False, description="Start again from the first submission.")


class FixDocument(BaseDocument):
    """One fix of a repair, and what became of it."""

    attempt_id: str | None = Field(description="The attempt that ran it; null for a duplicate.")
    number: int = Field(description="Its place, from 1.")
    strategy: str = Field(
        description="`fix`, `different` after a duplicate, `rethink` after the same failure."
    )
    original_error: str = Field(description="The failure that this fix answers.")
    fix_reason: str = Field(description="The provider's reason.")
    passage: str = Field(description="Which text of the submission was replaced.")
    patched_code: str = Field(description="The new text; JSON unless `form` is `code`.")
    form: str = Field("code", description="Form of the answer: `code`, `files` or `steps`.")
    diff: str | None = Field(
        description="Unified diff; null in lists, for a duplicate, and for a removed submission."
    )
    duplicate: bool = Field(description="Whether it equals an earlier fix, so that it wasn't run.")
    verdict: str | None = Field(description="The attempt's verdict.")
    cause: str | None = Field(description="How the attempt's run ended.")
    repaired_at: Timestamp = Field(description="When the daemon requested it.")
    repair_successful: bool | None = Field(
        description="Whether its attempt was validated; null before the verdict."
    )
    input_tokens: int | None = Field(description="Tokens of the request, where the provider counts them.")
    output_tokens: int | None = Field(description="Tokens of the reply.")
    duration_ms: float = Field(description="Time until the answer arrived.")


class ShownDocument(BaseDocument):
    """What the rules give for one sample path."""

    path: str = Field(description="The sample path.")
    fields: dict[str, str | int] = Field(description="Fields that the rules extract.")
    missing: list[str] = Field(description="Fields whose rule doesn't match the path.")


class AppliedDocument(BaseDocument):
    """What the rules give for the sample paths."""

    paths: int = Field(description="Number of sample paths.")
    complete: int = Field(description="Number of paths with every field that has a rule.")
    shown: list[ShownDocument] = Field(description="The first paths.")


class FallbackDocument(BaseDocument):
    """Rules without code that are offered where no correction worked."""

    trigger: str = Field(description="Why: `security`, `timeout` or `computed_fields`.")
    reason: str = Field(description="The same in a sentence.")
    rules: str = Field(description="The rules, as YAML.")
    notes: dict[str, str] = Field(description="Notes on fields that rules can't extract.")
    applied: AppliedDocument = Field(description="Results for the sample paths.")
    accepted_at: Timestamp | None = Field(description="When they were taken.")


class RepairDocument(BaseDocument):
    """A failed attempt on its way to one that is validated."""

    id: str = Field(description="ULID.")
    attempt_id: str = Field(description="The attempt that it began with.")
    kind: str = Field(description="The kind of submission.")
    provider: str = Field(description="Name of the provider.")
    state: str = Field(description="`running` or `finished`.")
    max_attempts: int = Field(description="Maximum number of fixes.")
    started_at: Timestamp = Field(description="When it began.")
    finished_at: Timestamp | None = Field(description="When it ended.")
    hint: str | None = Field(description="Hint of the user.")
    granted_by: int | None = Field(
        None, description="User who gave it a full budget by a hint, an edit or `fresh`; null for all else."
    )
    generation_id: str | None = Field(None, description="The generation that it is part of.")
    record: dict[str, str] = Field(
        {}, description="Keys of its kind's record, e.g. `pipeline_id`; empty for kinds without records."
    )
    attempts: list[FixDocument] = Field(description="The fixes, in order.")
    outcome: str | None = Field(
        description="repaired, exhausted, stuck, timeout, provider_failed, terminal, cancelled; null before."
    )
    detail: str | None = Field(description="Details of the outcome.")
    fallback: FallbackDocument | None = Field(description="Rules that can replace the code, if any.")


class StepDocument(BaseDocument):
    """One answer of a provider, whole, with what it was asked by."""

    number: int = Field(description="Its place, from 1.")
    provider: str = Field(description="The user who gave it.")
    asked_at: Timestamp = Field(description="When the daemon requested it.")
    system: str = Field(description="The prompt: what we say.")
    user: str = Field(description="The prompt: submission, request and findings.")
    answer: str = Field(description="The unprocessed answer.")
    reason: str = Field(description="The reason that it gives.")


class RepairPageDocument(BaseDocument):
    """Repairs, newest first."""

    repairs: list[RepairDocument] = Field(description="The repairs.")
    next_cursor: str | None = Field(description="Start of the next page.")


class RepairEventDocument(BaseDocument):
    """How a repair gets on."""

    id: str = Field(description="Its number, from 1.")
    kind: str = Field(description="`repair`, at last `finished`.")
    at: Timestamp = Field(description="When the repair began; when it ended, for the last.")
    body: RepairDocument = Field(description="The repair at that time.")


def repair_document(
    repair: Repair, diffs: Sequence[str | None] = (), record: Mapping[str, str] = MappingProxyType({})
) -> RepairDocument:
    """Return the document of a repair, with what each fix changed and its kind's record, where looked up."""
    return RepairDocument.from_value(
        repair,
        state="running" if repair.outcome is None else "finished",
        record=dict(record),
        attempts=[fix_document(fix, diff) for fix, diff in zip_longest(repair.fixes, diffs)],
    )


def repair_event_document(number: int, repair: Repair, record: Mapping[str, str]) -> RepairEventDocument:
    """Return an event of a repair; `number` counts the events of one stream, and is its id."""
    return RepairEventDocument.model_construct(
        id=str(number),
        kind="repair" if repair.outcome is None else "finished",
        at=written_time(repair.finished_at or repair.started_at),
        body=repair_document(repair, record=record),
    )


def step_document(step: ProviderStep) -> StepDocument:
    """Return the document of one answer."""
    reply = step.reply
    return StepDocument.from_value(step, answer=reply.text or reply.code, reason=reply.reason)


def fix_document(fix: Fix, diff: str | None = None) -> FixDocument:
    """Return the document of one fix."""
    return FixDocument.from_value(
        fix,
        original_error=fix.error,
        fix_reason=fix.reason,
        diff=diff,
        repaired_at=written_time(fix.asked_at),
        repair_successful=None if fix.verdict is None else fix.verdict == "validated",
        input_tokens=fix.usage.input_tokens,
        output_tokens=fix.usage.output_tokens,
        duration_ms=milliseconds(fix.usage.took_s),
    )
