"""Stores the state that each node last reported, and determines which nodes can accept work."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, FromClause, and_, func, select
from sqlalchemy.dialects.postgresql import insert

from assayd import __version__
from assayd.store.access import DatabaseAccess
from assayd_cluster.clock import LIVE_SINCE, NOW
from assayd_cluster.documents import HeartbeatAnswer, NodeHeartbeat
from assayd_cluster.nodes import FULL, STOPPED, DrainState
from assayd_cluster.tables import gateways, nodes

_LIVE = select(nodes, NOW.label("now")).where(nodes.c.beat_at > LIVE_SINCE).order_by(nodes.c.name)
_GATEWAYS = select(func.count(), func.min(gateways.c.id)).where(gateways.c.beat_at > LIVE_SINCE)


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
        return STOPPED
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
