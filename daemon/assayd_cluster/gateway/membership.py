"""Tracks the live gateways, and decides which gateway drives each unfinished item of work.

A gateway sends heartbeats timed by the database's clock. If a gateway has sent no heartbeat for 15 seconds,
or has shut down in an orderly way, another gateway takes over its work in one transaction, and recovers it
as a daemon does after a crash. If a gateway's own row is missing, the others have declared it dead, and it
stops immediately. `GatewayWorkAssignment` implements `driving.WorkAssignment` for batches, repairs and
generations.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog
from sqlalchemy import Connection, bindparam, case, delete, exists, insert, literal, not_, select, update
from sqlalchemy.dialects import postgresql

from assayd import __version__
from assayd.errors import StoreError
from assayd.ports.driving import WorkKind
from assayd.store import tables
from assayd.store.access import DatabaseAccess
from assayd_cluster.documents import HEARTBEAT_INTERVAL_S
from assayd_cluster.gateway.notices import GatewayNotices
from assayd_cluster.gateway.outbox import compute_ticket_digest, generate_ticket
from assayd_cluster.tables import LIVE_SINCE, NOW, dispatches, drivers, gateways, uploads

log = structlog.get_logger()


HEARTBEATS_PER_CLEANUP = 12
"""Number of heartbeats between two cleanups of assignments."""

_INSERT_GATEWAY = insert(gateways).values(id=bindparam("gateway"), beat_at=NOW, version=__version__)
_BEAT = update(gateways).where(gateways.c.id == bindparam("gateway")).values(beat_at=NOW)
_LEAVE = delete(gateways).where(gateways.c.id == bindparam("gateway"))
_DELETE_DEAD_GATEWAYS = delete(gateways).where(gateways.c.beat_at < LIVE_SINCE)
_ADOPT_ATTEMPTS = (
    update(dispatches)
    .where(not_(exists().where(gateways.c.id == dispatches.c.gateway_id)))
    .values(gateway_id=bindparam("gateway"), published_at=None)
    .returning(dispatches.c.attempt_id)
)
_ADOPT_DRIVEN_WORK = (
    update(drivers)
    .where(not_(exists().where(gateways.c.id == drivers.c.gateway_id)))
    .values(gateway_id=bindparam("gateway"))
    .returning(drivers.c.kind, drivers.c.subject)
)
_FORGET_UPLOADS = delete(uploads).where(not_(exists().where(dispatches.c.attempt_id == uploads.c.attempt_id)))
_INSERT_UNLISTED = insert(dispatches).from_select(
    ["attempt_id", "gateway_id", "ticket_sha256", "created_at"],
    select(tables.attempts.c.id, literal(""), bindparam("ticket"), NOW).where(
        not_(exists().where(tables.verdicts.c.attempt_id == tables.attempts.c.id)),
        not_(exists().where(dispatches.c.attempt_id == tables.attempts.c.id)),
    ),
)
_DRIVEN_TABLES = (
    (WorkKind.BATCH, tables.batches, tables.batches.c.created_at),
    (WorkKind.REPAIR, tables.repairs, tables.repairs.c.started_at),
    (WorkKind.GENERATION, tables.generations, tables.generations.c.started_at),
    (WorkKind.WORKFLOW, tables.workflows, tables.workflows.c.created_at),
)
_FORGET_ENDED = [
    delete(drivers).where(
        drivers.c.kind == kind.value,
        not_(exists().where(table.c.id == drivers.c.subject, table.c.finished_at.is_(None))),
    )
    for kind, table, _ in _DRIVEN_TABLES
]
# Work of a gateway that died between creating and taking it.
_LIST_UNDRIVEN = [
    insert(drivers).from_select(
        ["kind", "subject", "gateway_id"],
        select(literal(kind.value), table.c.id, literal("")).where(
            table.c.finished_at.is_(None),
            began_at < LIVE_SINCE,
            not_(exists().where(drivers.c.kind == kind.value, drivers.c.subject == table.c.id)),
        ),
    )
    for kind, table, began_at in _DRIVEN_TABLES
]

_NEW = postgresql.insert(drivers).values(
    kind=bindparam("kind"), subject=bindparam("subject"), gateway_id=bindparam("gateway")
)
# The work of a live gateway stays there.
_CLAIM = _NEW.on_conflict_do_update(
    index_elements=["kind", "subject"],
    set_={
        "gateway_id": case(
            (exists().where(gateways.c.id == drivers.c.gateway_id), drivers.c.gateway_id),
            else_=_NEW.excluded.gateway_id,
        )
    },
).returning(drivers.c.gateway_id)
_SELECT_DRIVER = select(drivers.c.gateway_id).where(
    drivers.c.kind == bindparam("kind"), drivers.c.subject == bindparam("subject")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedWork:
    """The work that a gateway has taken over: attempts, and other work with its kind and id."""

    attempts: Sequence[str] = ()
    driven: Sequence[tuple[str, str]] = ()


Inherit = Callable[[AdoptedWork], Awaitable[None]]
"""A function that continues the work which this gateway has taken over."""


class Membership:
    """The membership of one gateway in the cluster, kept alive by heartbeats."""

    def __init__(self, access: DatabaseAccess, gateway_id: str) -> None:
        self._access = access
        self._gateway_id = gateway_id

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Membership]:
        """Keep this gateway a member while the body runs. Afterwards, other gateways take over its work."""
        own = {"gateway": self._gateway_id}
        unlisted = {"ticket": compute_ticket_digest(generate_ticket())}
        await self._access.write(lambda connection: connection.execute(_INSERT_GATEWAY, own).close())
        await self._access.write(lambda connection: connection.execute(_INSERT_UNLISTED, unlisted).close())
        try:
            yield self
        finally:
            await self._leave_cluster()

    async def _leave_cluster(self) -> None:
        try:
            await self._access.write(
                lambda connection: connection.execute(_LEAVE, {"gateway": self._gateway_id}).close()
            )
        except StoreError as trouble:  # other gateways find out by themselves
            log.warning("gateway.not_left", code=trouble.code)

    async def keep(self, inherit: Inherit) -> None:
        """Send heartbeats and take over dead gateways' work, until this gateway is declared dead."""
        beats = 0
        while True:
            try:
                if beats % HEARTBEATS_PER_CLEANUP == 0:
                    await self.clean_up_assignments()
                if not await self.beat():
                    log.critical("gateway.superseded", gateway_id=self._gateway_id)
                    return
                adopted_work = await self.adopt_orphaned_work()
                if adopted_work.attempts or adopted_work.driven:
                    log.warning(
                        "gateway.inherited",
                        attempts=len(adopted_work.attempts),
                        others=len(adopted_work.driven),
                    )
                    await inherit(adopted_work)
            except StoreError as trouble:
                log.error("gateway.not_beaten", code=trouble.code)
            await asyncio.sleep(HEARTBEAT_INTERVAL_S)
            beats += 1

    async def beat(self) -> bool:
        """Send a heartbeat. Return False if this gateway was declared dead."""
        own = {"gateway": self._gateway_id}
        return await self._access.write(
            lambda connection: connection.execute(_BEAT, own).rowcount == 1, durable=False
        )

    async def clean_up_assignments(self) -> None:
        """Delete the assignments of ended work, and take over work that no gateway drives."""

        def apply(connection: Connection) -> None:
            connection.execute(_FORGET_UPLOADS)
            for statement in (*_FORGET_ENDED, *_LIST_UNDRIVEN):
                connection.execute(statement)

        await self._access.write(apply, durable=False)

    async def adopt_orphaned_work(self) -> AdoptedWork:
        """Take over the work that belongs to no live gateway, and return it."""
        own = {"gateway": self._gateway_id}

        def apply(connection: Connection) -> AdoptedWork:
            connection.execute(_DELETE_DEAD_GATEWAYS)
            return AdoptedWork(
                attempts=list(connection.execute(_ADOPT_ATTEMPTS, own).scalars()),
                driven=[(row.kind, row.subject) for row in connection.execute(_ADOPT_DRIVEN_WORK, own)],
            )

        return await self._access.write(apply)


class GatewayWorkAssignment:
    """The table that assigns batches, repairs and other work to gateways."""

    alone = False

    def __init__(self, access: DatabaseAccess, gateway_id: str, notices: GatewayNotices) -> None:
        self._access = access
        self._gateway_id = gateway_id
        self._notices = notices

    async def claim(self, kind: WorkKind, subject: str) -> bool:
        """Claim work that no live gateway drives, and return whether this gateway drives it.

        If another gateway drives the work, that gateway is notified.
        """
        values = {"kind": kind.value, "subject": subject, "gateway": self._gateway_id}

        def apply(connection: Connection) -> bool:
            mine = bool(connection.execute(_CLAIM, values).scalar_one() == self._gateway_id)
            if not mine:
                self._notices.send_notice(connection, "look", what=kind.value, subject=subject)
            return mine

        return await self._access.write(apply)

    async def is_assigned_here(self, kind: WorkKind, subject: str) -> bool:
        """Return whether this gateway drives the work."""
        values = {"kind": kind.value, "subject": subject}
        whose = await self._access.read(
            lambda connection: connection.execute(_SELECT_DRIVER, values).scalar()
        )
        return whose == self._gateway_id

    async def request_cancel(self, kind: WorkKind, subject: str) -> bool:
        """Notify the gateway that drives the work to end it. Return False if no other gateway drives it."""
        values = {"kind": kind.value, "subject": subject}

        def apply(connection: Connection) -> bool:
            whose = connection.execute(_SELECT_DRIVER, values).scalar()
            if whose in {None, self._gateway_id}:
                return False
            self._notices.send_notice(connection, "end", what=kind.value, subject=subject)
            return True

        return await self._access.write(apply)
