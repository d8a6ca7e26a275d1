"""Creates tables for repairs and their fixes."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "repairs",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("attempt_id", sa.String(length=26), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("provider", sa.String(length=64), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ends_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("first_fingerprint", sa.String(length=64), nullable=True),
        sa.Column("first_digest", sa.String(length=64), nullable=True),
        sa.Column("first_cause", sa.String(length=32), nullable=True),
        sa.Column("hint", sa.Text(), nullable=True),
        sa.Column("outcome", sa.String(length=32), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("fallback", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_repairs_attempt_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_repairs")),
    )
    op.create_index(op.f("ix_repairs_attempt_id"), "repairs", ["attempt_id"], unique=False)
    op.create_index("ix_repairs_uid", "repairs", ["uid", "started_at", "id"], unique=False)
    op.create_table(
        "repair_fixes",
        sa.Column("repair_id", sa.String(length=26), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("strategy", sa.String(length=16), nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("passage", sa.Text(), nullable=False),
        sa.Column("patched_code", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("duplicate", sa.Integer(), nullable=False),
        sa.Column("attempt_id", sa.String(length=26), nullable=True),
        sa.Column("verdict", sa.String(length=16), nullable=True),
        sa.Column("cause", sa.String(length=32), nullable=True),
        sa.Column("fingerprint", sa.String(length=64), nullable=True),
        sa.Column("input_tokens", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True),
        sa.Column("took_s", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["repair_id"], ["repairs.id"], name=op.f("fk_repair_fixes_repair_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("repair_id", "number", name=op.f("pk_repair_fixes")),
    )


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("repair_fixes")
    op.drop_table("repairs")
