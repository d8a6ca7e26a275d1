"""Adds the requested maximum number of runs of an attempt, and a mark for verdicts of distrusted nodes."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns. A gateway of the previous version keeps working, because it doesn't use them."""
    op.add_column("attempts", sa.Column("max_runs", sa.Integer(), nullable=True))
    op.add_column("verdicts", sa.Column("distrusted_at", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("verdicts", "distrusted_at")
    op.drop_column("attempts", "max_runs")
