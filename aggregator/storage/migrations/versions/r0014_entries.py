"""Room for the entry of a configuration that pinned definitions belong to."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the column."""
    op.add_column("pinned_items", sa.Column("entry", sa.String(48), nullable=False, server_default=sa.text("''")))
