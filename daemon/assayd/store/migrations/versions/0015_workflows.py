"""Creates the tables for workflows of code nodes."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create both tables."""
    op.create_table(
        "workflows",
        sa.Column("id", sa.String(26), primary_key=True),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("gid", sa.BigInteger(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("ends_at", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("repair", sa.Text()),
        sa.Column("resumes", sa.String(26)),
        sa.Column("verdict", sa.String(16)),
        sa.Column("detail", sa.Text()),
        sa.Column("cancelled_at", sa.BigInteger()),
        sa.Column("finished_at", sa.BigInteger()),
        sa.Column("outline", sa.Text(), nullable=False),
        sa.Column("findings", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("inputs", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text()),
    )
    op.create_index("ix_workflows_uid", "workflows", ["uid", "id"])
    op.create_table(
        "workflow_nodes",
        sa.Column("workflow_id", sa.String(26), nullable=False),
        sa.Column("node", sa.String(64), nullable=False),
        sa.Column("attempt_id", sa.String(26), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reused", sa.Integer(), nullable=False),
        sa.Column("input_digest", sa.String(64)),
        sa.Column("repair_id", sa.String(26)),
        sa.Column("detail", sa.Text()),
        sa.Column("finished_at", sa.BigInteger()),
        sa.ForeignKeyConstraint(["workflow_id"], ["workflows.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("workflow_id", "node"),
    )


def downgrade() -> None:
    """Drop both tables."""
    op.drop_table("workflow_nodes")
    op.drop_table("workflows")
