"""The table of submitted INI files."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, MetaData, String, Table

from assayd.store.tables import attempts

files = Table(
    "ini_files",
    MetaData(),
    Column("attempt_id", String(26), ForeignKey(attempts.c.id, ondelete="CASCADE"), primary_key=True),
    Column("uid", BigInteger, nullable=False),
    Column("lines", Integer, nullable=False),
    Column("fields_read", Integer),
)
"""One row per attempt; `fields_read` is there once it has its verdict."""
