"""The audit log: calls, other events, and where their chain begins and ends."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the three tables."""
    op.create_table(
        "mcp_tool_call_log",
        sa.Column("seq", _NUMBER, nullable=False, autoincrement=False),
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.Column("span_id", sa.Text(), nullable=False),
        sa.Column("parent_id", sa.Text()),
        sa.Column("user_id", sa.Text()),
        sa.Column("session_id", sa.Text()),
        sa.Column("conversation_id", sa.Text()),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text()),
        sa.Column("tenant", sa.Text()),
        sa.Column("server_id", sa.Text()),
        sa.Column("answered_by", sa.Text()),
        sa.Column("tool_name", sa.Text()),
        sa.Column("asked_name", sa.Text(), nullable=False),
        sa.Column("own_name", sa.Text()),
        sa.Column("schema_version", sa.Text()),
        sa.Column("door", sa.Text(), nullable=False),
        sa.Column("via", sa.Text()),
        sa.Column("host_version", sa.Text()),
        sa.Column("upstream_version", sa.Text()),
        sa.Column("started", sa.Double(), nullable=False),
        sa.Column("ended", sa.Double(), nullable=False),
        sa.Column("duration", sa.Double(), nullable=False),
        sa.Column("queued", sa.Double(), nullable=False),
        sa.Column("upstream_seconds", sa.Double(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("error_code", sa.Text()),
        sa.Column("error_message", sa.Text()),
        sa.Column("rule", sa.Text()),
        sa.Column("rule_source", sa.Text()),
        sa.Column("retries", sa.Integer(), nullable=False),
        sa.Column("arguments_bytes", sa.Integer()),
        sa.Column("arguments_digest", sa.String(64)),
        sa.Column("result_bytes", sa.Integer()),
        sa.Column("result_digest", sa.String(64)),
        sa.Column("arguments", sa.Text()),
        sa.Column("result", sa.Text()),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.CheckConstraint(
            "status IN ('ok', 'error', 'timeout', 'denied', 'invalid', 'cancelled', 'unavailable', 'pending')",
            name=op.f("ck_mcp_tool_call_log_status"),
        ),
        sa.PrimaryKeyConstraint("seq", name="pk_mcp_tool_call_log"),
    )
    op.create_index("ix_mcp_tool_call_log_trace_id", "mcp_tool_call_log", ["trace_id"])
    op.create_index("ix_mcp_tool_call_log_started", "mcp_tool_call_log", ["started"])
    op.create_table(
        "audit_events",
        sa.Column("seq", _NUMBER, nullable=False, autoincrement=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text()),
        sa.Column("server_id", sa.Text()),
        sa.Column("details", sa.Text()),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_audit_events"),
    )
    heads = op.create_table(
        "audit_heads",
        sa.Column("name", sa.String(16), nullable=False),
        sa.Column("seq", _NUMBER, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("trimmed_seq", _NUMBER, nullable=False),
        sa.Column("trimmed_digest", sa.String(64), nullable=False),
        sa.Column("bytes", _NUMBER, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_audit_heads"),
    )
    nothing = "0" * 64
    op.bulk_insert(
        heads,
        [{"name": "log", "seq": 0, "digest": nothing, "trimmed_seq": 0, "trimmed_digest": nothing, "bytes": 0}],
    )
