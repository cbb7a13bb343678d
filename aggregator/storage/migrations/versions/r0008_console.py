"""Room for the console: its sessions, all that a question to a person shows, and the steps of a call."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_STATUS = "ck_approvals_status"


def upgrade() -> None:
    """Add the tables and columns, and call a yes `approved` in the queue of approvals."""
    op.create_table(
        "console_sessions",
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("person", sa.String(128), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("key_id", sa.String(32)),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("last_seen", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_console_sessions"),
    )
    op.create_index("ix_console_sessions_expires", "console_sessions", ["expires"])
    op.create_table(
        "console_links",
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("person", sa.String(128), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_console_links"),
    )
    op.add_column("api_keys", sa.Column("console_role", sa.String(16)))
    op.add_column("mcp_tool_call_log", sa.Column("steps", sa.Text()))
    op.add_column("mcp_tool_call_log", sa.Column("approval_id", sa.String(32)))
    _approvals()


def _approvals() -> None:
    """Add what the console shows; SQLite copies the table, which is small, since it cannot change a constraint."""
    with op.batch_alter_table("approvals") as table:
        table.drop_constraint(op.f(_STATUS), type_="check")
        for name in ("server", "schema_version", "rule", "rule_source", "trace_id", "conversation_id", "agreed"):
            table.add_column(sa.Column(name, sa.Text()))
        table.add_column(sa.Column("valid_until", sa.Double()))
        table.add_column(sa.Column("uses", sa.Integer(), nullable=False, server_default="0"))
        table.add_column(sa.Column("needed", sa.Integer(), nullable=False, server_default="1"))
        table.add_column(sa.Column("asked_again", sa.Integer(), nullable=False, server_default="0"))
    op.execute("UPDATE approvals SET status = 'approved' WHERE status = 'granted'")
    with op.batch_alter_table("approvals") as table:
        table.create_check_constraint(op.f(_STATUS), "status IN ('pending', 'approved', 'denied', 'used')")
