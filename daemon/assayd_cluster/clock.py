"""Reads the time from the database, whose clock all gateways share."""

from __future__ import annotations

from sqlalchemy import BigInteger, literal_column
from sqlalchemy.sql.elements import ColumnElement

from assayd_cluster.documents import LIVE_S

NOW: ColumnElement[int] = literal_column(
    "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint", BigInteger
)
"""The database's time in microseconds since 1970."""
LIVE_SINCE = NOW - int(LIVE_S * 1_000_000)
"""The time since which a live node or gateway has sent a heartbeat."""
