"""Write repairs as the contract names them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from assayd.documents.attempts import Document, milliseconds, timestamp
from assayd.model.repair import Fix, Repair


def repair_document(repair: Repair, diffs: Sequence[str | None] = ()) -> Document:
    """Write a repair with its fixes, and with what each of them changed, where that was looked up."""
    return {
        "id": repair.id,
        "attempt_id": repair.attempt_id,
        "kind": repair.kind,
        "provider": repair.provider,
        "state": "running" if repair.outcome is None else "finished",
        "max_attempts": repair.max_attempts,
        "started_at": timestamp(repair.started_at),
        "finished_at": timestamp(repair.finished_at),
        "hint": repair.hint,
        "attempts": [_fix(fix, diff) for fix, diff in zip_longest(repair.fixes, diffs)],
        "outcome": repair.outcome,
        "detail": repair.detail,
        "fallback": repair.fallback,
    }


def _fix(fix: Fix, diff: str | None) -> Document:
    return {
        "attempt_id": fix.attempt_id,
        "number": fix.number,
        "strategy": fix.strategy,
        "original_error": fix.error,
        "fix_reason": fix.reason,
        "passage": fix.passage,
        "patched_code": fix.patched_code,
        "diff": diff,
        "duplicate": fix.duplicate,
        "verdict": fix.verdict,
        "cause": fix.cause,
        "repaired_at": timestamp(fix.asked_at),
        "repair_successful": None if fix.verdict is None else fix.verdict == "validated",
        "input_tokens": fix.usage.input_tokens,
        "output_tokens": fix.usage.output_tokens,
        "duration_ms": milliseconds(fix.usage.took_s),
    }
