"""The runs of a node, newest first: a claim counts those in its hands, whatever there was before."""

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the index."""
    op.create_index("ix_runs_daemon_id", "runs", ["daemon_id", "leased_at"])


def downgrade() -> None:
    """Take it back."""
    op.drop_index("ix_runs_daemon_id", "runs")
