"""The tables of the vault: grants, client ids and links to connect accounts, part of the schema in `tables`.

Rule: the secrets of a row are in `sealed`, encrypted with a key outside of the database, named by `key_id`.
"""

from typing import Final

from sqlalchemy import Column, Double, Index, Integer, String, Table, Text

from aggregator.storage.table_parts.metadata import NUMBER, metadata

# The tokens for one server of one issuer on behalf of one owner. `id` and `account` are digests: of server, address of
# the server, issuer and owner; and of server and owner. `version` counts the stores; a process that gets new tokens has
# claimed the version before.
oauth_grants: Final = Table(
    "oauth_grants",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("account", String(64), nullable=False),
    Column("server", Text, nullable=False),
    Column("resource", Text, nullable=False),
    Column("resource_digest", String(64), nullable=False),
    Column("issuer", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("scopes", Text),
    Column("problem", Text),
    Column("expires", Double),
    Column("renewable", Integer, nullable=False),
    Column("created", Double, nullable=False),
    Column("updated", Double, nullable=False),
    Column("version", NUMBER, nullable=False),
    Column("claimed_by", String(32)),
    Column("claimed_until", Double),
    Column("key_id", String(16), nullable=False),
    Column("sealed", Text, nullable=False),
    Index(None, "account"),
)

# The client ids of the aggregator at issuers. `id` is a digest of the issuer and the redirect address.
oauth_clients: Final = Table(
    "oauth_clients",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("issuer", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("expires", Double),
    Column("key_id", String(16), nullable=False),
    Column("sealed", Text, nullable=False),
)

# Accounts that are being connected. Codes and states are secrets: `id` and `state_hash` are SHA-256 in hexadecimal.
oauth_connects: Final = Table(
    "oauth_connects",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("state_hash", String(64)),
    Column("created", Double, nullable=False),
    Column("expires", Double, nullable=False),
    Column("key_id", String(16), nullable=False),
    Column("sealed", Text, nullable=False),
    Index(None, "state_hash"),
    Index(None, "expires"),
)
