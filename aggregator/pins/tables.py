"""The table of pinned definitions: the approved definitions of each server, and its current ones if they differ."""

from typing import Final

from sqlalchemy import Column, Double, Index, Integer, String, Table, Text, text

from aggregator.storage.table_parts.metadata import metadata

# One item of one entry of a configuration. `entry` is its key, empty for rows from before entries had keys, and `item`
# is SHA-256 of entry, kind and name, in hexadecimal, since names may be too long for a key. `digest`, `version` and
# `definition` are the approved ones, empty before an approval; `version` is the schema version of the definition in the
# list. The `seen_` columns are the server's current ones, empty if they equal the approved ones. `classes` and `flags`
# are names with a comma between.
pinned_items: Final = Table(
    "pinned_items",
    metadata,
    Column("server", Text, primary_key=True),
    Column("item", String(64), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("name", Text, nullable=False),
    Column("digest", String(80)),
    Column("version", String(64)),
    Column("definition", Text),
    Column("approved", Double),
    Column("approved_by", String(128)),
    Column("seen_digest", String(80)),
    Column("seen_version", String(64)),
    Column("seen_definition", Text),
    Column("seen", Double),
    Column("classes", Text),
    Column("renamed_from", Text),
    Column("flags", Text),
    Column("held", Integer, nullable=False, server_default="0"),
    Column("entry", String(48), nullable=False, server_default=text("''")),
    Index(None, "held"),
)
