"""A column for the name that a call had in the request to its server."""

import sqlalchemy as sa
from alembic import op

revision = "1003"
down_revision = "1002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the column."""
    op.add_column("mcp_tool_call_log", sa.Column("sent_name", sa.Text()))
