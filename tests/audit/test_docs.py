"""docs/audit.md says what there is, and its program works."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from aggregator.audit.rows import row
from aggregator.domain.call_record import EventKind, RowStatus
from aggregator.storage.audit.chain import ChainBatch
from aggregator.storage.database import open_database
from aggregator.storage.tables import audit_events, mcp_tool_call_log
from tests.audit.logs import NOTHING, make_call

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")


def test_every_column_status_and_kind_has_its_place() -> None:
    """Proves: D9."""
    columns = {column.name for table in (mcp_tool_call_log, audit_events) for column in table.c}
    named = set(re.findall(r"`(\w+)`", PAGE))
    assert columns | set(get_args(RowStatus)) | set(get_args(EventKind)) <= named


@pytest.mark.parametrize("key", [[], ["a chain key of more than 32 characters"]])
def test_the_program_on_the_page_checks_a_log(made: Path, url: str, key: list[str]) -> None:
    """D9: Whoever does not trust this program can check its log with another."""
    strange = 'tab\t, bell\x07, delete\x7f, line\u2028, "quotes", \\, ümlaut, 地图, 😀'
    calls = [
        make_call(1, duration=0.000012, queued=1e-6, error_message=strange),
        make_call(2, duration=86400.0, steps=[], result=None, conversation_id=strange),
        make_call(3, started=1763712000.1, retries=2),
    ]

    async def fill() -> None:
        async with open_database(url, *key) as database:
            await database.audit.append(ChainBatch([row(call, NOTHING) for call in calls]))

    asyncio.run(fill())
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", program, made, *key], capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.stdout, done.stderr) == ("1 ok\n2 ok\n3 ok\n", "")
