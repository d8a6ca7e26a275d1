"""Repairs and their fixes in a database. A repair is written as a whole: it is small."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, delete, insert, select, update

from assayd.model.repair import Fix, Repair, RepairOutcome, ReplyCost, Strategy
from assayd.model.report import Verdict
from assayd.ports.llm import ProviderStep
from assayd.store.access import DatabaseAccess
from assayd.store.rows import from_micros, to_micros
from assayd.store.steps import DatabaseSteps
from assayd.store.tables import repair_fixes, repair_steps, repairs

Values = dict[str, object]
# SQLAlchemy types a select by its columns; rows are read by name here.
Statement = Select[Any]


class DatabaseRepairStore:
    """Implements `ports.repairs.RepairStore` on SQLite or PostgreSQL."""

    def __init__(self, access: DatabaseAccess) -> None:
        self._access = access
        self._steps = DatabaseSteps(access, repair_steps)

    async def save_step(self, repair_id: str, step: ProviderStep) -> None:
        """Record an answer whole, durably; one that is there already stays."""
        await self._steps.save(repair_id, step)

    async def step(self, repair_id: str, number: int) -> ProviderStep | None:
        """Look an answer up."""
        return await self._steps.get(repair_id, number)

    async def save(self, repair: Repair) -> None:
        """Record a repair as it is now, durably."""
        whole = _repair_values(repair)
        fixes = [_fix_values(repair.id, fix) for fix in repair.fixes]

        def apply(connection: Connection) -> None:
            connection.execute(delete(repair_fixes).where(repair_fixes.c.repair_id == repair.id))
            if (
                connection.execute(update(repairs).where(repairs.c.id == repair.id).values(whole)).rowcount
                == 0
            ):
                connection.execute(insert(repairs), whole)
            if fixes:
                connection.execute(insert(repair_fixes), fixes)

        await self._access.write(apply)

    async def remove(self, repair_id: str) -> None:
        """Forget a repair that turned out not to be needed."""
        wanted = delete(repairs).where(repairs.c.id == repair_id)
        await self._access.write(lambda connection: connection.execute(wanted).close())

    async def get(self, repair_id: str) -> Repair | None:
        """Return a repair by its id; None where there is none."""
        found = await self._read(select(repairs).where(repairs.c.id == repair_id))
        return found[0] if found else None

    async def of_attempt(self, attempt_id: str) -> Sequence[Repair]:
        """Return the repairs that an attempt began or belongs to, oldest first."""
        member = select(repair_fixes.c.repair_id).where(repair_fixes.c.attempt_id == attempt_id)
        wanted = (repairs.c.attempt_id == attempt_id) | repairs.c.id.in_(member)
        return await self._read(select(repairs).where(wanted).order_by(repairs.c.id))

    async def unfinished(self) -> Sequence[Repair]:
        """Return every repair without an outcome, oldest first."""
        return await self._read(select(repairs).where(repairs.c.outcome.is_(None)).order_by(repairs.c.id))

    async def list(
        self, *, uid: int | None = None, before: str | None = None, limit: int = 50
    ) -> Sequence[Repair]:
        """Return repairs, newest first; those of one user, and older than the one named `before`."""
        statement = select(repairs).order_by(repairs.c.id.desc()).limit(limit)
        if uid is not None:
            statement = statement.where(repairs.c.uid == uid)
        if before is not None:
            statement = statement.where(repairs.c.id < before)
        return await self._read(statement)

    async def _read(self, statement: Statement) -> Sequence[Repair]:
        def fetch(connection: Connection) -> Sequence[Repair]:
            found = connection.execute(statement).mappings().all()
            ids = [row["id"] for row in found]
            fixes = select(repair_fixes).where(repair_fixes.c.repair_id.in_(ids))
            by_repair: dict[str, list[Fix]] = {}
            for row in connection.execute(fixes.order_by(repair_fixes.c.number)).mappings():
                by_repair.setdefault(row["repair_id"], []).append(_read_fix(row))
            return [_read_repair(row, by_repair.get(row["id"], [])) for row in found]

        return await self._access.read(fetch)


def _repair_values(repair: Repair) -> Values:
    return {
        "id": repair.id,
        "attempt_id": repair.attempt_id,
        "kind": repair.kind,
        "provider": repair.provider,
        "uid": repair.uid,
        "max_attempts": repair.max_attempts,
        "started_at": to_micros(repair.started_at),
        "ends_at": to_micros(repair.ends_at),
        "finished_at": None if repair.finished_at is None else to_micros(repair.finished_at),
        "first_fingerprint": repair.first_fingerprint,
        "first_digest": repair.first_digest,
        "first_cause": repair.first_cause,
        "hint": repair.hint,
        "granted_by": repair.granted_by,
        "generation_id": repair.generation_id,
        "outcome": repair.outcome,
        "detail": repair.detail,
        "fallback": None if repair.fallback is None else json.dumps(repair.fallback, sort_keys=True),
    }


def _fix_values(repair_id: str, fix: Fix) -> Values:
    return {
        "repair_id": repair_id,
        "number": fix.number,
        "strategy": fix.strategy,
        "asked_at": to_micros(fix.asked_at),
        "error": fix.error,
        "reason": fix.reason,
        "passage": fix.passage,
        "patched_code": fix.patched_code,
        "form": fix.form,
        "digest": fix.digest,
        "duplicate": int(fix.duplicate),
        "attempt_id": fix.attempt_id,
        "verdict": fix.verdict,
        "cause": fix.cause,
        "fingerprint": fix.fingerprint,
        "input_tokens": fix.usage.input_tokens,
        "output_tokens": fix.usage.output_tokens,
        "took_s": fix.usage.took_s,
    }


def _read_repair(row: RowMapping, fixes: Sequence[Fix]) -> Repair:
    return Repair(
        id=row["id"],
        attempt_id=row["attempt_id"],
        kind=row["kind"],
        provider=row["provider"],
        uid=row["uid"],
        max_attempts=row["max_attempts"],
        started_at=from_micros(row["started_at"]),
        ends_at=from_micros(row["ends_at"]),
        finished_at=_moment(row["finished_at"]),
        first_fingerprint=row["first_fingerprint"],
        first_digest=row["first_digest"],
        first_cause=row["first_cause"],
        hint=row["hint"],
        granted_by=row["granted_by"],
        generation_id=row["generation_id"],
        outcome=None if row["outcome"] is None else RepairOutcome(row["outcome"]),
        detail=row["detail"],
        fallback=_json(row["fallback"]),
        fixes=tuple(fixes),
    )


def _read_fix(row: RowMapping) -> Fix:
    return Fix(
        number=row["number"],
        strategy=Strategy(row["strategy"]),
        asked_at=from_micros(row["asked_at"]),
        error=row["error"],
        reason=row["reason"],
        passage=row["passage"],
        patched_code=row["patched_code"],
        form=row["form"],
        digest=row["digest"],
        duplicate=bool(row["duplicate"]),
        attempt_id=row["attempt_id"],
        verdict=None if row["verdict"] is None else Verdict(row["verdict"]),
        cause=row["cause"],
        fingerprint=row["fingerprint"],
        usage=ReplyCost(
            input_tokens=row["input_tokens"], output_tokens=row["output_tokens"], took_s=row["took_s"]
        ),
    )


def _moment(value: int | None) -> datetime | None:
    return None if value is None else from_micros(value)


def _json(text: str | None) -> Mapping[str, object] | None:
    found = None if text is None else json.loads(text)
    return found if isinstance(found, dict) else None
