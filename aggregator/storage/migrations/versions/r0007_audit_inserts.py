"""Cheaper rows of the audit log: no index in random order, and a constraint that is not set up for each row."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_LOG = "mcp_tool_call_log"
_STATUSES = ("ok", "error", "timeout", "denied", "invalid", "cancelled", "unavailable", "pending", "interrupted")
_BEFORE = "status IN (" + ", ".join(f"'{status}'" for status in _STATUSES) + ")"
_AFTER = " OR ".join(f"status = '{status}'" for status in _STATUSES)


def upgrade() -> None:
    """Drop the index on traces, and have SQLite compare statuses one by one. No row is copied."""
    op.drop_index("ix_mcp_tool_call_log_trace_id", _LOG)
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        _compare_one_by_one(connection)


def _compare_one_by_one(connection: sa.Connection) -> None:
    """Change the text of the constraint where SQLite keeps it; a build that does not allow that keeps the old one.

    The meaning is the same; for `IN`, SQLite makes a table of the values anew for each row.
    """
    version = connection.exec_driver_sql("PRAGMA schema_version").scalar_one()
    try:
        connection.exec_driver_sql("PRAGMA writable_schema = ON")
        change = "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE type = 'table' AND name = ?"
        with connection.begin_nested():
            connection.exec_driver_sql(change, (_BEFORE, _AFTER, _LOG))
            connection.exec_driver_sql(f"PRAGMA schema_version = {int(version) + 1}")
    except sa.exc.DatabaseError:
        pass
    finally:
        connection.exec_driver_sql("PRAGMA writable_schema = OFF")
