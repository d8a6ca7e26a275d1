"""Adds an index of runs by node, newest first. Claims use the index to count a node's current runs."""

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the index."""
    op.create_index("ix_runs_daemon_id", "runs", ["daemon_id", "leased_at"])


def downgrade() -> None:
    """Drop the index."""
    op.drop_index("ix_runs_daemon_id", "runs")
