"""Adds an attempt's requested maximum number of runs, and a flag for verdicts of distrusted nodes."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns. Gateways of the previous version ignore the columns and keep working."""
    op.add_column("attempts", sa.Column("max_runs", sa.Integer(), nullable=True))
    op.add_column("verdicts", sa.Column("distrusted_at", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("verdicts", "distrusted_at")
    op.drop_column("attempts", "max_runs")
