"""The first schema of the database: every table of the first release."""

import sqlalchemy as sa
from alembic import op

revision = "1001"
down_revision = None
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_NO_DIGEST = "0" * 64


def upgrade() -> None:
    """Make the tables."""
    _keys()
    _approvals()
    _catalogs()
    _audit()
    _group()
    _vault()
    _results()
    _pins_and_flow()


def _keys() -> None:
    """Make the tables of API keys, and of the sessions and sign-in links of the console."""
    op.create_table(
        "api_keys",
        sa.Column("key_id", sa.String(32), nullable=False),
        sa.Column("agent_id", sa.String(128), nullable=False),
        sa.Column("hash", sa.String(200), nullable=False),
        sa.Column("label", sa.String(200), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double()),
        sa.Column("revoked", sa.Double()),
        sa.Column("last_used", sa.Double()),
        sa.Column("console_role", sa.String(16)),
        sa.PrimaryKeyConstraint("key_id", name="pk_api_keys"),
    )
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


def _approvals() -> None:
    """Make the table of the approvals."""
    op.create_table(
        "approvals",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("agent_id", sa.String(128), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.Column("decided", sa.Double()),
        sa.Column("decided_by", sa.String(128)),
        sa.Column("used", sa.Double()),
        sa.Column("note", sa.Text()),
        sa.Column("arguments", sa.Text()),
        sa.Column("server", sa.Text()),
        sa.Column("schema_version", sa.Text()),
        sa.Column("rule", sa.Text()),
        sa.Column("rule_source", sa.Text()),
        sa.Column("trace_id", sa.Text()),
        sa.Column("conversation_id", sa.Text()),
        sa.Column("uses", sa.Integer(), server_default="0", nullable=False),
        sa.Column("valid_until", sa.Double()),
        sa.Column("needed", sa.Integer(), server_default="1", nullable=False),
        sa.Column("agreed", sa.Text()),
        sa.Column("asked_again", sa.Integer(), server_default="0", nullable=False),
        sa.CheckConstraint("status IN ('pending', 'approved', 'denied', 'used')", name=op.f("ck_approvals_status")),
        sa.PrimaryKeyConstraint("id", name="pk_approvals"),
    )
    op.create_index("ix_approvals_agent_id_digest", "approvals", ["agent_id", "digest"])
    op.create_index("ix_approvals_expires", "approvals", ["expires"])


def _catalogs() -> None:
    """Make the tables of the catalogs of servers."""
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
        sa.PrimaryKeyConstraint("server", "fingerprint", "position", name="pk_mcp_tools"),
    )
    op.create_index("ix_mcp_tools_server_digest", "mcp_tools", ["server", "digest"])
    op.create_table(
        "mcp_item_lists",
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("definitions", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["server", "fingerprint"],
            ["mcp_servers.id", "mcp_servers.fingerprint"],
            name="fk_mcp_item_lists_server_fingerprint_mcp_servers",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("server", "fingerprint", "kind", name="pk_mcp_item_lists"),
    )


def _audit() -> None:
    """Make the tables of the audit log, and the record of an empty chain."""
    op.create_table(
        "mcp_tool_call_log",
        sa.Column("seq", _NUMBER, autoincrement=False, nullable=False),
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
        sa.Column("frontend", sa.Text(), nullable=False),
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
        sa.Column("approved_by", sa.Text()),
        sa.Column("retries", sa.Integer(), nullable=False),
        sa.Column("arguments_bytes", sa.Integer()),
        sa.Column("arguments_digest", sa.String(64)),
        sa.Column("result_bytes", sa.Integer()),
        sa.Column("result_digest", sa.String(64)),
        sa.Column("arguments", sa.Text()),
        sa.Column("result", sa.Text()),
        sa.Column("steps", sa.Text()),
        sa.Column("approval_id", sa.String(32)),
        sa.Column("flow", sa.Text()),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("chain", sa.Integer(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "status = 'ok' OR status = 'error' OR status = 'timeout' OR status = 'denied' OR status = 'invalid' OR "
            "status = 'cancelled' OR status = 'unavailable' OR status = 'pending' OR status = 'interrupted'",
            name=op.f("ck_mcp_tool_call_log_status"),
        ),
        sa.PrimaryKeyConstraint("seq", name="pk_mcp_tool_call_log"),
    )
    op.create_index("ix_mcp_tool_call_log_started", "mcp_tool_call_log", ["started"])
    op.create_table(
        "audit_events",
        sa.Column("seq", _NUMBER, autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text()),
        sa.Column("server_id", sa.Text()),
        sa.Column("details", sa.Text()),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("chain", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_audit_events"),
    )
    op.create_table(
        "audit_under_way",
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.Column("span_id", sa.Text(), nullable=False),
        sa.Column("seq", _NUMBER, nullable=False),
        sa.Column("owner", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("trace_id", "span_id", name="pk_audit_under_way"),
    )
    heads = op.create_table(
        "audit_heads",
        sa.Column("chain", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", _NUMBER, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("trimmed_seq", _NUMBER, nullable=False),
        sa.Column("trimmed_digest", sa.String(64), nullable=False),
        sa.Column("bytes", _NUMBER, nullable=False),
        sa.Column("key_id", sa.String(16)),
        sa.Column("mac", sa.String(64)),
        sa.PrimaryKeyConstraint("chain", name="pk_audit_heads"),
    )
    op.bulk_insert(
        heads,
        [{"chain": 0, "seq": 0, "digest": _NO_DIGEST, "trimmed_seq": 0, "trimmed_digest": _NO_DIGEST, "bytes": 0}],
    )
    if op.get_bind().dialect.name != "sqlite":
        # Processes write at the same time: rows are numbered by a sequence, and read chain by chain.
        for table in ("mcp_tool_call_log", "audit_events"):
            op.create_index(f"ix_{table}_chain_seq", table, ["chain", "seq"])
        op.execute(sa.schema.CreateSequence(sa.Sequence("audit_numbers")))


def _group() -> None:
    """Make the tables that the replicas of one database share."""
    op.create_table(
        "changes",
        sa.Column("seq", _NUMBER, autoincrement=False, nullable=False),
        sa.Column("subject", sa.String(64), nullable=False),
        sa.Column("origin", sa.String(32)),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("body", sa.Text()),
        sa.PrimaryKeyConstraint("seq", name="pk_changes"),
    )
    op.create_index("ix_changes_subject_seq", "changes", ["subject", "seq"])
    op.create_table(
        "replicas",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("group_name", sa.String(64), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=False),
        sa.Column("address", sa.Text()),
        sa.Column("version", sa.String(32), nullable=False),
        sa.Column("started", sa.Double(), nullable=False),
        sa.Column("seen", sa.Double(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_replicas"),
        sa.UniqueConstraint("group_name", "slot", name="uq_replicas_group_name_slot"),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.String(250), nullable=False),
        sa.Column("owner", sa.String(32)),
        sa.Column("generation", _NUMBER, nullable=False),
        sa.Column("renewals", _NUMBER, nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )
    op.create_table(
        "shared_keys",
        sa.Column("group_name", sa.String(64), nullable=False),
        sa.Column("value", sa.String(64), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("group_name", name="pk_shared_keys"),
    )
    op.create_table(
        "used_states",
        sa.Column("nonce", sa.String(64), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("nonce", name="pk_used_states"),
    )
    op.create_index("ix_used_states_expires", "used_states", ["expires"])
    op.create_table(
        "host_sessions",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("agent_id", sa.String(128), nullable=False),
        sa.Column("ended", sa.Double()),
        sa.Column("state", sa.Text()),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_host_sessions"),
    )
    op.create_index("ix_host_sessions_expires", "host_sessions", ["expires"])
    op.create_table(
        "limit_usage",
        sa.Column("counter", sa.String(64), nullable=False),
        sa.Column("replica", sa.String(32), nullable=False),
        sa.Column("report", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.Column("times", sa.Text()),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("counter", "replica", name="pk_limit_usage"),
    )
    op.create_index("ix_limit_usage_expires", "limit_usage", ["expires"])


def _vault() -> None:
    """Make the tables of the vault: grants, client ids, and accounts that are being connected."""
    op.create_table(
        "oauth_grants",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("account", sa.String(64), nullable=False),
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column("resource_digest", sa.String(64), nullable=False),
        sa.Column("issuer", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("scopes", sa.Text()),
        sa.Column("problem", sa.Text()),
        sa.Column("expires", sa.Double()),
        sa.Column("renewable", sa.Integer(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("updated", sa.Double(), nullable=False),
        sa.Column("version", _NUMBER, nullable=False),
        sa.Column("claimed_by", sa.String(32)),
        sa.Column("claimed_until", sa.Double()),
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_oauth_grants"),
    )
    op.create_index("ix_oauth_grants_account", "oauth_grants", ["account"])
    op.create_table(
        "oauth_clients",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("issuer", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double()),
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_oauth_clients"),
    )
    op.create_table(
        "oauth_connects",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("state_hash", sa.String(64)),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_oauth_connects"),
    )
    op.create_index("ix_oauth_connects_expires", "oauth_connects", ["expires"])
    op.create_index("ix_oauth_connects_state_hash", "oauth_connects", ["state_hash"])


def _results() -> None:
    """Make the tables of large results, and the vectors of tools."""
    op.create_table(
        "kept_results",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.Column("size", _NUMBER, nullable=False),
        sa.Column("parts", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_kept_results"),
    )
    op.create_index("ix_kept_results_expires", "kept_results", ["expires"])
    op.create_index("ix_kept_results_owner_created", "kept_results", ["owner", "created"])
    op.create_table(
        "kept_result_parts",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", "part", name="pk_kept_result_parts"),
    )
    op.create_table(
        "tool_vectors",
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("used", sa.Double(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("model", "digest", name="pk_tool_vectors"),
    )


def _pins_and_flow() -> None:
    """Make the tables of pinned definitions and flow labels."""
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
        sa.Column("held", sa.Integer(), server_default="0", nullable=False),
        sa.Column("entry", sa.String(48), server_default=sa.text("''"), nullable=False),
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
