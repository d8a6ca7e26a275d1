"""Adds tables for batches and items, and columns for replays and for verdicts' rules and disk usage."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

BLOCK = 4096


def upgrade() -> None:
    """Create the tables and columns."""
    op.add_column("attempts", sa.Column("replay_of", sa.String(length=26), nullable=True))
    op.add_column("verdicts", sa.Column("rules", sa.Text(), nullable=False, server_default="[]"))
    op.add_column("verdicts", sa.Column("disk_bytes", sa.BigInteger(), nullable=False, server_default="0"))
    _measure_bundles()
    op.create_table(
        "batches",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("gid", sa.BigInteger(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("dedupe", sa.Integer(), nullable=False),
        sa.Column("complete", sa.Integer(), nullable=False),
        sa.Column("cancelled_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batches")),
        sa.UniqueConstraint("uid", "name", name=op.f("uq_batches_uid")),
    )
    op.create_index(op.f("ix_batches_created_at"), "batches", ["created_at", "id"], unique=False)
    op.create_table(
        "batch_items",
        sa.Column("batch_id", sa.String(length=26), nullable=False),
        sa.Column("line", sa.Integer(), nullable=False),
        sa.Column("input_digest", sa.String(length=64), nullable=False),
        sa.Column("submission", sa.String(length=64), nullable=True),
        sa.Column("attempt_id", sa.String(length=26), nullable=True),
        sa.Column("run_key", sa.String(length=64), nullable=True),
        sa.Column("present", sa.Integer(), nullable=False),
        sa.Column("error_code", sa.String(length=64), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["batch_id"], ["batches.id"], name=op.f("fk_batch_items_batch_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["submission"], ["submissions.digest"], name=op.f("fk_batch_items_submission")
        ),
        sa.PrimaryKeyConstraint("batch_id", "line", "input_digest", name=op.f("pk_batch_items")),
    )
    op.create_index(op.f("ix_batch_items_submission"), "batch_items", ["submission"], unique=False)
    op.create_index(op.f("ix_batch_items_attempt_id"), "batch_items", ["attempt_id"], unique=False)
    op.create_index("ix_batch_items_run_key", "batch_items", ["batch_id", "run_key"], unique=False)


def _measure_bundles() -> None:
    """Compute the disk usage of bundles whose verdicts were recorded before this revision."""
    connection = op.get_bind()
    found = connection.execute(sa.text("SELECT attempt_id, artifacts FROM verdicts")).all()
    sizes = [
        {
            "id": row.attempt_id,
            "size": sum(-(-a["bytes"] // BLOCK) * BLOCK for a in json.loads(row.artifacts)),
        }
        for row in found
    ]
    if sizes:
        connection.execute(sa.text("UPDATE verdicts SET disk_bytes = :size WHERE attempt_id = :id"), sizes)


def downgrade() -> None:
    """Drop the tables and columns."""
    op.drop_table("batch_items")
    op.drop_table("batches")
    op.drop_column("verdicts", "disk_bytes")
    op.drop_column("verdicts", "rules")
    op.drop_column("attempts", "replay_of")
