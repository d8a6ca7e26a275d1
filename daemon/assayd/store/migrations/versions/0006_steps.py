"""Adds providers' raw answers, and the user who granted the budget of a repair."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns and the table."""
    op.add_column("repairs", sa.Column("granted_by", sa.BigInteger(), nullable=True))
    op.add_column("repairs", sa.Column("generation_id", sa.String(length=26), nullable=True))
    op.add_column(
        "repair_fixes", sa.Column("form", sa.String(length=16), server_default="code", nullable=False)
    )
    op.create_table(
        "repair_steps",
        sa.Column("repair_id", sa.String(length=26), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("provider", sa.String(length=64), nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=False),
        sa.Column("system", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("reply", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["repair_id"], ["repairs.id"], name=op.f("fk_repair_steps_repair_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("repair_id", "number", name=op.f("pk_repair_steps")),
    )


def downgrade() -> None:
    """Drop the columns and the table."""
    op.drop_table("repair_steps")
    op.drop_column("repair_fixes", "form")
    op.drop_column("repairs", "generation_id")
    op.drop_column("repairs", "granted_by")
