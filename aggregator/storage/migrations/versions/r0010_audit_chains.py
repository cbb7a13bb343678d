"""Chains of the audit log: one for each slot of a replica. What is there is chain 0, and no row of it changes."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_HEADS = "audit_heads"
_ENDS = ("seq", "digest", "trimmed_seq", "trimmed_digest", "bytes", "key_id", "mac")


def upgrade() -> None:
    """Number the chain of each row and of the record of the ends; where processes write at once, count rows apart."""
    for table in ("mcp_tool_call_log", "audit_events"):
        op.add_column(table, sa.Column("chain", sa.Integer(), nullable=False, server_default="0"))
    connection = op.get_bind()
    before = sa.table(_HEADS, *(sa.column(name) for name in ("name", *_ENDS)))
    heads = connection.execute(sa.select(*(before.c[name] for name in _ENDS)).where(before.c.name == "log")).all()
    op.drop_table(_HEADS)
    made = op.create_table(
        _HEADS,
        sa.Column("chain", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("seq", _NUMBER, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("trimmed_seq", _NUMBER, nullable=False),
        sa.Column("trimmed_digest", sa.String(64), nullable=False),
        sa.Column("bytes", _NUMBER, nullable=False),
        sa.Column("key_id", sa.String(16)),
        sa.Column("mac", sa.String(64)),
        sa.PrimaryKeyConstraint("chain", name="pk_audit_heads"),
    )
    for head in heads:
        connection.execute(sa.insert(made).values(chain=0, **dict(zip(_ENDS, head, strict=True))))
    if connection.dialect.name != "sqlite":
        for table in ("mcp_tool_call_log", "audit_events"):
            op.create_index(f"ix_{table}_chain_seq", table, ["chain", "seq"])
        newest = max((head[0] for head in heads), default=0)
        op.execute(sa.schema.CreateSequence(sa.Sequence("audit_numbers", start=newest + 1)))
