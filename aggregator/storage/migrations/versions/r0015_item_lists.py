"""The prompts, resources and templates that servers had when they were last connected."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "mcp_item_lists",
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("definitions", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("server", "fingerprint", "kind", name="pk_mcp_item_lists"),
        sa.ForeignKeyConstraint(
            ["server", "fingerprint"],
            ["mcp_servers.id", "mcp_servers.fingerprint"],
            name="fk_mcp_item_lists_server_fingerprint_mcp_servers",
            ondelete="CASCADE",
        ),
    )
