"""Defines the tables of stored pipelines. The revisions in `store/migrations` create and change them."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    UniqueConstraint,
)

from assayd.store.tables import ExactText, metadata

pipelines = Table(
    "pipelines",
    metadata,
    Column("id", String(26), primary_key=True),
    Column("uid", BigInteger, nullable=False),
    Column("status", String(16), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index("ix_pipelines_uid", "uid", "id"),
)
"""Submitted pipelines; each is kept as long as one of its attempts."""

pipeline_steps = Table(
    "pipeline_steps",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("pipeline_id", String(26), ForeignKey("pipelines.id", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("name", String(64), nullable=False),
    Column("type", String(8), nullable=False),
    Column("content", ExactText, nullable=False),
    UniqueConstraint("pipeline_id", "position"),
)
"""The steps of each pipeline, as last submitted or repaired."""

pipeline_attempts = Table(
    "pipeline_attempts",
    metadata,
    Column("attempt_id", String(26), ForeignKey("attempts.id", ondelete="CASCADE"), primary_key=True),
    Column("pipeline_id", String(26), ForeignKey("pipelines.id", ondelete="CASCADE"), nullable=False),
    Index(None, "pipeline_id"),
)
"""The attempts of each pipeline."""

execution_logs = Table(
    "execution_logs",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("pipeline_id", String(26), ForeignKey("pipelines.id", ondelete="CASCADE"), nullable=False),
    Column("step_id", Integer, ForeignKey("pipeline_steps.id", ondelete="SET NULL")),
    Column("attempt_id", String(26), ForeignKey("attempts.id", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("name", String(64), nullable=False),
    Column("run_time", BigInteger),
    Column("is_successful", Integer, nullable=False),
    Column("stdout", ExactText, nullable=False),
    Column("stderr", ExactText, nullable=False),
    Column("exit_code", Integer),
    Column("execution_time_ms", BigInteger, nullable=False),
    UniqueConstraint("attempt_id", "position"),
    Index(None, "pipeline_id"),
    Index(None, "step_id"),
)
"""A row per step that ran, written with its attempt's verdict."""
