"""${message}"""

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the schema one step further."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """Take the step back."""
    ${downgrades if downgrades else "pass"}
