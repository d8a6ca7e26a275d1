"""Creates the tables for submissions, attempts with labels, runs, verdicts and events."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "submissions",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_submissions")),
    )
    op.create_table(
        "attempts",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("submission", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("policy", sa.String(length=64), nullable=False),
        sa.Column("input_digest", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("gid", sa.BigInteger(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("batch_id", sa.String(length=64), nullable=True),
        sa.Column("parent_id", sa.String(length=26), nullable=True),
        sa.Column("attempt_number", sa.Integer(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("idempotency_key", sa.String(length=255), nullable=True),
        sa.ForeignKeyConstraint(["submission"], ["submissions.digest"], name=op.f("fk_attempts_submission")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempts")),
        sa.UniqueConstraint("uid", "idempotency_key", name=op.f("uq_attempts_uid")),
    )
    op.create_index("ix_attempts_uid", "attempts", ["uid", "created_at", "id"], unique=False)
    op.create_index("ix_attempts_batch_id", "attempts", ["batch_id", "created_at", "id"], unique=False)
    op.create_index(op.f("ix_attempts_created_at"), "attempts", ["created_at", "id"], unique=False)
    op.create_index(op.f("ix_attempts_submission"), "attempts", ["submission"], unique=False)
    op.create_table(
        "events",
        sa.Column("attempt_id", sa.String(length=26), nullable=False),
        sa.Column("run_number", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_events_attempt_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("attempt_id", "run_number", "seq", name=op.f("pk_events")),
    )
    op.create_table(
        "labels",
        sa.Column("attempt_id", sa.String(length=26), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_labels_attempt_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("attempt_id", "name", name=op.f("pk_labels")),
    )
    op.create_index("ix_labels_name", "labels", ["name", "value", "attempt_id"], unique=False)
    op.create_table(
        "runs",
        sa.Column("attempt_id", sa.String(length=26), nullable=False),
        sa.Column("run_number", sa.Integer(), nullable=False),
        sa.Column("daemon_id", sa.String(length=64), nullable=False),
        sa.Column("generation", sa.String(length=64), nullable=False),
        sa.Column("container_ulid", sa.String(length=26), nullable=False),
        sa.Column("leased_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("run_number BETWEEN 1 AND 2", name=op.f("ck_runs_run_number")),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_runs_attempt_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("attempt_id", "run_number", name=op.f("pk_runs")),
    )
    op.create_table(
        "verdicts",
        sa.Column("attempt_id", sa.String(length=26), nullable=False),
        sa.Column("run_number", sa.Integer(), nullable=False),
        sa.Column("verdict", sa.String(length=16), nullable=False),
        sa.Column("cause", sa.String(length=32), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("timings", sa.Text(), nullable=False),
        sa.Column("warm", sa.Integer(), nullable=True),
        sa.Column("bundle", sa.Text(), nullable=True),
        sa.Column("artifacts", sa.Text(), nullable=False),
        sa.Column("error_code", sa.String(length=64), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_verdicts_attempt_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_verdicts")),
    )


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("verdicts")
    op.drop_table("runs")
    op.drop_index("ix_labels_name", table_name="labels")
    op.drop_table("labels")
    op.drop_table("events")
    op.drop_index(op.f("ix_attempts_submission"), table_name="attempts")
    op.drop_index(op.f("ix_attempts_created_at"), table_name="attempts")
    op.drop_index("ix_attempts_batch_id", table_name="attempts")
    op.drop_index("ix_attempts_uid", table_name="attempts")
    op.drop_table("attempts")
    op.drop_table("submissions")
