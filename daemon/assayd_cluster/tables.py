"""Defines the tables that a cluster adds to the database, and reads the time from the database.

All gateways share the database's clock.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    literal_column,
)
from sqlalchemy.sql.elements import ColumnElement

from assayd.store import tables
from assayd_cluster.documents import HEARTBEAT_TIMEOUT_S

NOW: ColumnElement[int] = literal_column(
    "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint", BigInteger
)
"""The database's time in microseconds since 1970."""
LIVE_SINCE = NOW - int(HEARTBEAT_TIMEOUT_S * 1_000_000)
"""The time since which a live node or gateway has sent a heartbeat."""

metadata = MetaData(naming_convention=tables.metadata.naming_convention)

_ATTEMPT = tables.attempts.c.id

gateways = Table(
    "gateways",
    metadata,
    Column("id", String(26), primary_key=True),
    Column("beat_at", BigInteger, nullable=False),
    Column("version", String(64), nullable=False),
)
"""Live gateways. A gateway without a heartbeat for 15 s drives no work."""

drivers = Table(
    "drivers",
    metadata,
    Column("kind", String(16), primary_key=True),
    Column("subject", String(26), primary_key=True),
    Column("gateway_id", String(26), nullable=False),
    Index(None, "gateway_id"),
)
"""The gateway that drives each unfinished batch, repair and generation."""

dispatches = Table(
    "dispatches",
    metadata,
    Column("attempt_id", String(26), ForeignKey(_ATTEMPT, ondelete="CASCADE"), primary_key=True),
    Column("gateway_id", String(26), nullable=False),
    Column("ticket_sha256", String(64), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("published_at", BigInteger),
    Column("cancelled_at", BigInteger),
    Column("returned", Integer, nullable=False, server_default="0"),
    Index(None, "gateway_id"),
)
"""The outbox of unfinished attempts, each with its gateway. A row is deleted when the verdict is recorded.

`returned` is the number of times that a node returned the message without having begun.
"""

nodes = Table(
    "nodes",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("beat_at", BigInteger, nullable=False),
    Column("capacity", Integer, nullable=False),
    Column("consumes", Integer, nullable=False),
    Column("why", Text, nullable=False),
    Column("version", String(64), nullable=False),
    Column("engine", Text, nullable=False),
    Column("images", Text, nullable=False),
    Column("runs", Text, nullable=False),
    Column("drained", Integer, nullable=False, server_default="0"),
)
"""The last reported state of each node. `images` and `runs` are JSON; `drained` is a `nodes.DrainState`."""

uploads = Table(
    "uploads",
    metadata,
    Column("attempt_id", String(26), ForeignKey(_ATTEMPT, ondelete="CASCADE"), primary_key=True),
    Column("run_number", Integer, primary_key=True),
    Column("sha256", String(64), primary_key=True),
    Column("content", LargeBinary, nullable=False),
)
"""Large files of a bundle, stored until the verdict is recorded."""

tenants = Table(
    "tenants",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("name", String(64), nullable=False, unique=True),
    Column("created_at", BigInteger, nullable=False),
)
"""The owners of tokens. `id`, which is at least 2**32, is used in place of a user id."""

tokens = Table(
    "tokens",
    metadata,
    Column("id", String(26), primary_key=True),
    Column("tenant_id", BigInteger, ForeignKey(tenants.c.id), nullable=False),
    Column("sha256", String(64), nullable=False, unique=True),
    Column("scopes", String(128), nullable=False),
    Column("node", String(64)),
    Column("name", String(64), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("revoked_at", BigInteger),
    Column("last_used_at", BigInteger),
)
"""Tokens, stored only as digests. `scopes` are separated by commas."""

ALL = (gateways, drivers, dispatches, nodes, uploads, tenants, tokens)
"""All tables, each after the tables to which it refers."""
