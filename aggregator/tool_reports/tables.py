"""The table of tool reports: what agents say is broken about a tool."""

from typing import Final

from sqlalchemy import Column, Double, Index, Integer, String, Table, Text

from aggregator.storage.table_parts.metadata import metadata

# The reports of one agent about one tool. `id` is a digest of the three, since names may be long. `tool` is the tool's
# own name. `reasons` is JSON: the last different reasons, each with its count. Times are in seconds since 1970.
tool_reports: Final = Table(
    "tool_reports",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("server", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("agent_id", String(128), nullable=False),
    Column("times", Integer, nullable=False),
    Column("first", Double, nullable=False),
    Column("last", Double, nullable=False),
    Column("reasons", Text, nullable=False),
    Index(None, "agent_id"),
    Index(None, "last"),
)
