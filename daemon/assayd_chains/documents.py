"""Converts chains to the documents that the API contract defines.

The client and the daemon share the document models in `assayd.documents.chains`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ValidationError

from assayd.documents.base import format_error_path, format_time, message_of, to_milliseconds
from assayd.documents.chains import (
    AnswerRuleDocument,
    AnswersDocument,
    AnswerWeekDocument,
    ApprovedDocument,
    FixDocument,
    GenerationDocument,
    GenerationEventDocument,
    GrantDocument,
    RepairDocument,
    RepairEventDocument,
    StepDocument,
)
from assayd.documents.webhooks import EndedGenerationDocument, build_webhook_message
from assayd.errors import RequestError
from assayd.model.records import LibraryEntry
from assayd.store.outbox import build_message_row
from assayd.store.tables import Values
from assayd_chains.answer_counts import AnswerCount, AnswerCounts, Key
from assayd_chains.model import TOKENS, UNUSABLE_CAUSE, Answer, Chain, Repair, sum_tokens
from assayd_chains.provider import ProviderStep

MAX_RULES = 20


def to_answers_document(counted: AnswerCounts, since: datetime) -> AnswersDocument:
    """Return the document of answer counts, with the newest week first."""
    weeks = sorted(counted.counts.items(), key=lambda item: (-item[0][2].toordinal(), item[0][:2]))
    return AnswersDocument.model_construct(
        since=format_time(since),
        complete=counted.complete,
        weeks=[_to_week_document(key, count) for key, count in weeks],
    )


def _to_week_document(key: Key, count: AnswerCount) -> AnswerWeekDocument:
    rules = sorted(count.rules.items(), key=lambda item: (-item[1].attempts, item[0]))[:MAX_RULES]
    return AnswerWeekDocument.from_value(
        count,
        kind=key[0],
        provider=key[1],
        week=key[2].isoformat(),
        answers_to_pass=round(count.answers / count.validated, 2) if count.validated else None,
        rules=[AnswerRuleDocument.from_value(one, rule=rule) for rule, one in rules],
    )


def to_repair_document(
    repair: Repair, diffs: Sequence[str | None] = (), record: Mapping[str, str] = MappingProxyType({})
) -> RepairDocument:
    """Return the document of a repair.

    Args:
        repair: the repair.
        diffs: the changes of each fix, if they were read.
        record: the ids under which the repair's kind stores the repair.
    """
    return RepairDocument.from_value(
        repair,
        state="running" if repair.outcome is None else "finished",
        record=dict(record),
        attempts=[_to_fix_document(fix, fix.number, diff) for fix, diff in zip_longest(repair.fixes, diffs)],
        **_sum_tokens(repair.fixes),
        outcome=None if repair.outcome is None else repair.outcome.repair_outcome_name,
    )


def to_repair_event(number: int, repair: Repair, record: Mapping[str, str]) -> RepairEventDocument:
    """Return an event of a repair. `number` is the position in the stream and serves as the id."""
    return RepairEventDocument.model_construct(
        id=str(number),
        kind="repair" if repair.outcome is None else "finished",
        at=format_time(repair.finished_at or repair.started_at),
        body=to_repair_document(repair, record=record),
    )


def to_generation_document(
    chain: Chain,
    approved: Sequence[LibraryEntry] = (),
    *,
    listed: bool = False,
    diffs: Sequence[str | None] = (),
) -> GenerationDocument:
    """Return the document of a generation.

    A document for a list (`listed`) omits the context. `diffs` contains the diffs of the answers, if they
    were read.
    """
    words, current = chain.words, chain.round
    assert words is not None, "a generation needs an intent"  # noqa: S101 - a caller's bug
    answers = zip_longest(chain.answers, diffs)
    return GenerationDocument.from_value(
        chain,
        state="running" if current.outcome is None else "finished",
        policy=words.policy,
        intent=words.intent,
        context={} if listed else dict(words.context),
        labels=dict(words.labels),
        webhook=words.webhook,
        hints=[GrantDocument.from_value(grant) for grant in chain.grants],
        attempts=[_to_fix_document(answer, n, diff) for n, (answer, diff) in enumerate(answers, 1) if answer],
        **_sum_tokens(chain.answers),
        detail=current.detail,
        finished_at=current.finished_at,
        attempt_id=chain.last_attempt_id,
        approved=ApprovedDocument.from_value(approved[-1]) if approved else None,
    )


def to_generation_event(number: int, kind: str, body: dict[str, Any]) -> GenerationEventDocument:
    """Return an event of a generation. `number` is the position in the stream and serves as the id."""
    at = format_time(datetime.now(UTC))
    return GenerationEventDocument.model_construct(id=str(number), kind=kind, at=at, body=body)


def build_generation_message(chain: Chain) -> Values | None:
    """Return the row of the webhook message about a generation's end.

    The result is None before the end, or if the generation has no URL.
    """
    words, at = chain.words, chain.round.finished_at
    if words is None or words.webhook is None or at is None:
        return None
    data = EndedGenerationDocument.from_value(
        chain,
        state="finished",
        attempt_id=chain.last_attempt_id,
        labels=dict(words.labels),
        path=f"/v1/generations/{chain.id}",
    )
    body = build_webhook_message("generation.finished", at, data)
    return build_message_row(f"generation_{chain.id}", chain.uid, words.webhook, at, body)


def to_step_document(step: ProviderStep) -> StepDocument:
    """Return the document of a provider's answer and its prompt."""
    reply = step.reply
    return StepDocument.from_value(step, answer=reply.text or reply.code, reason=reply.reason)


def _sum_tokens(answers: Sequence[Answer]) -> dict[str, int | None]:
    """Return the sum of each token count, or None for a count that no provider reported."""
    return {name: sum_tokens(answers, name) for name in TOKENS}


def _to_fix_document(answer: Answer, number: int, diff: str | None) -> FixDocument:
    unusable = answer.problem is not None and not answer.is_draft
    return FixDocument.from_value(
        answer,
        number=number,
        original_error=(answer.problem or "") if answer.is_draft else answer.error,
        fix_reason=answer.reason,
        patched_code=answer.text,
        diff=diff,
        cause=UNUSABLE_CAUSE if unusable else answer.cause,
        repaired_at=format_time(answer.asked_at),
        repair_successful=None if answer.verdict is None else answer.verdict == "validated",
        input_tokens=answer.usage.input_tokens,
        output_tokens=answer.usage.output_tokens,
        duration_ms=to_milliseconds(answer.usage.took_s),
    )


def validate_context(model: type[BaseModel], context: Mapping[str, object]) -> None:
    """Raise RequestError ``invalid`` if a context isn't valid for the kind's model."""
    try:
        model.model_validate_json(json.dumps(context))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = format_error_path(("context", *first["loc"]))
        unknown = first["type"] == "extra_forbidden"
        known = f"; use one of {', '.join(sorted(model.model_fields))}" if unknown else ""
        message = f"{field}: {message_of(first)}{known}"
        raise RequestError("invalid", message, field=field) from error
