"""The current schema, with its parts. Every change here is a migration too; a test compares the two."""

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    Sequence,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from aggregator.accounts.tables import oauth_clients, oauth_connects, oauth_grants
from aggregator.flow.tables import flow_labels
from aggregator.pins.tables import pinned_items
from aggregator.storage.table_parts.answers import kept_result_parts, kept_results, tool_vectors
from aggregator.storage.table_parts.metadata import NUMBER, metadata
from aggregator.tool_reports.tables import tool_reports

__all__ = [
    "flow_labels",
    "kept_result_parts",
    "kept_results",
    "metadata",
    "oauth_clients",
    "oauth_connects",
    "oauth_grants",
    "pinned_items",
    "tool_reports",
    "tool_vectors",
]

# The first migration of a release. Databases with a lower stamp are from before it, and cannot be upgraded.
FIRST_REVISION: Final = "1001"
# The newest migration: a file that carries this stamp needs none.
REVISION: Final = "1003"

# Notifications between processes: one row for each change, numbered in the order of commits. `body` is JSON. `origin`
# names the replica that wrote it, if one did.
changes: Final = Table(
    "changes",
    metadata,
    Column("seq", NUMBER, primary_key=True, autoincrement=False),
    Column("subject", String(64), nullable=False),
    Column("origin", String(32)),
    Column("at", Double, nullable=False),
    Column("body", Text),
    Index(None, "subject", "seq"),
)

# The replicas of each group. Times are by the database's clock. `facts` is JSON for the others.
replicas: Final = Table(
    "replicas",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("group_name", String(64), nullable=False),
    Column("slot", Integer, nullable=False),
    Column("address", Text),
    Column("version", String(32), nullable=False),
    Column("started", Double, nullable=False),
    Column("seen", Double, nullable=False),
    Column("facts", Text, nullable=False),
    UniqueConstraint("group_name", "slot"),
)

# The rights of a single replica. `generation` counts its owners: later requests of an earlier owner are refused by it.
# `renewals` counts the owner's signs of life: others judge by that, with their own clocks only.
leases: Final = Table(
    "leases",
    metadata,
    Column("name", String(250), primary_key=True),
    Column("owner", String(32)),
    Column("generation", NUMBER, nullable=False),
    Column("renewals", NUMBER, nullable=False),
    Column("until", Double, nullable=False),
)

# The key of each group, if the configuration names none.
shared_keys: Final = Table(
    "shared_keys",
    metadata,
    Column("group_name", String(64), primary_key=True),
    Column("value", String(64), nullable=False),
    Column("created", Double, nullable=False),
)

# The sealed states that were opened, so that no replica opens one again.
used_states: Final = Table(
    "used_states",
    metadata,
    Column("nonce", String(64), primary_key=True),
    Column("expires", Double, nullable=False),
    Index(None, "expires"),
)

# What a session of the handshake eras has beyond its id: that it was ended, its log level, its subscriptions. `state`
# is JSON.
host_sessions: Final = Table(
    "host_sessions",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("agent_id", String(128), nullable=False),
    Column("ended", Double),
    Column("state", Text),
    Column("expires", Double, nullable=False),
    Index(None, "expires"),
)

# What each replica has used of a limit. `times` is JSON, see `storage/records.py`. `report` counts the
# reports of one replica: an older one never replaces a newer.
limit_usage: Final = Table(
    "limit_usage",
    metadata,
    Column("counter", String(64), primary_key=True),
    Column("replica", String(32), primary_key=True),
    Column("report", BigInteger, nullable=False),
    Column("used", Integer, nullable=False),
    Column("times", Text),
    Column("expires", Double, nullable=False),
    Index(None, "expires"),
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

# Users signed in at the console, and unused links to sign in with. Cookies and links are secrets: `hash` is SHA-256 of
# one, in hexadecimal. `key_id` names the API key that a user signed in with.
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
    # The number of users who have to agree, and the names of those who have, as a JSON list.
    Column("needed", Integer, nullable=False, server_default="1"),
    Column("agreed", Text),
    # The number of repeated calls after a denial.
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

# Every definition ever seen, once, by its digest. The text is last, so that reads of the other columns stay cheap.
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

# The other lists of a server, each whole: one row says that the server has answered the list, be it empty.
mcp_item_lists: Final = Table(
    "mcp_item_lists",
    metadata,
    Column("server", Text, primary_key=True),
    Column("fingerprint", String(64), primary_key=True),
    Column("kind", String(16), primary_key=True),
    Column("definitions", Text, nullable=False),
    ForeignKeyConstraint(["server", "fingerprint"], ["mcp_servers.id", "mcp_servers.fingerprint"], ondelete="CASCADE"),
)

# The audit log: two tables, numbered as one.


def _place() -> tuple[Column[Any], ...]:
    """Return the columns for a row's place in the log: length as digested, the digest before it in its chain, its own,
    and the number of the chain.
    """
    return (
        Column("bytes", Integer, nullable=False),
        Column("previous", String(64), nullable=False),
        Column("digest", String(64), nullable=False),
        Column("chain", Integer, nullable=False, server_default="0"),
    )


# The numbers of rows if processes do not take turns at writing. A number that was taken and not used stays unused.
audit_numbers: Final = Sequence("audit_numbers", metadata=metadata)

mcp_tool_call_log: Final = Table(
    "mcp_tool_call_log",
    metadata,
    Column("seq", NUMBER, primary_key=True, autoincrement=False),
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
    Column("sent_name", Text),
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
    Column("flow", Text),
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
    Column("seq", NUMBER, primary_key=True, autoincrement=False),
    Column("kind", String(32), nullable=False),
    Column("at", Double, nullable=False),
    Column("summary", Text, nullable=False),
    Column("agent_id", Text),
    Column("server_id", Text),
    Column("details", Text),
    *_place(),
)

# Calls in flight without a row of their own yet: `seq` is the number of the begin event, `owner` names the process.
# With an empty `owner`, `seq` is the row that another process gave the call.
audit_under_way: Final = Table(
    "audit_under_way",
    metadata,
    Column("trace_id", Text, primary_key=True),
    Column("span_id", Text, primary_key=True),
    Column("seq", NUMBER, nullable=False),
    Column("owner", String(32), nullable=False),
)

# Rows of one chain are committed in the order of their numbers, and rows of two are not: so those who follow the log
# read on in each chain. With SQLite all rows are committed in that order.
for _table in (mcp_tool_call_log, audit_events):
    Index(None, _table.c.chain, _table.c.seq).ddl_if(dialect="postgresql")

# One row for each chain: its newest row, the newest row removed because of its age, and the size of the rest. If the
# log has a key, `key_id` names it, and `mac` proves the rest of this row.
audit_heads: Final = Table(
    "audit_heads",
    metadata,
    Column("chain", Integer, primary_key=True, autoincrement=False),
    Column("seq", NUMBER, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("trimmed_seq", NUMBER, nullable=False),
    Column("trimmed_digest", String(64), nullable=False),
    Column("bytes", NUMBER, nullable=False),
    Column("key_id", String(16)),
    Column("mac", String(64)),
)
