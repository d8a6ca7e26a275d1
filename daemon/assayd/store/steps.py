"""Answers of providers in a database: written once, whole, before anything is made of them."""

from __future__ import annotations

import json

from sqlalchemy import RowMapping, Table, select

from assayd.model.repair import ReplyCost
from assayd.ports.llm import ProviderStep, Reply
from assayd.store.access import DatabaseAccess
from assayd.store.rows import from_micros, to_micros


class DatabaseSteps:
    """The answers of one table, whose first column names what they belong to."""

    def __init__(self, access: DatabaseAccess, table: Table) -> None:
        self._access = access
        self._table = table
        self._owner = next(iter(table.c))
        self._insert = access.insert_or_nothing(table)

    async def save(self, owner_id: str, step: ProviderStep) -> None:
        """Record an answer, durably; one that is there already stays."""
        values = {
            self._owner.name: owner_id,
            "number": step.number,
            "provider": step.provider,
            "asked_at": to_micros(step.asked_at),
            "system": step.system,
            "user": step.user,
            "answer": step.reply.text,
            "reply": _written(step.reply),
        }
        await self._access.write(lambda connection: connection.execute(self._insert, values).close())

    async def get(self, owner_id: str, number: int) -> ProviderStep | None:
        """Look an answer up."""
        wanted = select(self._table).where(self._owner == owner_id, self._table.c.number == number)
        row = await self._access.read(lambda connection: connection.execute(wanted).mappings().first())
        return None if row is None else _read(row)


def _written(reply: Reply) -> str:
    return json.dumps({
        "code": reply.code,
        "files": dict(reply.files),
        "steps": [dict(step) for step in reply.steps],
        "reason": reply.reason,
        "input_tokens": reply.usage.input_tokens,
        "output_tokens": reply.usage.output_tokens,
        "took_s": reply.usage.took_s,
    })  # fmt: skip


def _read(row: RowMapping) -> ProviderStep:
    found = json.loads(row["reply"])
    usage = ReplyCost(
        input_tokens=found["input_tokens"], output_tokens=found["output_tokens"], took_s=found["took_s"]
    )
    return ProviderStep(
        number=row["number"],
        provider=row["provider"],
        asked_at=from_micros(row["asked_at"]),
        system=row["system"],
        user=row["user"],
        reply=Reply(
            code=found["code"],
            files=found["files"],
            steps=tuple(found["steps"]),
            reason=found["reason"],
            usage=usage,
            text=row["answer"],
        ),
    )
