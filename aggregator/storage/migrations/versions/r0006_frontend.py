"""The column for how a call came in, under the word that the rest of the program has for it."""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Rename the column; the digests of rows stay, which are of the first name (`FIRST_NAMES` of the chain)."""
    op.execute("ALTER TABLE mcp_tool_call_log RENAME COLUMN door TO frontend")
