"""Adds columns for webhook URLs, and a table of the messages that are waiting for delivery."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

TOLD_OF = ("attempts", "batches", "generations")


def upgrade() -> None:
    """Add the columns and create the table."""
    for table in TOLD_OF:
        op.add_column(table, sa.Column("webhook", sa.Text(), nullable=True))
    op.create_table(
        "webhook_messages",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("origin", sa.String(length=320), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("next_try_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_messages")),
    )
    op.create_index(
        "ix_webhook_messages_uid", "webhook_messages", ["uid", "origin", "next_try_at"], unique=False
    )
    op.create_index(
        op.f("ix_webhook_messages_next_try_at"), "webhook_messages", ["next_try_at"], unique=False
    )


def downgrade() -> None:
    """Drop the columns and the table."""
    op.drop_table("webhook_messages")
    for table in TOLD_OF:
        op.drop_column(table, "webhook")
