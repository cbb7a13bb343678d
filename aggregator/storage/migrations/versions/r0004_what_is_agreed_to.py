"""Approvals keep the arguments as a person may see them, and what that person had to say."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the two columns; what is in the queue already has neither."""
    op.add_column("approvals", sa.Column("note", sa.Text()))
    op.add_column("approvals", sa.Column("arguments", sa.Text()))
