"""Creates the tables for pipelines with their steps and attempts, and for execution logs."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "pipelines",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pipelines")),
    )
    op.create_index("ix_pipelines_uid", "pipelines", ["uid", "id"], unique=False)
    op.create_table(
        "pipeline_steps",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("pipeline_id", sa.String(length=26), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("type", sa.String(length=8), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["pipeline_id"], ["pipelines.id"], name=op.f("fk_pipeline_steps_pipeline_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pipeline_steps")),
        sa.UniqueConstraint("pipeline_id", "position", name=op.f("uq_pipeline_steps_pipeline_id")),
    )
    op.create_table(
        "pipeline_attempts",
        sa.Column("attempt_id", sa.String(length=26), nullable=False),
        sa.Column("pipeline_id", sa.String(length=26), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_pipeline_attempts_attempt_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["pipeline_id"],
            ["pipelines.id"],
            name=op.f("fk_pipeline_attempts_pipeline_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_pipeline_attempts")),
    )
    op.create_index(
        op.f("ix_pipeline_attempts_pipeline_id"), "pipeline_attempts", ["pipeline_id"], unique=False
    )
    _create_logs()


def _create_logs() -> None:
    op.create_table(
        "execution_logs",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("pipeline_id", sa.String(length=26), nullable=False),
        sa.Column("step_id", sa.Integer(), nullable=True),
        sa.Column("attempt_id", sa.String(length=26), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("run_time", sa.BigInteger(), nullable=True),
        sa.Column("is_successful", sa.Integer(), nullable=False),
        sa.Column("stdout", sa.Text(), nullable=False),
        sa.Column("stderr", sa.Text(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("execution_time_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_execution_logs_attempt_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["pipeline_id"], ["pipelines.id"], name=op.f("fk_execution_logs_pipeline_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["step_id"], ["pipeline_steps.id"], name=op.f("fk_execution_logs_step_id"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_execution_logs")),
        sa.UniqueConstraint("attempt_id", "position", name=op.f("uq_execution_logs_attempt_id")),
    )
    op.create_index(op.f("ix_execution_logs_pipeline_id"), "execution_logs", ["pipeline_id"], unique=False)
    op.create_index(op.f("ix_execution_logs_step_id"), "execution_logs", ["step_id"], unique=False)


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("execution_logs")
    op.drop_table("pipeline_attempts")
    op.drop_table("pipeline_steps")
    op.drop_table("pipelines")
