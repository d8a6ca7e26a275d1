"""Why a fix doesn't fit into its submission, on record with the fix."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; fixes on record have none."""
    op.add_column("repair_fixes", sa.Column("problem", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("repair_fixes", "problem")
