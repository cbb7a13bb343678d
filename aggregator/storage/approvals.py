"""Calls that wait for a person. An answer holds for one agent, one tool and one set of arguments, once, for a time.

Rule: every step is one conditional statement in one transaction, so that of two processes exactly one takes it.
"""

import secrets
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import ColumnElement, RowMapping, delete, func, insert, select, update

from aggregator.storage.engine.engine import Engine, Version
from aggregator.storage.errors import NoSuchRow, QueueFull
from aggregator.storage.records import Approval, ApprovalStatus
from aggregator.storage.tables import approvals

SUBJECT: Final = "approvals"
# More unanswered questions than a person reads: from there on an agent is refused.
PENDING_AT_MOST: Final = 100
# How long a refusal counts: until then the same call is refused, and no person is asked about it.
DENIED_FOR: Final = 3600.0
# How long an answered or expired one can still be looked at.
KEPT: Final = 30 * 86400.0
_ID_ALPHABET: Final = "abcdefghijkmnpqrstuvwxyz23456789"
_OPEN: Final = ("pending", "granted")


class Approvals:
    """The queue and its answers. `now` is the time in seconds since 1970."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def version(self) -> Version:
        """Return a value that differs as soon as any process has asked or answered."""
        return await self._engine.version(SUBJECT)

    async def ask(
        self,
        agent_id: str,
        tool: str,
        digest: str,
        summary: str,
        *,
        arguments: str | None = None,
        expires: float,
        now: float,
    ) -> Approval:
        """Queue a question; the same one that still waits is not queued again. `summary` and `arguments` (JSON) are
        shown to people as they are.

        Raises:
            QueueFull: too many questions of this agent wait.
            StorageError: the database cannot do it.
        """
        async with self._engine.write(SUBJECT) as connection:
            same = select(approvals).where(_bound(agent_id, tool, digest), _is_open("pending", now))
            if row := (await connection.execute(same)).mappings().first():
                return _record(row, now)
            await connection.execute(delete(approvals).where(approvals.c.expires < now - KEPT))
            waiting = select(func.count()).where(approvals.c.agent_id == agent_id, _is_open("pending", now))
            if (await connection.scalar(waiting) or 0) >= PENDING_AT_MOST:
                raise QueueFull(f"{PENDING_AT_MOST} calls of this agent already wait for a person.")
            values = {
                "id": "apr_" + "".join(secrets.choice(_ID_ALPHABET) for _ in range(12)),
                "agent_id": agent_id,
                "tool": tool,
                "digest": digest,
                "summary": summary,
                "arguments": arguments,
                "status": "pending",
                "created": now,
                "expires": expires,
            }
            made = await connection.execute(insert(approvals).values(values).returning(*approvals.c))
            return _record(made.mappings().one(), now)

    async def find_answer(self, agent_id: str, tool: str, digest: str, *, now: float) -> Approval | None:
        """Return the newest answer about this very call that still counts: a yes that was not used, or a no."""
        counts = _is_open("granted", now) | _is_open("denied", now)
        answered = select(approvals).where(_bound(agent_id, tool, digest), counts)
        return await self._first(answered.order_by(approvals.c.decided.desc(), approvals.c.id), now)

    async def consume(self, id: str, agent_id: str, tool: str, digest: str, *, now: float) -> bool:
        """Use a granted approval up, for the call it was given for: True for exactly one caller of all processes.

        Raises:
            StorageError: the database cannot do it. The call must not go on then.
        """
        mine = (approvals.c.id == id, _bound(agent_id, tool, digest), _is_open("granted", now))
        async with self._engine.write(SUBJECT) as connection:
            done = await connection.execute(update(approvals).where(*mine).values(status="used", used=now))
            return done.rowcount == 1

    async def grant(self, id: str, by: str, *, now: float) -> Approval:
        """Say yes to a question that still waits.

        Raises:
            NoSuchRow: there is none such, or it is answered or expired.
        """
        return await self._answer(id, {"status": "granted", "decided": now, "decided_by": by}, ("pending",), now)

    async def deny(self, id: str, by: str, *, note: str | None = None, now: float) -> Approval:
        """Say no for `DENIED_FOR`, or take a yes back that was not used yet; `note` is told to the agent.

        Raises:
            NoSuchRow: there is none such, or it is denied, used or expired.
        """
        values = {"status": "denied", "decided": now, "decided_by": by, "note": note, "expires": now + DENIED_FOR}
        return await self._answer(id, values, _OPEN, now)

    async def list(self, status: ApprovalStatus | None = None, *, now: float) -> list[Approval]:
        """Return all approvals, or those of one status; oldest first."""
        async with self._engine.read() as connection:
            rows = await connection.execute(select(approvals).order_by(approvals.c.created, approvals.c.id))
            found = [_record(row, now) for row in rows.mappings()]
        return [approval for approval in found if status in (None, approval.status)]

    async def get(self, id: str, *, now: float) -> Approval:
        """Return one approval.

        Raises:
            NoSuchRow: there is none such.
        """
        found = await self._first(select(approvals).where(approvals.c.id == id), now)
        if found is None:
            raise NoSuchRow(f"There is no approval {id!r:.60}.")
        return found

    async def _first(self, query: Any, now: float) -> Approval | None:
        async with self._engine.read() as connection:
            row = (await connection.execute(query.limit(1))).mappings().first()
        return None if row is None else _record(row, now)

    async def _answer(
        self, id: str, values: Mapping[str, Any], allowed: tuple[ApprovalStatus, ...], now: float
    ) -> Approval:
        mine = (approvals.c.id == id, approvals.c.status.in_(allowed), approvals.c.expires > now)
        async with self._engine.write(SUBJECT) as connection:
            done = await connection.execute(update(approvals).where(*mine).values(values))
        found = await self.get(id, now=now)
        if done.rowcount != 1:
            raise NoSuchRow(f"Approval {id} is {found.status} already.")
        return found


def _bound(agent_id: str, tool: str, digest: str) -> ColumnElement[bool]:
    return (approvals.c.agent_id == agent_id) & (approvals.c.tool == tool) & (approvals.c.digest == digest)


def _is_open(status: str, now: float) -> ColumnElement[bool]:
    return (approvals.c.status == status) & (approvals.c.expires > now)


def _record(row: RowMapping, now: float) -> Approval:
    over = row["status"] in _OPEN and row["expires"] <= now
    return Approval(**{**row, "status": "expired" if over else row["status"]})
