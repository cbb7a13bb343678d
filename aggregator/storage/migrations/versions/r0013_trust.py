"""Room for pinned definitions, for flow labels, and for the labels in the row of a call."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables and the column."""
    op.create_table(
        "pinned_items",
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("item", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(80)),
        sa.Column("version", sa.String(64)),
        sa.Column("definition", sa.Text()),
        sa.Column("approved", sa.Double()),
        sa.Column("approved_by", sa.String(128)),
        sa.Column("seen_digest", sa.String(80)),
        sa.Column("seen_version", sa.String(64)),
        sa.Column("seen_definition", sa.Text()),
        sa.Column("seen", sa.Double()),
        sa.Column("classes", sa.Text()),
        sa.Column("renamed_from", sa.Text()),
        sa.Column("flags", sa.Text()),
        sa.Column("held", sa.Integer(), nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("server", "item", name="pk_pinned_items"),
    )
    op.create_index("ix_pinned_items_held", "pinned_items", ["held"])
    op.create_table(
        "flow_labels",
        sa.Column("scope", sa.String(64), nullable=False),
        sa.Column("label", sa.String(64), nullable=False),
        sa.Column("agent_id", sa.String(128), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("shown", sa.String(64), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("trace_id", sa.Text()),
        sa.Column("first", sa.Double(), nullable=False),
        sa.Column("last", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "label", name="pk_flow_labels"),
    )
    op.create_index("ix_flow_labels_agent_id", "flow_labels", ["agent_id"])
    op.create_index("ix_flow_labels_expires", "flow_labels", ["expires"])
    op.add_column("mcp_tool_call_log", sa.Column("flow", sa.Text()))
