"""Calls that are on record before they are made, who agreed to a call, and a key for the chain."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_LOG = "mcp_tool_call_log"
_BEFORE = "'unavailable', 'pending')"
_AFTER = "'unavailable', 'pending', 'interrupted')"
_STATUSES = "status IN ('ok', 'error', 'timeout', 'denied', 'invalid', 'cancelled', " + _AFTER


def upgrade() -> None:
    """Add a status, three columns and a table. The rows of the log, which may be many, are not copied."""
    op.add_column(_LOG, sa.Column("approved_by", sa.Text()))
    op.add_column("audit_heads", sa.Column("key_id", sa.String(16)))
    op.add_column("audit_heads", sa.Column("mac", sa.String(64)))
    op.create_table(
        "audit_under_way",
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.Column("span_id", sa.Text(), nullable=False),
        sa.Column("seq", _NUMBER, nullable=False),
        sa.Column("owner", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("trace_id", "span_id", name="pk_audit_under_way"),
    )
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        _allow_in_sqlite(connection)
    else:
        op.drop_constraint(op.f("ck_mcp_tool_call_log_status"), _LOG, type_="check")
        op.create_check_constraint(op.f("ck_mcp_tool_call_log_status"), _LOG, sa.text(_STATUSES))


def _allow_in_sqlite(connection: sa.Connection) -> None:
    """Change the text of the constraint where SQLite keeps it (https://www.sqlite.org/lang_altertable.html, section 7:
    for a constraint that lets more through), else copy the table: some builds of SQLite do not allow the first.
    """
    version = connection.exec_driver_sql("PRAGMA schema_version").scalar_one()
    try:
        connection.exec_driver_sql("PRAGMA writable_schema = ON")
        change = "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE type = 'table' AND name = ?"
        with connection.begin_nested():
            connection.exec_driver_sql(change, (_BEFORE, _AFTER, _LOG))
            connection.exec_driver_sql(f"PRAGMA schema_version = {int(version) + 1}")
    except sa.exc.DatabaseError:
        connection.exec_driver_sql("PRAGMA writable_schema = OFF")
        with op.batch_alter_table(_LOG) as batch:
            batch.drop_constraint(op.f("ck_mcp_tool_call_log_status"), type_="check")
            batch.create_check_constraint(op.f("ck_mcp_tool_call_log_status"), sa.text(_STATUSES))
    else:
        connection.exec_driver_sql("PRAGMA writable_schema = OFF")
