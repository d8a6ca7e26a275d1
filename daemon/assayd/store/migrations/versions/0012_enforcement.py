"""Adds whether the policy of an attempt enforced its rules or only reported violations."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns. Earlier attempts had enforcing policies."""
    op.add_column("verdicts", sa.Column("enforcement", sa.String(16), nullable=True))
    op.add_column("verdicts", sa.Column("approvable", sa.Integer(), nullable=False, server_default="1"))


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("verdicts", "approvable")
    op.drop_column("verdicts", "enforcement")
