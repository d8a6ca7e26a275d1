"""Adds a column for the reason why a fix can't be applied to its submission."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, which is NULL for earlier fixes."""
    op.add_column("repair_fixes", sa.Column("problem", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("repair_fixes", "problem")
