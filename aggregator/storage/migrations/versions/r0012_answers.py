"""Room for large results that models read on, and for the vectors of tools."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "kept_results",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.Column("size", _NUMBER, nullable=False),
        sa.Column("parts", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_kept_results"),
    )
    op.create_index("ix_kept_results_owner_created", "kept_results", ["owner", "created"])
    op.create_index("ix_kept_results_expires", "kept_results", ["expires"])
    op.create_table(
        "kept_result_parts",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", "part", name="pk_kept_result_parts"),
    )
    op.create_table(
        "tool_vectors",
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("used", sa.Double(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("model", "digest", name="pk_tool_vectors"),
    )
