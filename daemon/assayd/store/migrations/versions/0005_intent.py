"""Adds a column for the natural-language request that led to a submission."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column for the request."""
    op.add_column("attempts", sa.Column("intent", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drop the column for the request."""
    op.drop_column("attempts", "intent")
