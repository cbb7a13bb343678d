"""Calls that wait for confirmation. An answer holds for one agent, one tool and one set of arguments: once, or for a
time.

Rule: every step is one conditional statement in one transaction, so that of two processes exactly one takes it.
"""

import json
import secrets
import unicodedata
from collections.abc import Collection, Mapping
from typing import Any, Final, Literal, NamedTuple

from sqlalchemy import ColumnElement, RowMapping, case, delete, func, insert, select, update

from aggregator.storage.engine.engine import Engine, Version
from aggregator.storage.errors import AlreadyAgreed, NoSuchRow, QueueFull
from aggregator.storage.records import APPROVALS_SUBJECT, AboutCall, Approval, ApprovalStatus
from aggregator.storage.tables import approvals
from aggregator.storage.validity import Validity, valid_until

SUBJECT: Final = APPROVALS_SUBJECT
# More open requests than a user reads: from then on the agent is refused.
PENDING_AT_MOST: Final = 100
# Seconds that a refusal counts: until then the same call is refused without asking again.
DENIED_FOR: Final = 24 * 3600.0
# Seconds that an answered or expired approval stays visible.
KEPT: Final = 30 * 86400.0
# Characters of a note.
NOTE_AT_MOST: Final = 500
_NAMES: Final = 128
_CLI: Final = "cli:"
_ID_ALPHABET: Final = "abcdefghijkmnpqrstuvwxyz23456789"
_OPEN: Final = ("pending", "approved")
# Seconds by which the clocks of processes that share a database may differ.
_SKEW: Final = 60.0
_NOTHING_KNOWN: Final = AboutCall()


class ApprovalAnswer(NamedTuple):
    """A user's answer to one request: the name, a note, and the validity of an approval."""

    kind: Literal["approve", "deny"]
    by: str
    note: str | None = None
    validity: Validity = "once"


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
        about: AboutCall = _NOTHING_KNOWN,
        needed: int = 1,
        expires: float,
        now: float,
    ) -> Approval:
        """Queue a request, unless the same one still waits. `summary` and `arguments` (JSON) are displayed unchanged.
        `needed` users have to agree.

        Raises:
            QueueFull: too many requests of this agent wait.
            StorageError: the database failed.
        """
        async with self._engine.write(SUBJECT) as connection:
            same = select(approvals).where(_bound(agent_id, tool, digest), _is_open("pending", now))
            if row := (await connection.execute(same)).mappings().first():
                if row["needed"] >= needed:
                    return _record(row, now)
                more = update(approvals).where(approvals.c.id == row["id"]).values(needed=needed)
                return _record((await connection.execute(more.returning(*approvals.c))).mappings().one(), now)
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
                "needed": needed,
                **about._asdict(),
            }
            made = await connection.execute(insert(approvals).values(values).returning(*approvals.c))
            return _record(made.mappings().one(), now)

    async def find_answer(
        self, agent_id: str, tool: str, digest: str, *, needed: int = 1, now: float
    ) -> Approval | None:
        """Return the newest valid answer about exactly this call: an unused approval of `needed` users, or a
        refusal.
        """
        enough = _is_open("approved", now) & (approvals.c.needed >= needed)
        counts = enough | _is_open("denied", now)
        answered = select(approvals).where(_bound(agent_id, tool, digest), counts)
        return await self._first(answered.order_by(approvals.c.decided.desc(), approvals.c.id), now)

    async def answered(self, ids: Collection[str], *, now: float) -> set[str]:
        """Return the ids that no longer wait for an answer, or are not in the queue."""
        async with self._engine.read() as connection:
            waiting = select(approvals.c.id).where(approvals.c.id.in_(ids), _is_open("pending", now))
            return set(ids) - set((await connection.execute(waiting)).scalars())

    async def consume(self, id: str, agent_id: str, tool: str, digest: str, *, needed: int = 1, now: float) -> bool:
        """Use an approval for its call. A single-use one is used up: True for exactly one caller of all processes.

        Raises:
            StorageError: the database failed. The call must not go on then.
        """
        mine = approvals.c.id == id, _bound(agent_id, tool, digest), _is_open("approved", now)
        once = case((approvals.c.valid_until.is_(None), "used"), else_=approvals.c.status)
        counted = {"status": once, "used": now, "uses": approvals.c.uses + 1}
        async with self._engine.write(SUBJECT) as connection:
            done = await connection.execute(
                update(approvals).where(*mine, approvals.c.needed >= needed).values(counted)
            )
            return done.rowcount == 1

    async def count_again(self, id: str) -> None:
        """Count a repeated call after its denial."""
        async with self._engine.write() as connection:
            again = {"asked_again": approvals.c.asked_again + 1}
            await connection.execute(update(approvals).where(approvals.c.id == id).values(again))

    async def approve(
        self, id: str, by: str, *, note: str | None = None, valid_until: float | None = None, now: float
    ) -> Approval:
        """Approve a waiting request: one call, or all such calls until `valid_until`.

        If several users have to agree, the shortest of their validities counts, and the request waits for the last of
        them.

        Raises:
            NoSuchRow: there is none, or it is answered or expired.
            AlreadyAgreed: this user has approved before, and another one has to.
        """
        while True:
            found = await self.get(id, now=now)
            if found.status != "pending":
                raise NoSuchRow(f"Approval {id} is {found.status} already.")
            done = await self._agree(found, by, note, valid_until, now)
            if done is not None:
                return done
            # Another user answered since it was read.

    async def deny(
        self, id: str, by: str, *, note: str | None = None, seen: ApprovalStatus | None = None, now: float
    ) -> Approval:
        """Refuse for `DENIED_FOR`, or withdraw an unused approval; the agent sees `note`.

        With `seen`, only while it has that status.

        Raises:
            NoSuchRow: there is none, or it is denied, used or expired.
        """
        said = {"note": _storable(note)}
        values = {"status": "denied", "decided": now, "decided_by": by[:_NAMES], **said, "expires": now + DENIED_FOR}
        allowed = [status for status in _OPEN if seen in (None, status)]
        mine = approvals.c.id == id, approvals.c.status.in_(allowed), _counts(now)
        done = await self._answer(mine, values, now)
        if done is None:
            found = await self.get(id, now=now)
            raise NoSuchRow(f"Approval {id} is {found.status} already.")
        return done

    async def list(
        self, status: ApprovalStatus | None = None, *, since: float | None = None, most: int | None = None, now: float
    ) -> list[Approval]:
        """Return all approvals, or those of one status; oldest first, without their arguments if `most` is given.

        With `since`, only those that wait or changed after it; `most` selects the newest.
        """
        wanted = select(approvals)
        if status == "pending":
            wanted = wanted.where(_is_open("pending", now))
        if since is not None:
            recent = (approvals.c.decided > since) | (approvals.c.used > since) | (approvals.c.expires > since)
            wanted = wanted.where(recent)
        if most is None:
            wanted = wanted.order_by(approvals.c.created, approvals.c.id)
        else:
            kept = [column for column in approvals.c if column.name != "arguments"]
            wanted = wanted.with_only_columns(*kept).order_by(approvals.c.created.desc(), approvals.c.id).limit(most)
        async with self._engine.read() as connection:
            found = [_record(row, now) for row in (await connection.execute(wanted)).mappings()]
        if most is not None:
            found.reverse()
        return [approval for approval in found if status in (None, approval.status)]

    async def waiting(self, *, now: float) -> int:
        """Return how many questions wait for an answer."""
        async with self._engine.read() as connection:
            query = select(func.count()).select_from(approvals).where(_is_open("pending", now))
            return await connection.scalar(query) or 0

    async def last_approved(self, agent_id: str, tool: str, *, before: float) -> Approval | None:
        """Return the latest approved call of this agent and tool before this moment."""
        agreed = approvals.c.status.in_(("approved", "used"))
        mine = (approvals.c.agent_id == agent_id) & (approvals.c.tool == tool) & (approvals.c.decided <= before)
        return await self._first(select(approvals).where(mine, agreed).order_by(approvals.c.decided.desc()), None)

    async def get(self, id: str, *, now: float) -> Approval:
        """Return one approval.

        Raises:
            NoSuchRow: there is none such.
        """
        found = await self._first(select(approvals).where(approvals.c.id == id), now)
        if found is None:
            raise NoSuchRow(f"There is no approval {id!r:.60}.")
        return found

    async def _first(self, query: Any, now: float | None) -> Approval | None:
        async with self._engine.read() as connection:
            row = (await connection.execute(query.limit(1))).mappings().first()
        return None if row is None else _record(row, now)

    async def _agree(
        self, found: Approval, by: str, note: str | None, valid_until: float | None, now: float
    ) -> Approval | None:
        """Add one approval to a waiting request; None, without a change, if it has changed by now."""
        before = people_of(found)
        if any(same_person(by, name) for name in before):
            left = found.needed - len(before)
            raise AlreadyAgreed(
                f"{by:.60} has agreed to {found.id} already; {left} more must, and not the same person."
            )
        names = (*before, by)
        if before:
            times = [found.valid_until, valid_until]
            valid_until = None if None in times else min(time for time in times if time is not None)
        values: dict[str, Any] = {"agreed": json.dumps(names, ensure_ascii=False), "valid_until": valid_until}
        said = "\n".join(filter(None, (found.note, _storable(note))))
        values["note"] = said or None
        if len(names) >= found.needed:
            values |= {"status": "approved", "decided": now, "decided_by": ", ".join(names)[:_NAMES]}
            if valid_until is not None:
                values["expires"] = valid_until
        unchanged = (
            approvals.c.agreed.is_(None) if found.agreed is None else approvals.c.agreed == found.agreed,
            approvals.c.needed == found.needed,
        )
        return await self._answer((approvals.c.id == found.id, _is_open("pending", now), *unchanged), values, now)

    async def _answer(
        self, mine: tuple[ColumnElement[bool], ...], values: Mapping[str, Any], now: float
    ) -> Approval | None:
        async with self._engine.write(SUBJECT) as connection:
            done = await connection.execute(update(approvals).where(*mine).values(values).returning(*approvals.c))
            row = done.mappings().first()
        return None if row is None else _record(row, now)


async def give_answer(
    queue: Approvals, id: str, answer: ApprovalAnswer, now: float, *, seen: ApprovalStatus | None = None
) -> Approval:
    """Enter an answer into the queue, only while the approval has the status that the user has `seen`.

    Raises:
        NoSuchRow, AlreadyAgreed: as of `Approvals.approve` and `Approvals.deny`.
    """
    if answer.kind == "deny":
        return await queue.deny(id, answer.by, note=answer.note, seen=seen, now=now)
    until = valid_until(answer.validity, now)
    return await queue.approve(id, answer.by, note=answer.note, valid_until=until, now=now)


def people_of(approval: Approval) -> tuple[str, ...]:
    """Return the names of those who have agreed so far."""
    names = json.loads(approval.agreed) if approval.agreed is not None else []
    return tuple(names)


def same_person(one: str, other: str) -> bool:
    """Tell whether two names belong to one user: a command-line user has the same name elsewhere."""
    return _plain_name(one) == _plain_name(other)


def _plain_name(name: str) -> str:
    """Return a name without what only its spelling has: case, spaces around and between words, composed letters."""
    folded = unicodedata.normalize("NFKC", name).casefold().removeprefix(_CLI)
    return unicodedata.normalize("NFKC", " ".join(folded.split()))


def _storable(note: str | None) -> str | None:
    """Return a note without what no database takes: NUL, and halves of characters."""
    kept = note[:NOTE_AT_MOST].encode("utf-8", "replace").decode().replace("\0", "") if note else ""
    return kept or None


def _bound(agent_id: str, tool: str, digest: str) -> ColumnElement[bool]:
    return (approvals.c.agent_id == agent_id) & (approvals.c.tool == tool) & (approvals.c.digest == digest)


def _is_open(status: str, now: float) -> ColumnElement[bool]:
    return (approvals.c.status == status) & _counts(now)


def _counts(now: float) -> ColumnElement[bool]:
    # What was asked or decided later than now was so before the clock was set back: how long ago is not known.
    since = func.coalesce(approvals.c.decided, approvals.c.created)
    return (approvals.c.expires > now) & (since <= now + _SKEW)


def _record(row: RowMapping, now: float | None) -> Approval:
    since = row["decided"] if row["decided"] is not None else row["created"]
    over = now is not None and row["status"] in _OPEN and not (since - _SKEW <= now < row["expires"])
    return Approval(**{**row, "status": "expired" if over else row["status"]})
