"""Decides which gateway drives a batch, a repair or a generation. Implements `driving.WorkAssignment`."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, case, exists, select
from sqlalchemy.dialects.postgresql import insert

from assayd.ports.driving import WorkKind
from assayd.store.access import DatabaseAccess
from assayd_cluster.gateway.notices import GatewayNotices
from assayd_cluster.tables import drivers, gateways

_NEW = insert(drivers).values(
    kind=bindparam("kind"), subject=bindparam("subject"), gateway_id=bindparam("gateway")
)
# The work of a live gateway stays there.
_TAKE = _NEW.on_conflict_do_update(
    index_elements=["kind", "subject"],
    set_={
        "gateway_id": case(
            (exists().where(gateways.c.id == drivers.c.gateway_id), drivers.c.gateway_id),
            else_=_NEW.excluded.gateway_id,
        )
    },
).returning(drivers.c.gateway_id)
_WHOSE = select(drivers.c.gateway_id).where(
    drivers.c.kind == bindparam("kind"), drivers.c.subject == bindparam("subject")
)


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
            mine = bool(connection.execute(_TAKE, values).scalar_one() == self._gateway_id)
            if not mine:
                self._notices.send_notice(connection, "look", what=kind.value, subject=subject)
            return mine

        return await self._access.write(apply)

    async def is_assigned_here(self, kind: WorkKind, subject: str) -> bool:
        """Return whether this gateway drives the work."""
        values = {"kind": kind.value, "subject": subject}
        whose = await self._access.read(lambda connection: connection.execute(_WHOSE, values).scalar())
        return whose == self._gateway_id

    async def request_cancel(self, kind: WorkKind, subject: str) -> bool:
        """Notify the gateway that drives the work to end it. Return False if no other gateway drives it."""
        values = {"kind": kind.value, "subject": subject}

        def apply(connection: Connection) -> bool:
            whose = connection.execute(_WHOSE, values).scalar()
            if whose in {None, self._gateway_id}:
                return False
            self._notices.send_notice(connection, "end", what=kind.value, subject=subject)
            return True

        return await self._access.write(apply)
