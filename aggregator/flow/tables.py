"""The table of flow labels: which kinds of data each conversation of an agent has read."""

from typing import Final

from sqlalchemy import Column, Double, Index, String, Table, Text

from aggregator.storage.table_parts.metadata import metadata

# One label of one scope. `scope` is a digest of the agent, of its identification, and of the conversation, since
# sessions and keys are secrets; `shown` is its display name. `kind` is `session`, `trace` or `key`. `tool` and
# `trace_id` come from the call that brought the label last. After `expires`, the label counts no longer.
flow_labels: Final = Table(
    "flow_labels",
    metadata,
    Column("scope", String(64), primary_key=True),
    Column("label", String(64), primary_key=True),
    Column("agent_id", String(128), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("shown", String(64), nullable=False),
    Column("tool", Text, nullable=False),
    Column("trace_id", Text),
    Column("first", Double, nullable=False),
    Column("last", Double, nullable=False),
    Column("expires", Double, nullable=False),
    Index(None, "agent_id"),
    Index(None, "expires"),
)
