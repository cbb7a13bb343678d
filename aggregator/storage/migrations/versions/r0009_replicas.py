"""Room for replicas: changes as a log, and what replicas of one database share."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables. What `changes` counted so far concerns only processes that have ended."""
    op.drop_table("changes")
    op.create_table(
        "changes",
        sa.Column("seq", _NUMBER, nullable=False, autoincrement=False),
        sa.Column("subject", sa.String(64), nullable=False),
        sa.Column("origin", sa.String(32)),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("body", sa.Text()),
        sa.PrimaryKeyConstraint("seq", name="pk_changes"),
    )
    op.create_index("ix_changes_subject_seq", "changes", ["subject", "seq"])
    op.create_table(
        "replicas",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("group_name", sa.String(64), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=False),
        sa.Column("address", sa.Text()),
        sa.Column("version", sa.String(32), nullable=False),
        sa.Column("started", sa.Double(), nullable=False),
        sa.Column("seen", sa.Double(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_replicas"),
        sa.UniqueConstraint("group_name", "slot", name="uq_replicas_group_name_slot"),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.String(250), nullable=False),
        sa.Column("owner", sa.String(32)),
        sa.Column("generation", _NUMBER, nullable=False),
        sa.Column("renewals", _NUMBER, nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )
    op.create_table(
        "shared_keys",
        sa.Column("group_name", sa.String(64), nullable=False),
        sa.Column("value", sa.String(64), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("group_name", name="pk_shared_keys"),
    )
    op.create_table(
        "used_states",
        sa.Column("nonce", sa.String(64), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("nonce", name="pk_used_states"),
    )
    op.create_index("ix_used_states_expires", "used_states", ["expires"])
    op.create_table(
        "host_sessions",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("agent_id", sa.String(128), nullable=False),
        sa.Column("ended", sa.Double()),
        sa.Column("state", sa.Text()),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_host_sessions"),
    )
    op.create_index("ix_host_sessions_expires", "host_sessions", ["expires"])
    op.create_table(
        "limit_usage",
        sa.Column("counter", sa.String(64), nullable=False),
        sa.Column("replica", sa.String(32), nullable=False),
        sa.Column("report", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.Column("times", sa.Text()),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("counter", "replica", name="pk_limit_usage"),
    )
    op.create_index("ix_limit_usage_expires", "limit_usage", ["expires"])
