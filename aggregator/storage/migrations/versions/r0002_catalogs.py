"""The catalogs of servers as they were last connected, and every definition of a tool that was ever seen."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the three tables."""
    op.create_table(
        "mcp_servers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("transport", sa.String(16), nullable=False),
        sa.Column("protocol", sa.String(32), nullable=False),
        sa.Column("server_info", sa.Text(), nullable=False),
        sa.Column("capabilities", sa.Text(), nullable=False),
        sa.Column("instructions", sa.Text()),
        sa.Column("connected", sa.Double(), nullable=False),
        sa.Column("tools", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", "fingerprint", name="pk_mcp_servers"),
    )
    op.create_index("ix_mcp_servers_fingerprint", "mcp_servers", ["fingerprint"])
    op.create_table(
        "mcp_tool_versions",
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("first_seen", sa.Double(), nullable=False),
        sa.Column("last_seen", sa.Double(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("server", "digest", name="pk_mcp_tool_versions"),
    )
    op.create_index("ix_mcp_tool_versions_server_name", "mcp_tool_versions", ["server", "name"])
    op.create_table(
        "mcp_tools",
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("server", "fingerprint", "position", name="pk_mcp_tools"),
        sa.ForeignKeyConstraint(
            ["server", "fingerprint"],
            ["mcp_servers.id", "mcp_servers.fingerprint"],
            name="fk_mcp_tools_server_fingerprint_mcp_servers",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["server", "digest"],
            ["mcp_tool_versions.server", "mcp_tool_versions.digest"],
            name="fk_mcp_tools_server_digest_mcp_tool_versions",
        ),
    )
    op.create_index("ix_mcp_tools_server_digest", "mcp_tools", ["server", "digest"])
