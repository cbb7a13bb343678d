"""The table of flow labels: what each conversation of an agent has read, and until when that counts.

Law: a label that is there ends only when it expires or is cleared; to note it again never makes it end earlier.
"""

import asyncio
import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from math import isfinite
from typing import Final, NamedTuple

from sqlalchemy import bindparam, case, delete, select

from aggregator.storage.engine.change_mark import ChangeMark
from aggregator.storage.engine.engine import Engine, Version
from aggregator.storage.records import FLOW_SUBJECT
from aggregator.storage.tables import changes, flow_labels

# In place of labels: the session was sent a list of tools, or called before that. No policy can name a label so.
LISTED: Final = "(listed)"
CALLED: Final = "(called)"
_MARKS: Final = (LISTED, CALLED)
# Clears read at once, and rows listed at once.
_PAGE: Final = 1_000
LISTED_AT_MOST: Final = 10_000
# Made once: a decided call may wait for it.
_OF_SCOPES: Final = select(flow_labels).where(
    flow_labels.c.scope.in_(bindparam("scopes", expanding=True)), flow_labels.c.expires > bindparam("now")
)


class FlowRow(NamedTuple):
    """One label of one scope; the fields are the table's columns (`flow/tables.py`)."""

    scope: str
    label: str
    agent_id: str
    kind: str
    shown: str
    tool: str
    trace_id: str | None
    first: float
    last: float
    expires: float


class FlowClear(NamedTuple):
    """A clear of the reads before `at`, in seconds since 1970; its number is `seq`.

    It applies to all scopes of an agent, or only to those with a digest in `scopes`, if any. Without an agent, it
    applies to all. The subject of an unreadable one is not known.
    """

    seq: int
    agent_id: str | None
    at: float
    scopes: frozenset[str] = frozenset()
    unreadable: bool = False


class FlowLabels:
    """The rows of one database. Times are in seconds since 1970.

    `mark` changes after each commit of a label by any process, so that those who know the labels of a scope and saw the
    mark before they read them need no other look.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.mark = ChangeMark(engine.path, "flow")

    async def read(self, scopes: Collection[str], *, now: float) -> dict[str, list[FlowRow]]:
        """Return the labels of these scopes that count at `now`; a bounded number of scopes.

        Raises:
            ValueError: a row was damaged.
            StorageError: the database cannot do it. So with every method.
        """
        values = {"scopes": list(scopes), "now": now}
        rows = await self._engine.read_in_thread(lambda connection: connection.execute(_OF_SCOPES, values).all())
        found: dict[str, list[FlowRow]] = {}
        for row in rows:
            if not all(isinstance(at, float) and isfinite(at) for at in (row.first, row.last, row.expires)):
                raise ValueError("a row of flow labels has a time that is none")
            found.setdefault(row.scope, []).append(FlowRow(*row))
        return found

    async def note(self, rows: Sequence[FlowRow]) -> None:
        """Write labels; on return they are committed, and every process sees another `mark`. A stored label is kept if
        it is later.
        """
        table = flow_labels.c
        new = self._engine.insert(flow_labels)
        later, over = new.excluded.last >= table.last, table.expires <= new.excluded.last
        statement = new.on_conflict_do_update(
            index_elements=["scope", "label"],
            set_={
                "tool": case((later, new.excluded.tool), else_=table.tool),
                "trace_id": case((later, new.excluded.trace_id), else_=table.trace_id),
                "first": case((over, new.excluded.first), else_=table.first),
                "last": case((later, new.excluded.last), else_=table.last),
                "expires": case((new.excluded.expires > table.expires, new.excluded.expires), else_=table.expires),
            },
        )
        # In one order in every process, so that no two wait for each other's rows.
        values = [row._asdict() for row in sorted(rows)]
        async with self._engine.write() as connection:
            await connection.execute(statement, values)
        await asyncio.to_thread(self.mark.change)

    async def show(self, agent_id: str | None, *, now: float) -> list[FlowRow]:
        """Return the labels that count at `now`, of one agent or of all, in the order of agents and scopes."""
        wanted = select(flow_labels).where(flow_labels.c.expires > now, flow_labels.c.label.not_in(_MARKS))
        if agent_id is not None:
            wanted = wanted.where(flow_labels.c.agent_id == agent_id)
        table = flow_labels.c
        ordered = wanted.order_by(table.agent_id, table.kind, table.shown, table.scope, table.label)
        async with self._engine.read() as connection:
            return [FlowRow(*row) for row in (await connection.execute(ordered.limit(LISTED_AT_MOST))).all()]

    async def clear(self, agent_id: str, shown: str | None, *, now: float) -> int:
        """Remove the labels of an agent, or of its scopes that are shown so; tell all processes. Return how many scopes
        there were.
        """
        mine = [flow_labels.c.agent_id == agent_id]
        if shown is not None:
            mine.append(flow_labels.c.shown == shown)
        known = (
            select(flow_labels.c.scope)
            .where(*mine, flow_labels.c.label.not_in(_MARKS))
            .distinct()
            .limit(LISTED_AT_MOST)
        )
        async with self._engine.read() as connection:
            scopes = list((await connection.execute(known)).scalars())
        if shown is not None and not scopes:
            return 0
        body = {"agent": agent_id, "at": now, "scopes": scopes if shown is not None else []}
        async with self._engine.write(FLOW_SUBJECT, body=body) as connection:
            # A session that took over what its key knew has nothing more of that; that it has listed stays so.
            gone = [*mine, flow_labels.c.label != LISTED, flow_labels.c.last <= now]
            await connection.execute(delete(flow_labels).where(*gone))
        return len(scopes)

    async def newest_clear(self) -> Version:
        """Return the file of the database and the number of the newest clear; 0 if there is none."""
        return await self._engine.version(FLOW_SUBJECT)

    async def clears_after(self, seq: int) -> list[FlowClear]:
        """Return the clears after a number, oldest first; a bounded number of them."""
        wanted = select(changes).where(changes.c.subject == FLOW_SUBJECT, changes.c.seq > seq)
        async with self._engine.read() as connection:
            rows = (await connection.execute(wanted.order_by(changes.c.seq).limit(_PAGE))).all()
        return [_clear(row.seq, row.at, row.body) for row in rows]


def _clear(seq: int, at: float, body: str | None) -> FlowClear:
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        said = json.loads(body or "")
        agent, when, scopes = said["agent"], float(said["at"]), said["scopes"]
        if (
            isinstance(agent, str)
            and isfinite(when)
            and isinstance(scopes, list)
            and all(isinstance(one, str) for one in scopes)
        ):
            return FlowClear(seq, agent, when, frozenset(scopes))
    # Its agent is unknown: without `unreadable` it would clear the labels of all.
    return FlowClear(seq, None, at, unreadable=True)
