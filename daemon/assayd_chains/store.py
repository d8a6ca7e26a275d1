"""Stores chains in a database. Because a chain is small, one transaction writes it completely.

A generation is a row of `generations`, which contains the drafts and grants as JSON. Each failed attempt is
a row of `repairs` and its fixes are rows of `repair_fixes`, whether or not the attempt belongs to a
generation. Answers of providers are written only once, completely, and before they are used. This module
maps values to the rows of the tables that `assayd.store.tables` defines.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, Table, delete, insert, select, update

from assayd.model.attempt import Attempt
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd.ports.service import AttemptRepair
from assayd.store.access import DatabaseAccess
from assayd.store.outbox import Outbox
from assayd.store.tables import (
    Values,
    from_micros,
    generation_steps,
    generations,
    read_optional_time,
    repair_fixes,
    repair_steps,
    repairs,
    to_micros,
)
from assayd_chains.answer_counts import AnswerCounts, count_answers
from assayd_chains.documents import build_generation_message
from assayd_chains.model import (
    UNUSABLE_CAUSE,
    Answer,
    BudgetGrant,
    Chain,
    ChainRound,
    Failure,
    GenerationRequest,
    Outcome,
    Repair,
    ReplyCost,
    Strategy,
)
from assayd_chains.provider import ProviderStep, Reply

# SQLAlchemy types a select by its columns; rows are read by name here.
Statement = Select[Any]

_UNFIT_FIX_MESSAGE = "it doesn't fit into the submission"
"""The problem of a fix that an earlier version stored without a problem."""


class DatabaseChainStore:
    """A store of chains and provider answers in SQLite or PostgreSQL."""

    def __init__(self, access: DatabaseAccess) -> None:
        self._access = access
        self._outbox = Outbox(access)
        self._inserts = {
            table.name: access.build_insert_or_ignore(table) for table in _TABLE_BY_DRAFT.values()
        }

    async def save(self, chain: Chain) -> None:
        """Record the current state of a chain durably, with the webhook message if the chain has ended."""
        message = build_generation_message(chain)
        known_end = select(generations.c.finished_at).where(generations.c.id == chain.id)

        def apply(connection: Connection) -> None:
            if chain.words is not None:
                whole = _build_generation_values(chain, chain.words)
                if connection.execute(known_end).scalar() != whole["finished_at"]:
                    self._outbox.add(connection, message)
                _upsert(connection, generations, whole)
            if chain.repair is not None:
                _save_repair(connection, chain.repair)

        await self._access.write(apply)
        if message is not None:
            self._outbox.wake_sender()

    async def save_repair(self, repair: Repair) -> None:
        """Store a change to a finished repair, e.g. the acceptance of its rules."""
        await self._access.write(lambda connection: _save_repair(connection, repair))

    async def remove(self, chain_id: str) -> None:
        """Delete a repair that wasn't necessary, because its attempt didn't fail."""
        wanted = delete(repairs).where(repairs.c.id == chain_id)
        await self._access.write(lambda connection: connection.execute(wanted).close())

    async def get_generation(self, chain_id: str) -> Chain | None:
        """Return a generation by its id, or None if it doesn't exist."""
        found = await self._fetch_generations(select(generations).where(generations.c.id == chain_id))
        return found[0] if found else None

    async def get_repair(self, repair_id: str) -> Repair | None:
        """Return a repair by its id, or None if it doesn't exist."""
        found = await self._fetch_repairs(select(repairs).where(repairs.c.id == repair_id))
        return found[0] if found else None

    async def chain(self, chain_id: str) -> Chain | None:
        """Return a chain (a generation or a separate repair) by its id, or None if it doesn't exist."""
        if (generation := await self.get_generation(chain_id)) is not None:
            return generation
        repair = await self.get_repair(chain_id)
        return repair.chain() if repair is not None and repair.generation_id is None else None

    async def generations(self, *, uid: int | None, before: str | None, limit: int) -> Sequence[Chain]:
        """Return up to `limit` generations, newest first.

        The result can be limited to one user and to ids before `before`.
        """
        return await self._fetch_generations(_build_page_statement(generations, uid, before, limit))

    async def repairs(
        self, *, uid: int | None = None, before: str | None = None, limit: int = 50
    ) -> Sequence[Repair]:
        """Return up to `limit` repairs, newest first.

        The result can be limited to one user and to ids before `before`.
        """
        return await self._fetch_repairs(_build_page_statement(repairs, uid, before, limit))

    async def repairs_of(self, attempt_id: str) -> Sequence[Repair]:
        """Return the repairs that an attempt began or belongs to, oldest first."""
        member = select(repair_fixes.c.repair_id).where(repair_fixes.c.attempt_id == attempt_id)
        wanted = (repairs.c.attempt_id == attempt_id) | repairs.c.id.in_(member)
        return await self._fetch_repairs(select(repairs).where(wanted).order_by(repairs.c.id))

    async def get_first_repair(self, attempt_id: str) -> AttemptRepair | None:
        """Return the first repair that began with an attempt, in the core's form, or None."""
        found = [one for one in await self.repairs_of(attempt_id) if one.attempt_id == attempt_id]
        if not found:
            return None
        passed = [fix.attempt_id for fix in found[0].fixes if fix.verdict is Verdict.VALIDATED]
        ended = found[0].outcome is not None
        return AttemptRepair(id=found[0].id, ended=ended, attempt_id=passed[-1] if passed else None)

    async def find_generation(self, attempt: Attempt) -> Chain | None:
        """Return the generation whose last attempt is the given one, or None if there is none."""
        mine = select(generations).where(generations.c.uid == attempt.peer.uid)  # which has an index
        found = await self._fetch_generations(mine.where(generations.c.attempt_id == attempt.id))
        return found[0] if found else None

    async def count_answers(self, *, uid: int | None, since: datetime, kind: str | None) -> AnswerCounts:
        """Count answers in the newest chains that began after a time, by kind, provider and week."""
        return await self._access.read(lambda connection: count_answers(connection, uid, since, kind))

    async def list_unfinished(self) -> Sequence[Chain]:
        """Return all chains without a recorded outcome, in order of creation."""
        alone = select(repairs).where(repairs.c.outcome.is_(None), repairs.c.generation_id.is_(None))
        found = await self._fetch_generations(select(generations).where(generations.c.outcome.is_(None)))
        return sorted(
            [*found, *(repair.chain() for repair in await self._fetch_repairs(alone))],
            key=lambda chain: chain.id,
        )

    async def save_step(self, owner_id: str, step: ProviderStep, *, draft: bool) -> None:
        """Store an answer durably. An answer that is already stored isn't changed.

        Args:
            owner_id: the generation of a draft, or the repair of a fix.
            step: the answer with its prompt.
            draft: whether the answer is a draft for a generation's request.
        """
        table = _TABLE_BY_DRAFT[draft]
        values = {_get_owner_column(table).name: owner_id, **_build_step_values(step)}
        insert_new = self._inserts[table.name]
        await self._access.write(lambda connection: connection.execute(insert_new, values).close())

    async def step(self, owner_id: str, number: int, *, draft: bool) -> ProviderStep | None:
        """Return the answer with this number and its prompt, or None if the answer doesn't exist."""
        table = _TABLE_BY_DRAFT[draft]
        wanted = select(table).where(_get_owner_column(table) == owner_id, table.c.number == number)
        row = await self._access.read(lambda connection: connection.execute(wanted).mappings().first())
        return None if row is None else _build_step_from_row(row)

    async def _fetch_repairs(self, statement: Statement) -> Sequence[Repair]:
        return await self._access.read(lambda connection: _fetch_repairs_with_fixes(connection, statement))

    async def _fetch_generations(self, statement: Statement) -> Sequence[Chain]:
        def fetch(connection: Connection) -> Sequence[Chain]:
            rows = connection.execute(statement).mappings().all()
            drafts = {row["id"]: json.loads(row["drafts"]) for row in rows}
            ids = [one["repair_id"] for some in drafts.values() for one in some if one["repair_id"]]
            found = (
                _fetch_repairs_with_fixes(connection, select(repairs).where(repairs.c.id.in_(ids)))
                if ids
                else []
            )
            by_id = {repair.id: repair for repair in found}
            return [_build_generation_from_row(row, drafts[row["id"]], by_id) for row in rows]

        return await self._access.read(fetch)


_TABLE_BY_DRAFT = {True: generation_steps, False: repair_steps}
"""The tables of drafts (True) and of fixes (False), whose first column contains the owner's id."""


def _get_owner_column(table: Table) -> Any:
    return next(iter(table.c))


def _build_page_statement(table: Table, uid: int | None, before: str | None, limit: int) -> Statement:
    statement = select(table).order_by(table.c.id.desc()).limit(limit)
    if uid is not None:
        statement = statement.where(table.c.uid == uid)
    return statement if before is None else statement.where(table.c.id < before)


def _upsert(connection: Connection, table: Table, values: Values) -> None:
    """Update the row with the given id, or insert the row if it doesn't exist."""
    mine = update(table).where(table.c.id == values["id"])
    if connection.execute(mine.values(values)).rowcount == 0:
        connection.execute(insert(table), values)


def _save_repair(connection: Connection, repair: Repair) -> None:
    connection.execute(delete(repair_fixes).where(repair_fixes.c.repair_id == repair.id))
    _upsert(connection, repairs, _build_repair_values(repair))
    if repair.fixes:
        connection.execute(insert(repair_fixes), [_build_fix_values(repair.id, fix) for fix in repair.fixes])


def _fetch_repairs_with_fixes(connection: Connection, statement: Statement) -> list[Repair]:
    rows = connection.execute(statement).mappings().all()
    ids = [row["id"] for row in rows]
    fixes = select(repair_fixes).where(repair_fixes.c.repair_id.in_(ids)).order_by(repair_fixes.c.number)
    by_repair: dict[str, list[Answer]] = {}
    for row in connection.execute(fixes).mappings():
        by_repair.setdefault(row["repair_id"], []).append(_build_fix_from_row(row))
    return [_build_repair_from_row(row, by_repair.get(row["id"], [])) for row in rows]


def _build_repair_values(repair: Repair) -> Values:
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
        "first_fingerprint": repair.failure.fingerprint,
        "first_digest": repair.failure.digest,
        "first_cause": repair.failure.cause,
        "hint": repair.hint,
        "granted_by": repair.granted_by,
        "generation_id": repair.generation_id,
        "outcome": None if repair.outcome is None else repair.outcome.repair_outcome_name,
        "detail": repair.detail,
        "fallback": None if repair.fallback is None else json.dumps(repair.fallback, sort_keys=True),
    }


def _build_repair_from_row(row: RowMapping, fixes: Sequence[Answer]) -> Repair:
    failure = Failure(
        attempt_id=row["attempt_id"],
        at=from_micros(row["started_at"]),
        fingerprint=row["first_fingerprint"],
        digest=row["first_digest"],
        cause=row["first_cause"],
    )
    return Repair(
        id=row["id"],
        kind=row["kind"],
        provider=row["provider"],
        uid=row["uid"],
        max_attempts=row["max_attempts"],
        ends_at=from_micros(row["ends_at"]),
        failure=failure,
        fixes=tuple(fixes),
        hint=row["hint"],
        granted_by=row["granted_by"],
        generation_id=row["generation_id"],
        fallback=None if row["fallback"] is None else json.loads(row["fallback"]),
        outcome=None if row["outcome"] is None else Outcome.from_repair_outcome_name(row["outcome"]),
        detail=row["detail"],
        finished_at=read_optional_time(row["finished_at"]),
    )


def _build_fix_values(repair_id: str, fix: Answer) -> Values:
    return {
        "repair_id": repair_id,
        "number": fix.number,
        "strategy": fix.strategy,
        "asked_at": to_micros(fix.asked_at),
        "error": fix.error,
        "reason": fix.reason,
        "passage": fix.passage,
        "patched_code": fix.text,
        "form": fix.form,
        "digest": fix.digest or "",
        "duplicate": int(fix.duplicate),
        "problem": fix.problem,
        "attempt_id": fix.attempt_id,
        "verdict": fix.verdict,
        "cause": fix.cause if fix.problem is None else UNUSABLE_CAUSE,
        "fingerprint": fix.fingerprint,
        **_build_cost_values(fix.usage),
    }


def _build_fix_from_row(row: RowMapping) -> Answer:
    unusable = row["cause"] == UNUSABLE_CAUSE
    return Answer(
        number=row["number"],
        strategy=Strategy(row["strategy"]),
        asked_at=from_micros(row["asked_at"]),
        error=row["error"],
        reason=row["reason"],
        passage=row["passage"],
        text=row["patched_code"],
        form=row["form"],
        digest=row["digest"],
        duplicate=bool(row["duplicate"]),
        problem=(row["problem"] or _UNFIT_FIX_MESSAGE) if unusable else None,
        attempt_id=row["attempt_id"],
        verdict=None if row["verdict"] is None else Verdict(row["verdict"]),
        cause=None if unusable else row["cause"],
        fingerprint=row["fingerprint"],
        usage=_build_cost_from_row(row),
    )


def _build_generation_values(chain: Chain, words: GenerationRequest) -> Values:
    current = chain.round
    return {
        "id": chain.id,
        "kind": chain.kind,
        "uid": words.peer.uid,
        "gid": words.peer.gid,
        "pid": words.peer.pid,
        "provider": chain.provider,
        "policy": words.policy,
        "intent": words.intent,
        "context": json.dumps(words.context),
        "labels": json.dumps(dict(words.labels)),
        "max_attempts": chain.max_attempts,
        "started_at": to_micros(chain.started_at),
        "ends_at": to_micros(chain.ends_at),
        "grants": json.dumps([
            {"uid": one.uid, "at": to_micros(one.at), "hint": one.hint} for one in chain.grants
        ]),
        "drafts": json.dumps([
            _build_draft_values(draft, number, each)
            for number, each in enumerate(chain.rounds)
            for draft in each.drafts
        ]),
        "attempt_id": chain.last_attempt_id,
        "outcome": chain.outcome,
        "detail": current.detail,
        "finished_at": None if current.finished_at is None else to_micros(current.finished_at),
        "webhook": words.webhook,
    }  # fmt: skip


def _build_draft_values(draft: Answer, number: int, each: ChainRound) -> Values:
    return {
        "number": draft.number,
        "grant": number,
        "asked_at": to_micros(draft.asked_at),
        "reason": draft.reason,
        "text": draft.text,
        "form": draft.form,
        "problem": draft.problem,
        "parent_id": each.follows,
        "attempt_id": draft.attempt_id,
        "repair_id": None if draft.attempt_id is None else each.repair_id,
        "verdict": draft.verdict,
        "cause": draft.cause,
        **_build_cost_values(draft.usage),
    }


def _build_generation_from_row(row: RowMapping, drafts: Sequence[Any], found: Mapping[str, Repair]) -> Chain:
    peer = Peer(uid=row["uid"], gid=row["gid"], pid=row["pid"])
    grants = [
        BudgetGrant(uid=one["uid"], at=from_micros(one["at"]), hint=one["hint"])
        for one in json.loads(row["grants"])
    ]
    rounds = [
        _build_round_from_rows(grant, [one for one in drafts if one["grant"] == number], found)
        for number, grant in enumerate((None, *grants))
    ]
    rounds[-1] = _complete_newest_round(row, rounds[-1])
    repair = found.get(rounds[-1].repair_id or "")
    return Chain(
        id=row["id"],
        kind=row["kind"],
        provider=row["provider"],
        uid=row["uid"],
        max_attempts=row["max_attempts"],
        started_at=from_micros(row["started_at"]),
        ends_at=from_micros(row["ends_at"]) if repair is None else repair.ends_at,
        words=GenerationRequest(
            peer=peer,
            policy=row["policy"],
            intent=row["intent"],
            context=json.loads(row["context"]),
            labels=json.loads(row["labels"]),
            webhook=row["webhook"],
        ),
        rounds=tuple(rounds),
    )


def _build_round_from_rows(
    grant: BudgetGrant | None, drafts: Sequence[Any], found: Mapping[str, Repair]
) -> ChainRound:
    repair_id = next((one["repair_id"] for one in drafts if one["repair_id"] is not None), None)
    follows = drafts[0]["parent_id"] if drafts else None
    begun = ChainRound(
        grant=grant, follows=follows, drafts=tuple(map(_build_draft_from_row, drafts)), repair_id=repair_id
    )
    repair = found.get(repair_id or "")
    if repair is None:
        return begun
    return replace(
        begun,
        failure=repair.failure,
        fixes=repair.fixes,
        fallback=repair.fallback,
        outcome=repair.outcome,
        detail=repair.detail,
        finished_at=repair.finished_at,
    )


def _complete_newest_round(row: RowMapping, newest: ChainRound) -> ChainRound:
    """Return the newest round, completed with the values in its generation's row."""
    if not newest.drafts:
        newest = replace(newest, follows=row["attempt_id"])
    if row["outcome"] is None:
        return newest
    return replace(
        newest,
        outcome=Outcome(row["outcome"]),
        detail=row["detail"],
        finished_at=read_optional_time(row["finished_at"]),
    )


def _build_draft_from_row(found: Mapping[str, Any]) -> Answer:
    return Answer(
        number=found["number"],
        strategy=Strategy.WRITE,
        asked_at=from_micros(found["asked_at"]),
        reason=found["reason"],
        text=found["text"],
        passage=found["form"],
        form=found["form"],
        problem=found["problem"],
        attempt_id=found["attempt_id"],
        verdict=None if found["verdict"] is None else Verdict(found["verdict"]),
        cause=found["cause"],
        usage=_build_cost_from_row(found),
    )


def _build_step_values(step: ProviderStep) -> Values:
    reply = step.reply
    return {
        "number": step.number,
        "provider": step.provider,
        "asked_at": to_micros(step.asked_at),
        "system": step.system,
        "user": step.user,
        "answer": reply.text,
        "reply": json.dumps({
            "code": reply.code,
            "files": dict(reply.files),
            "steps": [dict(one) for one in reply.steps],
            "reason": reply.reason,
            "question": reply.question,
            **_build_cost_values(reply.usage),
        }),
    }  # fmt: skip


def _build_step_from_row(row: RowMapping) -> ProviderStep:
    found = json.loads(row["reply"])
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
            usage=_build_cost_from_row(found),
            text=row["answer"],
            question=found.get("question", ""),
        ),
    )


def _build_cost_values(usage: ReplyCost) -> Values:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "took_s": usage.took_s,
    }


def _build_cost_from_row(found: Mapping[Any, Any]) -> ReplyCost:
    return ReplyCost(
        input_tokens=found["input_tokens"], output_tokens=found["output_tokens"], took_s=found["took_s"]
    )
