"""Stores the state that each node last reported, shows it to operators, and decides who accepts work."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    RowMapping,
    and_,
    case,
    cast,
    delete,
    extract,
    func,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.types import BigInteger

from assayd import __version__
from assayd.documents.cluster import NodeState
from assayd.errors import RequestError
from assayd.store.access import DatabaseAccess
from assayd.store.tables import from_micros
from assayd_cluster.documents import HEARTBEAT_TIMEOUT_S, HeartbeatAnswer, NodeHeartbeat
from assayd_cluster.tables import LIVE_SINCE, NOW, dispatches, gateways, nodes, tokens

DRAINED_REASON = "drained by an operator"
FAILING_REASON = (
    "drained by a gateway, because it returned no verdicts or claimed no runs; check its host, then resume it"
)
STOPPED_REASON = "stopped in order"
FULL = "runs wait in its daemon, because the daemon or its engine is busy"

_LIVE = select(nodes, NOW.label("now")).where(nodes.c.beat_at > LIVE_SINCE).order_by(nodes.c.name)
_GATEWAYS = select(func.count(), func.min(gateways.c.id)).where(gateways.c.beat_at > LIVE_SINCE)


class DrainState(IntEnum):
    """The drain state of a node: not drained, or drained by an operator or a gateway."""

    NO = 0
    """The node isn't drained."""
    BY_OPERATOR = 1
    """An operator drained the node."""
    BY_GATEWAY = 2
    """A gateway drained the node, because it returned no verdicts, or read messages without claiming runs."""

    @property
    def why(self) -> str:
        """Return the reason why the node accepts no work, or an empty string if it isn't drained."""
        return ("", DRAINED_REASON, FAILING_REASON)[self]


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
            alive = gateways.c.beat_at > now - int(HEARTBEAT_TIMEOUT_S * 1_000_000)
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

        Raises: RequestError ``node.alive``, if the node still sends heartbeats.
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
    if row["why"] == STOPPED_REASON:
        return "stopped", STOPPED_REASON
    if silent_s > HEARTBEAT_TIMEOUT_S:
        return "lost", f"silent for {silent_s:.0f} s; check that its host and assayd-node run"
    if row["drained"]:
        return "draining", DrainState(row["drained"]).why
    return ("ready", "") if row["consumes"] else ("not_ready", row["why"])


def build_accepts_work_condition(table: FromClause = nodes) -> ColumnElement[bool]:
    """Return the SQL condition for a live node that accepts work."""
    return and_(table.c.beat_at > LIVE_SINCE, table.c.consumes == 1, table.c.drained == DrainState.NO)


Profiles = Callable[[], Mapping[str, str]]
"""A function that returns the digests of the profiles in use, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveNode:
    """A node that is alive. `why` is the reason why it accepts no work, or empty if it accepts work."""

    name: str
    capacity: int
    why: str
    version: str
    engine: str
    images: Mapping[str, str]

    @property
    def consumes(self) -> bool:
        """Return whether the node accepts work."""
        return not self.why

    @property
    def is_usable(self) -> bool:
        """Return whether the node accepts work, now or as soon as its daemon has a free place."""
        return self.why in {"", FULL}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """The live nodes and gateways. `eldest` is the gateway that performs the tasks of a single gateway."""

    nodes: Sequence[LiveNode] = ()
    gateways: int = 1
    eldest: str = ""

    @property
    def capacity(self) -> int:
        """Return the total number of attempts that the nodes which accept work can run at once."""
        return sum(node.capacity for node in self.nodes if node.consumes)

    @property
    def share(self) -> int:
        """Return the number of attempts that this gateway can have in progress.

        The shares of all gateways add up to the number of attempts that the nodes can run at once. The
        broker's queue doesn't distinguish tenants, so attempts must not wait in it.
        """
        return -(-self.capacity // self.gateways)


def find_rejection_reason(beat: NodeHeartbeat, profiles: Mapping[str, str]) -> str:
    """Return the reason why a node must not accept work, or an empty string if it can."""
    if beat.leaving:
        return STOPPED_REASON
    if not are_versions_compatible(beat.version, __version__):
        return f"version {beat.version} is more than one minor away from the gateway's {__version__}"
    if beat.draining:
        return "the node is draining"
    if not beat.ready:
        return beat.reason or "its daemon isn't ready"
    different = sorted(name for name, digest in beat.profiles.items() if profiles.get(name, digest) != digest)
    missing = sorted(profiles.keys() - beat.profiles.keys())
    if different or missing:
        listed = ", ".join((*different, *missing)[:10])
        return f"profiles differ from the gateway's: {listed}; install the same files on both and reload"
    return FULL if beat.waiting else ""


def are_versions_compatible(one: str, other: str) -> bool:
    """Return whether the major versions are equal and the minor versions differ by at most one."""
    (major, minor), (other_major, other_minor) = _parse_version(one), _parse_version(other)
    return major == other_major and abs(minor - other_minor) <= 1


def _parse_version(version: str) -> tuple[int, int]:
    numbers = [int(part) if part.isascii() and part.isdigit() else -9 for part in version.split(".")[:2]]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (-9, -9)


class NodeTable:
    """The table of nodes in the database, as used by this gateway."""

    def __init__(self, access: DatabaseAccess, profiles: Profiles, *, most_capacity: int) -> None:
        self._access = access
        self._profiles = profiles
        self._most_capacity = most_capacity

    async def beat(self, name: str, beat: NodeHeartbeat) -> HeartbeatAnswer:
        """Record the state of a node, and return whether the node can claim work."""
        why = find_rejection_reason(beat, self._profiles())
        values = {
            "name": name,
            "beat_at": NOW,
            "capacity": min(beat.capacity, self._most_capacity),
            "consumes": int(not why),
            "why": why,
            "version": beat.version,
            "engine": beat.engine,
            "images": json.dumps(beat.images),
            "runs": json.dumps(beat.runs),
        }
        fresh = {column: value for column, value in values.items() if column != "name"}
        statement = (
            insert(nodes)
            .values(values)
            .on_conflict_do_update(index_elements=["name"], set_=fresh)
            .returning(nodes.c.drained)
        )
        drained = await self._access.write(
            lambda connection: connection.execute(statement).scalar_one(), durable=False
        )
        why = DrainState(drained).why or why
        return HeartbeatAnswer(consume=not why, why=why)

    async def read_snapshot(self) -> ClusterSnapshot:
        """Return the live nodes, the number of live gateways, and the oldest gateway."""

        def fetch(connection: Connection) -> ClusterSnapshot:
            rows = connection.execute(_LIVE).mappings().all()
            found = [
                LiveNode(
                    name=row["name"],
                    capacity=row["capacity"],
                    why=DrainState(row["drained"]).why or row["why"],
                    version=row["version"],
                    engine=row["engine"],
                    images=json.loads(row["images"]),
                )
                for row in rows
            ]
            count, eldest = connection.execute(_GATEWAYS).one()
            return ClusterSnapshot(nodes=found, gateways=max(1, count), eldest=eldest or "")

        return await self._access.read(fetch)
