"""How often an attempt may run, where that was asked for; verdicts whose node is distrusted."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; a gateway of the version before goes on without them."""
    op.add_column("attempts", sa.Column("max_runs", sa.Integer(), nullable=True))
    op.add_column("verdicts", sa.Column("distrusted_at", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Drop them."""
    op.drop_column("verdicts", "distrusted_at")
    op.drop_column("attempts", "max_runs")
