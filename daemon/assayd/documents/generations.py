"""Generations and the library as the contract names them, and the requests about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from assayd.documents.base import BaseDocument, Timestamp, milliseconds, written_time
from assayd.documents.repairs import FixDocument, fix_document
from assayd.documents.strict_json import with_texts
from assayd.documents.submission import FreeLabelText, IntentText, LabelText, Ulid, WebhookText
from assayd.model.generation import Draft, LibraryEntry

if TYPE_CHECKING:  # the client reads documents without these
    from assayd.ports.generations import GenerationView

LibraryName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]


class GenerationBody(BaseModel):
    """A request in words, and what comes with it."""

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
        None, description="A URL that the operator lists, which receives its end."
    )


class HintBody(BaseModel):
    """A person's hint."""

    model_config = ConfigDict(extra="forbid", strict=True)

    hint: str = Field(min_length=1, max_length=4096, description="Advice for the next answer.")
    attempt_id: Ulid | None = Field(
        None, description="The attempt to continue from, e.g. an edited one; null: the generation's last."
    )


class ApproveBody(BaseModel):
    """The name that an attempt is approved under."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: LibraryName = Field(description="Letters, digits, `_` and `-`, per user.")


class ApprovedDocument(BaseDocument):
    """Under which name and version something was approved."""

    name: str = Field(description="The name.")
    version: int = Field(description="The version, from 1.")


class GrantDocument(BaseDocument):
    """A hint, which granted a full budget."""

    uid: int = Field(description="The user who gave it.")
    at: Timestamp = Field(description="When.")
    hint: str = Field(description="The hint.")


class GenerationDocument(BaseDocument):
    """A request in words on its way to a submission that is validated."""

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
    outcome: str | None = Field(
        description="validated, exhausted, stuck, timeout, provider_failed, terminal, cancelled; null before."
    )
    detail: str | None = Field(description="Details of the outcome.")
    attempt_id: str | None = Field(description="The last attempt that was run.")
    approved: ApprovedDocument | None = Field(description="Its newest entry in the library.")
    webhook: str | None = Field(None, description="The URL that receives its end.")


class GenerationPageDocument(BaseDocument):
    """Generations, newest first."""

    generations: list[GenerationDocument] = Field(description="The generations, without contexts.")
    next_cursor: str | None = Field(description="Start of the next page.")


class GenerationEventDocument(BaseDocument):
    """How a generation gets on."""

    id: str = Field(description="Its number, from 1.")
    kind: str = Field(description="`state`, `attempt`, `stage`, `answer`, `fix`, finally `finished`.")
    at: Timestamp = Field(description="Time of the event.")
    body: dict[str, Any] = Field(
        description=(
            "The generation as it is then; for `stage`, the attempt's stage; for `answer`, `text`: what came "
            "of the answer that is under way, and `anew`: whether it replaces what came before."
        )
    )


class LibraryEntryDocument(BaseDocument):
    """A validated submission that somebody approved under a name."""

    uid: int = Field(description="User id of the owner.")
    name: str = Field(description="The name.")
    version: int = Field(description="The version, from 1.")
    kind: str = Field(description="Kind of the submission.")
    attempt_id: str = Field(description="The attempt that validated it.")
    digest: str = Field(description="SHA-256 of kind and payload.")
    intent: str | None = Field(description="The request in words.")
    chain: list[str] = Field(description="The attempts that led to it, oldest first.")
    approved_by: int = Field(description="User who approved it.")
    approved_at: Timestamp = Field(description="When.")
    bundle: str | None = Field(description="Folder of its files; null after they were deleted to free space.")
    submission: dict[str, Any] | None = Field(description="The submission; null in lists.")


class LibraryPageDocument(BaseDocument):
    """Entries of the library."""

    entries: list[LibraryEntryDocument] = Field(description="The entries, without submissions.")
    next_cursor: str | None = Field(description="Start of the next page.")


def generation_document(
    view: GenerationView,
    approved: Sequence[LibraryEntry] = (),
    *,
    listed: bool = False,
    diffs: Sequence[str | None] = (),
) -> GenerationDocument:
    """Return the document of a generation; in a list, without its context.

    `diffs` says what each of its attempts changed, as far as that was looked up.
    """
    generation = view.generation
    last = approved[-1] if approved else None
    return GenerationDocument.from_value(
        generation,
        state="running" if generation.outcome is None else "finished",
        context={} if listed else dict(generation.context),
        labels=dict(generation.labels),
        hints=[GrantDocument.from_value(grant) for grant in generation.grants],
        attempts=[
            fix.model_copy(update={"number": number, "diff": diff})
            for number, (fix, diff) in enumerate(zip_longest(_attempts(view), diffs), 1)
            if fix is not None
        ],
        approved=None if last is None else ApprovedDocument.from_value(last),
    )


def _attempts(view: GenerationView) -> Iterator[FixDocument]:
    for draft in view.generation.drafts:
        yield _draft(draft)
        repair = view.repairs.get(draft.repair_id or "")
        yield from (fix_document(fix) for fix in repair.fixes) if repair is not None else ()


def _draft(draft: Draft) -> FixDocument:
    return FixDocument.from_value(
        draft,
        strategy="write",
        original_error=draft.problem or "",
        fix_reason=draft.reason,
        passage=draft.form,
        patched_code=draft.text,
        diff=None,
        duplicate=False,
        repaired_at=written_time(draft.asked_at),
        repair_successful=None if draft.verdict is None else draft.verdict == "validated",
        input_tokens=draft.usage.input_tokens,
        output_tokens=draft.usage.output_tokens,
        duration_ms=milliseconds(draft.usage.took_s),
    )


def library_entry_document(entry: LibraryEntry) -> LibraryEntryDocument:
    """Return the document of an entry, as lists have it: without its submission."""
    return LibraryEntryDocument.from_value(entry, chain=list(entry.chain), submission=None)


def library_entry_body(entry: LibraryEntry) -> bytes:
    """Return an entry as JSON text, with its submission, which is JSON text already and may be large."""
    return with_texts(library_entry_document(entry), {"submission": entry.document})
