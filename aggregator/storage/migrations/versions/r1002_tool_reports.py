"""The table of tool reports."""

import sqlalchemy as sa
from alembic import op

revision = "1002"
down_revision = "1001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "tool_reports",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.String(128), nullable=False),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.Column("first", sa.Double(), nullable=False),
        sa.Column("last", sa.Double(), nullable=False),
        sa.Column("reasons", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_tool_reports"),
    )
    op.create_index("ix_tool_reports_agent_id", "tool_reports", ["agent_id"])
    op.create_index("ix_tool_reports_last", "tool_reports", ["last"])
