"""Widens columns for long label values and large event numbers. SQLite ignores these widths."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

Kind = sa.String | sa.Integer | sa.BigInteger


def upgrade() -> None:
    """Widen the columns."""
    _change("labels", "value", sa.String(length=64), sa.String(length=128))
    _change("events", "seq", sa.Integer(), sa.BigInteger())


def downgrade() -> None:
    """Restore the narrower columns."""
    _change("labels", "value", sa.String(length=128), sa.String(length=64))
    _change("events", "seq", sa.BigInteger(), sa.Integer())


def _change(table: str, column: str, now: Kind, then: Kind) -> None:
    with op.batch_alter_table(table) as changed:
        changed.alter_column(column, existing_type=now, type_=then, existing_nullable=False)
