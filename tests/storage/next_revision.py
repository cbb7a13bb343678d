"""The next migration, as a developer adds it: one more step in the folder, and its number in the code."""

import shutil
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.storage import tables
from aggregator.storage.engine import migrate

_PRESENT: Final = tables.REVISION
# A number that no step has, between both.
UNKNOWN: Final = str(int(_PRESENT) + 1)
NEXT: Final = str(int(_PRESENT) + 2)
_STEP: Final = f'''"""A column for a note beside each key."""

import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{_PRESENT}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the column."""
    op.add_column("api_keys", sa.Column("note", sa.Text()))
'''


def add_next_revision(folder: Path, monkeypatch: pytest.MonkeyPatch | None = None) -> None:
    """Have this process know one step more, whose folder is made; without `monkeypatch`, to its end."""
    if not folder.exists():
        shutil.copytree(migrate.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "versions" / f"r{NEXT}_note.py").write_text(_STEP, encoding="utf-8")
    put: Any = monkeypatch.setattr if monkeypatch is not None else setattr
    put(migrate, "FOLDER", folder)
    for name, module in list(sys.modules.items()):
        if name.startswith("aggregator.storage.") and getattr(module, "REVISION", None) == _PRESENT:
            put(module, "REVISION", NEXT)
