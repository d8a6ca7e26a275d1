"""Adds a column for the trace span of an attempt, which the daemon continues after a restart."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("attempts", sa.Column("trace", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("attempts", "trace")
