"""Adds columns that record whether an attempt's policy enforced its rules or only reported violations."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns. Earlier attempts count as approvable, because their policies were enforcing."""
    op.add_column("verdicts", sa.Column("enforcement", sa.String(16), nullable=True))
    op.add_column("verdicts", sa.Column("approvable", sa.Integer(), nullable=False, server_default="1"))


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("verdicts", "approvable")
    op.drop_column("verdicts", "enforcement")
