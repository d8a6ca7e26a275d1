"""Documents of repairs, generations and workflows, and the requests that start them.

This module only defines the models; `assayd_chains` and `assayd_workflows` decide their contents.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from assayd.documents.base import BaseDocument, Timestamp
from assayd.documents.reports import FindingDocument
from assayd.documents.submission import FreeLabelText, IntentText, LabelText, RepairRequest, Ulid, WebhookText


class RepairBody(BaseModel):
    """The options of a requested repair."""

    model_config = ConfigDict(extra="forbid", strict=True)

    provider: str | None = Field(
        None, description="Provider; null: `rules`, or with a hint the only configured one."
    )
    max_attempts: int | None = Field(None, ge=1, le=10, description="Maximum number of fixes.")
    hint: str | None = Field(None, max_length=4096, description="Advice for the provider.")
    code: str | None = Field(None, description="A correction by a person, tried first.")
    fresh: bool = Field(False, description="Start again from the first submission.")


class FixDocument(BaseDocument):
    """One fix of a repair, together with its outcome."""

    attempt_id: str | None = Field(description="The attempt that ran it; null for a duplicate.")
    number: int = Field(description="Number of the answer, from 1.")
    strategy: str = Field(
        description="`fix`, `different` after a duplicate, `rethink` after the same failure."
    )
    original_error: str = Field(description="The failure that this fix answers.")
    fix_reason: str = Field(description="The provider's reason.")
    passage: str = Field(description="Name of the replaced text of the submission.")
    patched_code: str = Field(description="The new text; JSON unless `form` is `code`.")
    form: str = Field("code", description="Form of the answer: `code`, `files`, `steps` or `question`.")
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
    input_tokens: int | None = Field(description="Tokens of the request, if the provider counts them.")
    output_tokens: int | None = Field(description="Tokens of the reply.")
    duration_ms: float = Field(description="Time until the answer arrived.")


class ShownDocument(BaseDocument):
    """The values that the fallback rules extract from one sample path."""

    path: str = Field(description="The sample path.")
    fields: dict[str, str | int] = Field(description="Fields that the rules extract.")
    missing: list[str] = Field(description="Fields whose rule doesn't match the path.")


class AppliedDocument(BaseDocument):
    """The values that the fallback rules extract from the sample paths."""

    paths: int = Field(description="Number of sample paths.")
    complete: int = Field(description="Number of paths with every field that has a rule.")
    shown: list[ShownDocument] = Field(description="The first paths.")


class FallbackDocument(BaseDocument):
    """Declarative rules without code, which are offered if no fix succeeded."""

    trigger: str = Field(description="Why: `security`, `timeout` or `computed_fields`.")
    reason: str = Field(description="The trigger as a sentence.")
    rules: str = Field(description="The rules, as YAML.")
    notes: dict[str, str] = Field(description="Notes on fields that rules can't extract.")
    applied: AppliedDocument = Field(description="Results for the sample paths.")
    accepted_at: Timestamp | None = Field(description="When the rules were accepted.")
    attempt_id: str | None = Field(None, description="The attempt that validates the accepted rules.")


class RepairDocument(BaseDocument):
    """A repair: a failed attempt, and the fixes that were tried for it."""

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
        None, description="User who renewed the budget by a hint, an edit or `fresh`; otherwise null."
    )
    generation_id: str | None = Field(None, description="The generation that it is part of.")
    record: dict[str, str] = Field(
        {}, description="Keys of its kind's record, e.g. `pipeline_id`; empty for kinds without records."
    )
    attempts: list[FixDocument] = Field(description="The fixes, in order.")
    input_tokens: int | None = Field(
        None, description="Tokens of all requests, as far as the provider counts them."
    )
    output_tokens: int | None = Field(None, description="Tokens of all replies.")
    outcome: str | None = Field(
        description="repaired, exhausted, stuck, timeout, provider_failed, terminal, cancelled; null before."
    )
    detail: str | None = Field(description="Details of the outcome.")
    fallback: FallbackDocument | None = Field(description="Rules that can replace the code, if any.")


class StepDocument(BaseDocument):
    """One unparsed answer of a provider, together with its prompt."""

    number: int = Field(description="Number of the answer, from 1.")
    provider: str = Field(description="Name of the provider that gave it.")
    asked_at: Timestamp = Field(description="When the daemon requested it.")
    system: str = Field(description="The prompt's instructions.")
    user: str = Field(description="The prompt's data: submission, request and findings.")
    answer: str = Field(description="The unprocessed answer.")
    reason: str = Field(description="Reason in the answer.")


class RepairPageDocument(BaseDocument):
    """A page of repairs, with the newest first."""

    repairs: list[RepairDocument] = Field(description="The repairs.")
    next_cursor: str | None = Field(description="Start of the next page.")


class RepairEventDocument(BaseDocument):
    """An event with the progress of a repair."""

    id: str = Field(description="Its number, from 1.")
    kind: str = Field(description="`repair`, at last `finished`.")
    at: Timestamp = Field(description="When the repair began; when it ended, for the last.")
    body: RepairDocument = Field(description="The repair at that time.")


class GenerationBody(BaseModel):
    """The body of a generation request: a request in natural language, with its data."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: str = Field(description="Kind to generate; `GET /v1/kinds` lists them.")
    intent: IntentText = Field(description="The request in words; at most 16 KiB.")
    context: dict[str, object] = Field(
        default_factory=dict,
        description=(
            "Data for the request; each kind accepts some of sample_paths, inputs, cases, database, "
            "files, manifest, libraries, task_type, stdin, collect, execute."
        ),
    )
    policy: str | None = Field(None, description="Profile name; null: the kind's default.")
    provider: str | None = Field(
        None, description="Provider; null: the only configured one that writes code."
    )
    max_attempts: int | None = Field(
        None,
        ge=1,
        le=10,
        description="Maximum number of answers, including repairs; null: `repair.max_attempts`.",
    )
    labels: dict[LabelText, FreeLabelText] = Field(
        default_factory=dict, max_length=32, description="Labels of its attempts."
    )
    webhook: WebhookText | None = Field(
        None, description="URL to notify at the end; the operator must have listed it."
    )


class HintBody(BaseModel):
    """A request body that contains a person's hint."""

    model_config = ConfigDict(extra="forbid", strict=True)

    hint: str = Field(min_length=1, max_length=4096, description="Advice for the next answer.")
    attempt_id: Ulid | None = Field(
        None, description="The attempt to continue from, e.g. an edited one; null: the generation's last."
    )


class ApprovedDocument(BaseDocument):
    """The library name and version under which a submission was approved."""

    name: str = Field(description="The name.")
    version: int = Field(description="The version, from 1.")


class GrantDocument(BaseDocument):
    """A person's hint that granted a chain a new budget."""

    uid: int = Field(description="The user who gave it.")
    at: Timestamp = Field(description="When.")
    hint: str = Field(description="The hint.")


class GenerationDocument(BaseDocument):
    """A generation: a request in natural language, and the submissions that were written for it."""

    id: str = Field(description="ULID.")
    kind: str = Field(description="Kind to generate.")
    state: str = Field(description="`running` or `finished`.")
    provider: str = Field(description="Name of the provider.")
    policy: str = Field(description="Profile name.")
    intent: str = Field(description="The request in words.")
    context: dict[str, Any] = Field(description="Data for the request; omitted in lists.")
    labels: dict[str, str] = Field(description="Labels of its attempts.")
    max_attempts: int = Field(description="Maximum number of answers since the last hint.")
    started_at: Timestamp = Field(description="When it began.")
    finished_at: Timestamp | None = Field(description="When it ended.")
    hints: list[GrantDocument] = Field(description="Hints of users.")
    attempts: list[FixDocument] = Field(description="All answers in order, repairs included.")
    input_tokens: int | None = Field(
        None, description="Tokens of all requests, as far as the provider counts them."
    )
    output_tokens: int | None = Field(None, description="Tokens of all replies.")
    outcome: str | None = Field(
        description=(
            "validated, exhausted, stuck, timeout, provider_failed, terminal, cancelled or question; null "
            "before the end."
        )
    )
    detail: str | None = Field(description="Details of the outcome.")
    attempt_id: str | None = Field(description="The last attempt that was run.")
    approved: ApprovedDocument | None = Field(description="Its newest entry in the library.")
    webhook: str | None = Field(None, description="The URL that receives its end.")


class GenerationPageDocument(BaseDocument):
    """A page of generations, with the newest first."""

    generations: list[GenerationDocument] = Field(description="The generations, without contexts.")
    next_cursor: str | None = Field(description="Start of the next page.")


class GenerationEventDocument(BaseDocument):
    """An event with the progress of a generation."""

    id: str = Field(description="Its number, from 1.")
    kind: str = Field(description="`state`, `attempt`, `stage`, `answer`, `fix`, finally `finished`.")
    at: Timestamp = Field(description="Time of the event.")
    body: dict[str, Any] = Field(
        description=(
            "Current generation; for `stage`, the attempt's stage; for `answer`, `text` is "
            "the answer so far, "
            "and `anew` is true if it replaces the earlier text."
        )
    )


class AnswerRuleDocument(BaseDocument):
    """A rule that was broken by failed attempts of a repair."""

    rule: str = Field(description="Id of the rule.")
    attempts: int = Field(description="Failed attempts that broke it.")
    answered: int = Field(description="Of these, how many a further attempt followed.")
    cleared: int = Field(
        description="Of these, how many further attempts didn't break it: hints that helped."
    )


class AnswerWeekDocument(BaseDocument):
    """The answers of one provider for one kind to all chains that began in the same week."""

    kind: str = Field(description="The kind of submission.")
    provider: str = Field(description="Name of the provider.")
    week: str = Field(description="Monday of the week, as YYYY-MM-DD (UTC).")
    generations: int = Field(description="Finished generations.")
    validated: int = Field(description="Of these, how many were validated.")
    validated_at_once: int = Field(description="Of these, how many by the first answer.")
    answers_to_pass: float | None = Field(description="Mean number of answers of a validated generation.")
    repairs: int = Field(description="Finished repairs, those of generations included.")
    repaired: int = Field(description="Of these, how many ended with a validated attempt.")
    hinted: int = Field(description="Finished repairs with a user's hint.")
    hinted_repaired: int = Field(description="Of these, how many ended with a validated attempt.")
    rules: list[AnswerRuleDocument] = Field(description="The 20 most frequent rules, most frequent first.")


class AnswersDocument(BaseDocument):
    """Counts of providers' answers and of the results, without any code."""

    since: Timestamp = Field(description="Chains that began at or after this time are counted.")
    complete: bool = Field(description="False if there were too many chains, and only the newest count.")
    weeks: list[AnswerWeekDocument] = Field(description="Counts, the newest week first.")


InputValues = dict[str, dict[str, Any]]


class WorkflowCheckBody(BaseModel):
    """A workflow to check."""

    model_config = ConfigDict(extra="forbid", strict=True)

    document: str = Field(max_length=2**20, description="The workflow, as YAML or JSON text.")
    inputs: InputValues = Field(
        {}, max_length=256, description="Values of inputs by node and name; they replace the document's."
    )


class WorkflowBody(WorkflowCheckBody):
    """A workflow to run."""

    repair: RepairRequest | None = Field(None, description="How to repair nodes that fail; null: don't.")


class WorkflowResumeBody(BaseModel):
    """The request to resume a workflow that has ended. Missing fields keep their earlier values."""

    model_config = ConfigDict(extra="forbid", strict=True)

    document: str | None = Field(None, max_length=2**20, description="The changed workflow.")
    inputs: InputValues | None = Field(None, max_length=256, description="Values of inputs, as before.")
    repair: RepairRequest | None = Field(None, description="How to repair nodes that fail; null: don't.")


class WorkflowFindingDocument(FindingDocument):
    """One finding of a workflow check. `line` refers to the workflow document."""

    node: str | None = Field(description="The node; null for the document and its outputs.")


class PlannedNodeDocument(BaseDocument):
    """One node of a workflow that was checked."""

    id: str = Field(description="The node's id.")
    line: int | None = Field(description="Its line in the document.")
    library: str | None = Field(description="The library entry that its code comes from, with its version.")
    needs: list[str] = Field(description="Nodes whose results it uses.")


class WorkflowCheckDocument(BaseDocument):
    """The findings of a check. A check neither runs nor records anything."""

    runnable: bool = Field(description="Whether no finding is an error.")
    name: str | None = Field(description="The workflow's name.")
    findings: list[WorkflowFindingDocument] = Field(description="Findings, by line.")
    nodes: list[PlannedNodeDocument] = Field(description="The nodes, in the document's order.")
    outputs: dict[str, str] = Field(description="References by output.")


class NodeRunDocument(PlannedNodeDocument):
    """One node of a recorded workflow."""

    state: str = Field(
        description="`waiting`, `running`, `repairing`, `validated`, `failed`, `error`, `cancelled` or "
        "`skipped`."
    )
    attempt_id: str | None = Field(description="Its attempt; null if it never ran.")
    reused: bool = Field(description="Whether the attempt is one of the workflow that this one resumes.")
    repair_id: str | None = Field(description="The repair that its attempt is a fix of.")
    input_digest: str | None = Field(description="Digest of code and inputs.")
    detail: str | None = Field(description="Why it has no result.")
    finished_at: Timestamp | None = Field(description="When it ended.")


class WorkflowDocument(BaseDocument):
    """A recorded workflow."""

    id: str = Field(description="ULID.")
    name: str | None = Field(description="The workflow's name.")
    uid: int = Field(description="User id of its owner.")
    state: str = Field(description="`running` or `finished`.")
    verdict: str | None = Field(
        description="`validated` if all outputs exist, `failed`, `error` or `cancelled`; null while it runs."
    )
    detail: str | None = Field(description="Why it isn't validated.")
    created_at: Timestamp = Field(description="When it was accepted.")
    ends_at: Timestamp = Field(description="When it ends at the latest.")
    finished_at: Timestamp | None = Field(description="When it ended.")
    resumes: str | None = Field(description="The workflow that this one resumes.")
    repair: dict[str, Any] | None = Field(description="Provider and maximum number of fixes.")
    findings: list[WorkflowFindingDocument] = Field(description="Findings of the check before it ran.")
    nodes: list[NodeRunDocument] = Field(description="The nodes, in the document's order.")
    outputs: dict[str, str] = Field(description="References by output.")


class WorkflowPageDocument(BaseDocument):
    """A page of workflows, with the newest first."""

    workflows: list[WorkflowDocument] = Field(description="The workflows, without their findings.")
    next_cursor: str | None = Field(description="For the next page; null on the last.")


class WorkflowOutputsDocument(BaseDocument):
    """The outputs of a validated workflow."""

    outputs: dict[str, Any] = Field(description="Values by name, in the form of a case's `result`.")


class WorkflowEventDocument(BaseDocument):
    """One event of a workflow."""

    id: str = Field(description="Its number, from 1.")
    kind: str = Field(description="`progress`, or `finished` for the last.")
    at: Timestamp = Field(description="When the workflow or a node of it last changed.")
    body: WorkflowDocument = Field(description="The workflow at that time.")
