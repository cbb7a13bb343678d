"""The schema as it is now. Every change here is a migration too; a test compares the two."""

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

# The newest migration: a file that carries this stamp needs none.
REVISION: Final = "0008"

metadata: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# One row per subject that processes watch, counted up in the transaction that changes it.
changes: Final = Table(
    "changes",
    metadata,
    Column("subject", String(64), primary_key=True),
    Column("version", Integer, nullable=False),
)

# `checked`: small, and read whole when a file is opened, so that damage shows at once.
api_keys: Final = Table(
    "api_keys",
    metadata,
    Column("key_id", String(32), primary_key=True),
    Column("agent_id", String(128), nullable=False),
    Column("hash", String(200), nullable=False),
    Column("label", String(200), nullable=False),
    Column("created", Double, nullable=False),
    Column("expires", Double),
    Column("revoked", Double),
    Column("last_used", Double),
    Column("console_role", String(16)),
    info={"checked": True},
)

# People who are signed in at the console, and links to sign in with that were not used yet. Cookies and links are
# secrets: `hash` is SHA-256 of one, in hexadecimal. `key_id` names the API key that a person signed in with.
console_sessions: Final = Table(
    "console_sessions",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("id", String(32), nullable=False),
    Column("person", String(128), nullable=False),
    Column("role", String(16), nullable=False),
    Column("key_id", String(32)),
    Column("created", Double, nullable=False),
    Column("last_seen", Double, nullable=False),
    Column("expires", Double, nullable=False),
    Index(None, "expires"),
)

console_links: Final = Table(
    "console_links",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("person", String(128), nullable=False),
    Column("role", String(16), nullable=False),
    Column("expires", Double, nullable=False),
)

approvals: Final = Table(
    "approvals",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("agent_id", String(128), nullable=False),
    Column("tool", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("summary", Text, nullable=False),
    Column("status", String(16), nullable=False),
    Column("created", Double, nullable=False),
    Column("expires", Double, nullable=False),
    Column("decided", Double),
    Column("decided_by", String(128)),
    Column("used", Double),
    Column("note", Text),
    Column("arguments", Text),
    Column("server", Text),
    Column("schema_version", Text),
    Column("rule", Text),
    Column("rule_source", Text),
    Column("trace_id", Text),
    Column("conversation_id", Text),
    # How often a yes was used, and until when it holds for every such call; without a time it is used up by one.
    Column("uses", Integer, nullable=False, server_default="0"),
    Column("valid_until", Double),
    # How many people have to agree, and the names of those who have, as a JSON list.
    Column("needed", Integer, nullable=False, server_default="1"),
    Column("agreed", Text),
    # How often the same call was made again after it was denied.
    Column("asked_again", Integer, nullable=False, server_default="0"),
    CheckConstraint("status IN ('pending', 'approved', 'denied', 'used')", name="status"),
    Index(None, "agent_id", "digest"),
    Index(None, "expires"),
    info={"checked": True},
)

# What each server had when it was last connected, per configuration of it: several files may know it by one name.
mcp_servers: Final = Table(
    "mcp_servers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("fingerprint", String(64), primary_key=True),
    Column("transport", String(16), nullable=False),
    Column("protocol", String(32), nullable=False),
    Column("server_info", Text, nullable=False),
    Column("capabilities", Text, nullable=False),
    Column("instructions", Text),
    Column("connected", Double, nullable=False),
    Column("tools", Integer, nullable=False),
    Index(None, "fingerprint"),
)

# Every definition ever seen, once, by its digest. The text is last, so that what is read without it stays cheap.
mcp_tool_versions: Final = Table(
    "mcp_tool_versions",
    metadata,
    Column("server", Text, primary_key=True),
    Column("digest", String(64), primary_key=True),
    Column("name", Text, nullable=False),
    Column("first_seen", Double, nullable=False),
    Column("last_seen", Double, nullable=False),
    Column("size", Integer, nullable=False),
    Column("definition", Text, nullable=False),
    Index(None, "server", "name"),
)

# The list of a server in its order; each entry is one of the versions.
mcp_tools: Final = Table(
    "mcp_tools",
    metadata,
    Column("server", Text, primary_key=True),
    Column("fingerprint", String(64), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    ForeignKeyConstraint(["server", "fingerprint"], ["mcp_servers.id", "mcp_servers.fingerprint"], ondelete="CASCADE"),
    ForeignKeyConstraint(["server", "digest"], ["mcp_tool_versions.server", "mcp_tool_versions.digest"]),
    Index(None, "server", "digest"),
)

# The audit log: two tables, numbered as one. SQLite counts its own rows with what it calls INTEGER, and only that.
_NUMBER: Final = BigInteger().with_variant(Integer, "sqlite")


def _place() -> tuple[Column[Any], ...]:
    """Return the columns for a row's place in the chain: length as digested, the digest before it, and its own."""
    return (
        Column("bytes", Integer, nullable=False),
        Column("previous", String(64), nullable=False),
        Column("digest", String(64), nullable=False),
    )


mcp_tool_call_log: Final = Table(
    "mcp_tool_call_log",
    metadata,
    Column("seq", _NUMBER, primary_key=True, autoincrement=False),
    Column("trace_id", Text, nullable=False),
    Column("span_id", Text, nullable=False),
    Column("parent_id", Text),
    Column("user_id", Text),
    Column("session_id", Text),
    Column("conversation_id", Text),
    Column("agent_id", Text, nullable=False),
    Column("key_id", Text),
    Column("tenant", Text),
    Column("server_id", Text),
    Column("answered_by", Text),
    Column("tool_name", Text),
    Column("asked_name", Text, nullable=False),
    Column("own_name", Text),
    Column("schema_version", Text),
    Column("frontend", Text, nullable=False),
    Column("via", Text),
    Column("host_version", Text),
    Column("upstream_version", Text),
    Column("started", Double, nullable=False),
    Column("ended", Double, nullable=False),
    Column("duration", Double, nullable=False),
    Column("queued", Double, nullable=False),
    Column("upstream_seconds", Double, nullable=False),
    Column("status", String(16), nullable=False),
    Column("error_code", Text),
    Column("error_message", Text),
    Column("rule", Text),
    Column("rule_source", Text),
    Column("approved_by", Text),
    Column("retries", Integer, nullable=False),
    Column("arguments_bytes", Integer),
    Column("arguments_digest", String(64)),
    Column("result_bytes", Integer),
    Column("result_digest", String(64)),
    Column("arguments", Text),
    Column("result", Text),
    Column("steps", Text),
    Column("approval_id", String(32)),
    *_place(),
    # Not `IN`, for which SQLite makes a table of the values anew for each row; and no index in random order, which
    # writes a page for each row as soon as the log is large.
    CheckConstraint(
        "status = 'ok' OR status = 'error' OR status = 'timeout' OR status = 'denied' OR status = 'invalid' OR "
        "status = 'cancelled' OR status = 'unavailable' OR status = 'pending' OR status = 'interrupted'",
        name="status",
    ),
    Index(None, "started"),
)

audit_events: Final = Table(
    "audit_events",
    metadata,
    Column("seq", _NUMBER, primary_key=True, autoincrement=False),
    Column("kind", String(32), nullable=False),
    Column("at", Double, nullable=False),
    Column("summary", Text, nullable=False),
    Column("agent_id", Text),
    Column("server_id", Text),
    Column("details", Text),
    *_place(),
)

# Calls that were begun and have no row of their own yet: `seq` is that of the event, `owner` names the process.
audit_under_way: Final = Table(
    "audit_under_way",
    metadata,
    Column("trace_id", Text, primary_key=True),
    Column("span_id", Text, primary_key=True),
    Column("seq", _NUMBER, nullable=False),
    Column("owner", String(32), nullable=False),
)

# One row: the newest row of the log, the newest that was removed because of its age, and what the rest takes. Where the
# chain has a key, `key_id` names it, and `mac` proves the rest of this row.
audit_heads: Final = Table(
    "audit_heads",
    metadata,
    Column("name", String(16), primary_key=True),
    Column("seq", _NUMBER, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("trimmed_seq", _NUMBER, nullable=False),
    Column("trimmed_digest", String(64), nullable=False),
    Column("bytes", _NUMBER, nullable=False),
    Column("key_id", String(16)),
    Column("mac", String(64)),
)
