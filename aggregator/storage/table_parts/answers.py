"""The tables of data for models: large results, and the embeddings of tools for the search by meaning.

Rule: a kept result is encrypted with a key that is derived from its handle, which the database lacks.
"""

from typing import Final

from sqlalchemy import Column, Double, Index, Integer, LargeBinary, String, Table

from aggregator.storage.table_parts.metadata import NUMBER, metadata

# One result each. `id` is SHA-256 of the handle, `owner` a digest of its caller; both in hexadecimal. `size` counts the
# bytes of all parts as stored.
kept_results: Final = Table(
    "kept_results",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("created", Double, nullable=False),
    Column("expires", Double, nullable=False),
    Column("size", NUMBER, nullable=False),
    Column("parts", Integer, nullable=False),
    Index(None, "owner", "created"),
    Index(None, "expires"),
)

kept_result_parts: Final = Table(
    "kept_result_parts",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("sealed", LargeBinary, nullable=False),
)

# The vector of each definition by each model, as little-endian 32-bit floats. `digest` is the digest of the text that
# the model read; `used` is the time when a process last read it, in seconds since 1970.
tool_vectors: Final = Table(
    "tool_vectors",
    metadata,
    Column("model", String(64), primary_key=True),
    Column("digest", String(64), primary_key=True),
    Column("used", Double, nullable=False),
    Column("vector", LargeBinary, nullable=False),
)
