"""Generations in a database. One is written as a whole: it is small."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, insert, select, update

from assayd.model.attempt import Attempt
from assayd.model.generation import Draft, Generation, GenerationOutcome, Grant
from assayd.model.repair import ReplyCost
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd.ports.llm import ProviderStep
from assayd.store.access import DatabaseAccess
from assayd.store.outbox import Outbox, message_of_generation
from assayd.store.rows import from_micros, to_micros
from assayd.store.steps import DatabaseSteps
from assayd.store.tables import generation_steps, generations

# SQLAlchemy types a select by its columns; rows are read by name here.
Statement = Select[Any]


class DatabaseGenerationStore:
    """Where generations are kept, in SQLite or PostgreSQL."""

    def __init__(self, access: DatabaseAccess) -> None:
        self._access = access
        self._steps = DatabaseSteps(access, generation_steps)
        self._outbox = Outbox(access)

    async def save(self, generation: Generation) -> None:
        """Record a generation as it is now, durably."""
        whole, message = _values(generation), message_of_generation(generation)
        known_end = select(generations.c.finished_at).where(generations.c.id == generation.id)

        def apply(connection: Connection) -> None:
            if connection.execute(known_end).scalar() != whole["finished_at"]:
                self._outbox.add(connection, message)
            mine = update(generations).where(generations.c.id == generation.id)
            if connection.execute(mine.values(whole)).rowcount == 0:
                connection.execute(insert(generations), whole)

        await self._access.write(apply)
        if message is not None:
            self._outbox.announce()

    async def get(self, generation_id: str) -> Generation | None:
        """Look a generation up."""
        found = await self._read(select(generations).where(generations.c.id == generation_id))
        return found[0] if found else None

    async def list(self, *, uid: int | None, before: str | None, limit: int) -> Sequence[Generation]:
        """Return generations, newest first."""
        statement = select(generations).order_by(generations.c.id.desc()).limit(limit)
        if uid is not None:
            statement = statement.where(generations.c.uid == uid)
        if before is not None:
            statement = statement.where(generations.c.id < before)
        return await self._read(statement)

    async def of_attempt(self, attempt: Attempt) -> Generation | None:
        """Return the generation whose last attempt this is."""
        mine = select(generations).where(generations.c.uid == attempt.peer.uid)  # there is an index of those
        found = await self._read(mine.where(generations.c.attempt_id == attempt.id))
        return found[0] if found else None

    async def unfinished(self) -> Sequence[Generation]:
        """Return every generation without an outcome, oldest first."""
        unfinished = select(generations).where(generations.c.outcome.is_(None))
        return await self._read(unfinished.order_by(generations.c.id))

    async def save_step(self, generation_id: str, step: ProviderStep) -> None:
        """Record an answer whole, durably; one that is there already stays."""
        await self._steps.save(generation_id, step)

    async def step(self, generation_id: str, number: int) -> ProviderStep | None:
        """Look an answer up."""
        return await self._steps.get(generation_id, number)

    async def _read(self, statement: Statement) -> Sequence[Generation]:
        return await self._access.read(
            lambda connection: [_read(row) for row in connection.execute(statement).mappings()]
        )


def _values(generation: Generation) -> dict[str, object]:
    return {
        "id": generation.id,
        "kind": generation.kind,
        "uid": generation.peer.uid,
        "gid": generation.peer.gid,
        "pid": generation.peer.pid,
        "provider": generation.provider,
        "policy": generation.policy,
        "intent": generation.intent,
        "context": json.dumps(generation.context),
        "labels": json.dumps(dict(generation.labels)),
        "max_attempts": generation.max_attempts,
        "started_at": to_micros(generation.started_at),
        "ends_at": to_micros(generation.ends_at),
        "grants": json.dumps([
            {"uid": one.uid, "at": to_micros(one.at), "hint": one.hint} for one in generation.grants
        ]),
        "drafts": json.dumps([_draft_values(draft) for draft in generation.drafts]),
        "attempt_id": generation.attempt_id,
        "outcome": generation.outcome,
        "detail": generation.detail,
        "finished_at": None if generation.finished_at is None else to_micros(generation.finished_at),
        "webhook": generation.webhook,
    }  # fmt: skip


def _draft_values(draft: Draft) -> dict[str, object]:
    return {
        "number": draft.number,
        "grant": draft.grant,
        "asked_at": to_micros(draft.asked_at),
        "reason": draft.reason,
        "text": draft.text,
        "form": draft.form,
        "problem": draft.problem,
        "parent_id": draft.parent_id,
        "attempt_id": draft.attempt_id,
        "repair_id": draft.repair_id,
        "verdict": draft.verdict,
        "cause": draft.cause,
        "input_tokens": draft.usage.input_tokens,
        "output_tokens": draft.usage.output_tokens,
        "took_s": draft.usage.took_s,
    }


def _read(row: RowMapping) -> Generation:
    whole = Generation(
        id=row["id"],
        kind=row["kind"],
        peer=Peer(uid=row["uid"], gid=row["gid"], pid=row["pid"]),
        provider=row["provider"],
        policy=row["policy"],
        intent=row["intent"],
        context=json.loads(row["context"]),
        labels=json.loads(row["labels"]),
        max_attempts=row["max_attempts"],
        started_at=from_micros(row["started_at"]),
        ends_at=from_micros(row["ends_at"]),
        attempt_id=row["attempt_id"],
        outcome=None if row["outcome"] is None else GenerationOutcome(row["outcome"]),
        detail=row["detail"],
        finished_at=_moment(row["finished_at"]),
        webhook=row["webhook"],
    )
    grants = tuple(
        Grant(uid=one["uid"], at=from_micros(one["at"]), hint=one["hint"])
        for one in json.loads(row["grants"])
    )
    return replace(whole, grants=grants, drafts=tuple(_read_draft(one) for one in json.loads(row["drafts"])))


def _read_draft(found: dict[str, Any]) -> Draft:
    return Draft(
        number=found["number"],
        grant=found["grant"],
        asked_at=from_micros(found["asked_at"]),
        reason=found["reason"],
        text=found["text"],
        form=found["form"],
        problem=found["problem"],
        parent_id=found["parent_id"],
        attempt_id=found["attempt_id"],
        repair_id=found["repair_id"],
        verdict=None if found["verdict"] is None else Verdict(found["verdict"]),
        cause=found["cause"],
        usage=ReplyCost(
            input_tokens=found["input_tokens"],
            output_tokens=found["output_tokens"],
            took_s=found["took_s"],
        ),
    )


def _moment(value: int | None) -> datetime | None:
    return None if value is None else from_micros(value)
