"""The flow labels in the database: printed, and cleared."""

import json
import os
import time
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.record_change import noted, operator
from aggregator.cli.runtime.tables import minute, one_line, print_rows
from aggregator.cli.runtime.writer import say
from aggregator.config.files.report import nearest
from aggregator.flow.decide.decide_flow import how_long_ago
from aggregator.flow.storage import FlowRow
from aggregator.storage.database import open_database
from aggregator.storage.locate import default_url


def show(storage: str | None, agent: str | None = None, as_json: bool = False) -> int:
    """Print the labels that count now, of one agent or of all."""
    now = time.time()
    rows = run_loop(_rows(_url(storage), agent, now))
    if as_json:
        say(json.dumps(_objects(rows), ensure_ascii=False, indent=2))
        return 0
    if not rows:
        say("Nothing that was read is kept." if agent is None else run_loop(_nothing(_url(storage), agent, now)))
        return 0
    table = [("AGENT", "OF", "SCOPE", "LABEL", "BY", "READ", "COUNTS UNTIL")]
    table += [
        (
            one_line(row.agent_id),
            row.kind,
            one_line(row.shown),
            one_line(row.label),
            one_line(row.tool),
            how_long_ago(now - row.last),
            minute(row.expires),
        )
        for row in rows
    ]
    print_rows(table)
    return 0


def clear(
    storage: str | None, agent: str, scope: str | None = None, *, audited: bool = True, chain_key: str | None = None
) -> int:
    """Forget the reads in all conversations of an agent or in those of one name; return 1 if there was nothing."""
    cleared = run_loop(_clear(_url(storage), agent, scope, audited, chain_key))
    if not cleared:
        say(run_loop(_nothing(_url(storage), agent, time.time(), scope)))
        return 1
    several = "1 scope" if cleared == 1 else f"{cleared} scopes"
    say(f"{one_line(agent)}: what was read is forgotten in {several}.")
    return 0


async def _rows(url: str, agent: str | None, now: float) -> list[FlowRow]:
    async with open_database(url) as database:
        return await database.flow.show(agent, now=now)


async def _clear(url: str, agent: str, scope: str | None, audited: bool, chain_key: str | None) -> int:
    async with open_database(url, chain_key) as database:
        cleared = await database.flow.clear(agent, scope, now=time.time())
        if cleared and audited:
            by = operator()
            where = "all its conversations" if scope is None else f"the scope {scope}"
            said = f"{by} had forgotten what {agent} has read, in {where}."
            await noted(database, "flow", said, agent, by=by, scope=scope, scopes=cleared)
    return cleared


async def _nothing(url: str, agent: str, now: float, scope: str | None = None) -> str:
    """Return the text that an agent, or one of its scopes, has no labels, with similar names."""
    agents = {row.agent_id for row in await _rows(url, None, now)}
    where = f"in {one_line(scope)} " if scope is not None else ""
    said = f"Nothing that {one_line(agent)} has read {where}is kept."
    if agent in agents:
        return f"{said} `aggregator flow show` prints its scopes."
    meant = nearest(agent, sorted(agents))
    return f"{said} Did you mean {one_line(meant)}?" if meant is not None else said


def _objects(rows: Sequence[FlowRow]) -> list[dict[str, Any]]:
    """Return the rows by scope."""
    found = []
    for (agent, kind, shown, _), some in groupby(rows, lambda row: (row.agent_id, row.kind, row.shown, row.scope)):
        labels = [
            {
                "label": row.label,
                "tool": row.tool,
                "trace_id": row.trace_id,
                "first": row.first,
                "last": row.last,
                "expires": row.expires,
            }
            for row in some
        ]
        found.append({"agent": agent, "kind": kind, "scope": shown, "labels": labels})
    return found


def _url(storage: str | None) -> str:
    return storage or default_url(os.environ)
