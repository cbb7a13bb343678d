"""The schema as it is now. Every change here is a migration too; a test compares the two."""

from typing import Final

from sqlalchemy import CheckConstraint, Column, Double, Index, Integer, MetaData, String, Table, Text

# The newest migration: a file that carries this stamp needs none.
REVISION: Final = "0001"

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
    info={"checked": True},
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
    CheckConstraint("status IN ('pending', 'granted', 'denied', 'used')", name="status"),
    Index(None, "agent_id", "digest"),
    Index(None, "expires"),
    info={"checked": True},
)
