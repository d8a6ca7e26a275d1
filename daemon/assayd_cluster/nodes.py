"""Reads the nodes for operators: the state that each node last reported, and whether it can accept work."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    case,
    cast,
    delete,
    extract,
    func,
    select,
    update,
)
from sqlalchemy.types import BigInteger

from assayd.documents.cluster import NodeState
from assayd.errors import RequestError
from assayd.store.access import DatabaseAccess
from assayd.store.tables import from_micros
from assayd_cluster.documents import LIVE_S
from assayd_cluster.tables import dispatches, gateways, nodes, tokens

DRAINED = "drained by an operator"
FAILING = (
    "drained by a gateway, because it returned no verdicts or claimed no runs; check its host, then resume it"
)
STOPPED = "stopped in order"
FULL = "runs wait in its daemon, because the daemon or its engine is busy"


class DrainState(IntEnum):
    """The drain state of a node: not drained, or drained by an operator or a gateway."""

    NO = 0
    """The node isn't drained."""
    BY_OPERATOR = 1
    """An operator drained the node."""
    BY_GATEWAY = 2
    """By a gateway, because the node returned no verdicts, or read messages without claiming runs."""

    @property
    def why(self) -> str:
        """Return the reason why the node accepts no work, or an empty string if it isn't drained."""
        return ("", DRAINED, FAILING)[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node, in the state that it last reported.

    Attributes:
        why: the reason why the node accepts no work; empty if it accepts work.
        in_hand: the number of attempts that the node's worker holds.
        silent_s: the number of seconds since the node's last heartbeat, by the database's clock.
    """

    name: str
    state: NodeState
    why: str
    capacity: int
    in_hand: int
    version: str
    engine: str
    beat_at: datetime
    silent_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxState:
    """The attempts waiting for nodes, across all gateways.

    Attributes:
        unpublished: attempts that the broker has not confirmed.
        oldest_s: the number of seconds for which the oldest unpublished attempt has waited.
        published: attempts that the broker or a node holds.
        gateways: the number of live gateways.
    """

    unpublished: int = 0
    oldest_s: float = 0.0
    published: int = 0
    gateways: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenTokens:
    """The ids of a forgotten node's tokens.

    Attributes:
        revoked: the tokens that were still valid.
        ended: all tokens that are no longer valid; their broker accounts must be removed.
    """

    revoked: Sequence[str] = ()
    ended: Sequence[str] = ()


class DatabaseNodes:
    """A reader and editor of the nodes in the gateways' database."""

    def __init__(self, access: DatabaseAccess) -> None:
        self._access = access

    async def list(self) -> list[Node]:
        """Return all nodes, sorted by name."""
        return [_build_node(row) for row in await self._access.read(_fetch_rows)]

    async def read_outbox_state(self) -> OutboxState:
        """Return the number and age of waiting attempts in the outbox of all gateways."""

        def fetch(connection: Connection) -> OutboxState:
            now = _select_database_time_us(connection)
            waits = dispatches.c.published_at.is_(None)
            found = connection.execute(
                select(
                    func.count(),
                    func.count(dispatches.c.published_at),
                    now - func.min(case((waits, dispatches.c.created_at))),
                ).select_from(dispatches)
            ).one()
            alive = gateways.c.beat_at > now - int(LIVE_S * 1_000_000)
            return OutboxState(
                unpublished=found[0] - found[1],
                oldest_s=max(0.0, (found[2] or 0) / 1_000_000),
                published=found[1],
                gateways=connection.execute(select(func.count()).where(alive)).scalar_one(),
            )

        return await self._access.read(fetch)

    async def set_drained(self, name: str, *, drained: bool) -> Node | None:
        """Drain or resume a node, and return the node, or None if it doesn't exist."""

        def apply(connection: Connection) -> Sequence[RowMapping]:
            connection.execute(update(nodes).where(nodes.c.name == name).values(drained=int(drained)))
            return _fetch_rows(connection, name)

        rows = await self._access.write(apply)
        return _build_node(rows[0]) if rows else None

    async def forget(self, name: str) -> ForgottenTokens | None:
        """Forget a node and revoke its tokens. Return None if the node never existed.

        If the node has already been forgotten, nothing changes, so newer tokens for it stay valid.

        Raises: RequestError ``node.alive``.
        """

        def apply(connection: Connection) -> ForgottenTokens | None:
            rows = _fetch_rows(connection, name)
            if rows and _build_node(rows[0]).state not in {"lost", "stopped"}:
                raise RequestError("node.alive", f"node {name} is alive; stop assayd-node on its host first")
            own = tokens.c.node == name
            ended = list(
                connection.execute(select(tokens.c.id).where(own, tokens.c.revoked_at.is_not(None))).scalars()
            )
            if not rows:
                return ForgottenTokens(ended=ended) if ended else None
            connection.execute(delete(nodes).where(nodes.c.name == name))
            revoke = update(tokens).where(own, tokens.c.revoked_at.is_(None))
            revoke = revoke.values(revoked_at=_select_database_time_us(connection)).returning(tokens.c.id)
            revoked = list(connection.execute(revoke).scalars())
            return ForgottenTokens(revoked=revoked, ended=[*revoked, *ended])

        return await self._access.write(apply)


def _fetch_rows(connection: Connection, name: str | None = None) -> Sequence[RowMapping]:
    wanted = select(nodes, _select_database_time_us(connection).label("now")).order_by(nodes.c.name)
    if name is not None:
        wanted = wanted.where(nodes.c.name == name)
    return connection.execute(wanted).mappings().all()


def _select_database_time_us(connection: Connection) -> ColumnElement[int]:
    """Return the database's time in microseconds since 1970."""
    if connection.dialect.name == "postgresql":
        return cast(extract("epoch", func.clock_timestamp()) * 1_000_000, BigInteger)
    return cast((func.julianday("now") - 2440587.5) * 86_400_000_000, BigInteger)


def _build_node(row: RowMapping) -> Node:
    silent_s = max(0.0, (row["now"] - row["beat_at"]) / 1_000_000)
    state, why = _derive_state(row, silent_s)
    return Node(
        name=row["name"],
        state=state,
        why=why,
        capacity=row["capacity"],
        in_hand=len(json.loads(row["runs"])),
        version=row["version"],
        engine=row["engine"],
        beat_at=from_micros(row["beat_at"]),
        silent_s=round(silent_s, 3),
    )


def _derive_state(row: RowMapping, silent_s: float) -> tuple[NodeState, str]:
    """Return a node's state, and the reason if it accepts no work (or an empty string)."""
    if row["why"] == STOPPED:
        return "stopped", STOPPED
    if silent_s > LIVE_S:
        return "lost", f"silent for {silent_s:.0f} s; check that its host and assayd-node run"
    if row["drained"]:
        return "draining", DrainState(row["drained"]).why
    return ("ready", "") if row["consumes"] else ("not_ready", row["why"])
