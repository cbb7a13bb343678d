"""The end of each chain of the log: its newest row, the newest that was removed, and the numbers that come next.

Rule: a transaction locks chains in the order of their numbers, so that no two wait for each other.
"""

import hmac
import time
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, bindparam, func, insert, select, text, union_all, update

from aggregator.storage.audit.chain import (
    MENDED,
    TRIMMED,
    ChainEntry,
    ChainKey,
    Head,
    entry,
    genesis,
    trimmed_by,
)
from aggregator.storage.errors import StorageError
from aggregator.storage.tables import audit_events, audit_heads, audit_numbers, mcp_tool_call_log

_OTHER_KEY: Final = (
    "The audit log in this database is chained with a key that is not the `audit.chain_key` of this process: put that "
    "key into the configuration, or name another database with `storage`."
)


class ChainEnd(NamedTuple):
    """The end of one chain: its newest row, the size of its rows, the newest row removed for its age, and the rows to
    write first. `newest` is the newest number of any chain, and `others` is the size of the others.
    """

    chain: int
    head: Head
    size: int
    trimmed: Head
    newest: int = 0
    others: int = 0
    events: tuple[ChainEntry, ...] = ()
    unsigned: bool = False


# Made once: to make a statement takes longer than to execute it.
_others: Final = audit_heads.alias("others")
_THE_STATE: Final = (
    select(
        audit_heads,
        select(func.max(_others.c.seq)).scalar_subquery().label("newest"),
        select(func.sum(_others.c.bytes)).scalar_subquery().label("total"),
        select(func.max(_others.c.key_id)).scalar_subquery().label("log_key"),
    )
    .where(audit_heads.c.chain == bindparam("of_chain"))
    .with_for_update(of=audit_heads)
)
_ENDS: Final = ("seq", "digest", "trimmed_seq", "trimmed_digest", "bytes")
_MINE: Final = audit_heads.c.chain == bindparam("of_chain")
_NEW_STATE: Final = update(audit_heads).where(_MINE).values({name: bindparam(name) for name in _ENDS})
_PROVED: Final = (*_ENDS, "key_id", "mac")
_NEW_PROVED_STATE: Final = update(audit_heads).where(_MINE).values({name: bindparam(name) for name in _PROVED})
_LOCK: Final = select(audit_heads.c.chain).where(_MINE).with_for_update()
_NEXT: Final = select(audit_numbers.next_value()).select_from(func.generate_series(1, bindparam("count")))

_SET_COUNTER: Final = text("SELECT setval('audit_numbers', greatest(:upto, nextval('audit_numbers')))")
_APART: Final = 10_000


def lock(connection: Connection, chain: int) -> None:
    """Make other writers of this chain wait for the end of this transaction; a file has one writer anyway."""
    if connection.dialect.name != "sqlite":
        connection.execute(_LOCK, {"of_chain": chain})


def chains(connection: Connection) -> list[int]:
    """Return the numbers of the chains there are, in order."""
    return list(connection.scalars(select(audit_heads.c.chain).order_by(audit_heads.c.chain)))


def read_end(
    connection: Connection, chain: int, key: ChainKey | None, last: Head | None = None, *, by_rows: bool = False
) -> ChainEnd | None:
    """Return the end of a chain, which nothing else changes before this transaction is over; None without a record.

    `last` is what this process wrote last into the chain. `by_rows`: the end as the rows say, and not their record.

    Raises:
        StorageError: the log is chained with another key.
    """
    state = _state(connection, chain)
    if state is None:
        return None
    if state.log_key is not None and (key is None or key.id != state.log_key):
        raise StorageError(_OTHER_KEY)
    others = _whole(state.total) - _whole(state.bytes)
    if by_rows or not all(isinstance(one, int) for one in (state.seq, state.trimmed_seq, state.bytes, state.newest)):
        return mended(connection, chain)._replace(others=others)
    head, trimmed = Head(state.seq, state.digest), Head(state.trimmed_seq, state.trimmed_digest)
    end = ChainEnd(chain, head, state.bytes, trimmed, state.newest, others)
    cut = last is not None and (head.seq < last.seq or (head.seq == last.seq and head != last))
    if state.key_id is not None and key is not None:
        cut = cut or not hmac.compare_digest(str(state.mac), key.sign_ends(head, trimmed, chain))
    unsigned = key is not None and state.key_id is None
    return end._replace(events=(_mend_event(head),) if cut else (), unsigned=unsigned)


def make_record(connection: Connection, end: ChainEnd) -> None:
    """Insert the record of the end of a chain, which has none."""
    connection.execute(insert(audit_heads).values(chain=end.chain, **_columns(end)))


def keep_record(connection: Connection, end: ChainEnd, key: ChainKey | None) -> None:
    """Record the current end of a chain."""
    values = {"of_chain": end.chain, **_columns(end)}
    if key is None:
        connection.execute(_NEW_STATE, values)
        return
    proof = {"key_id": key.id, "mac": key.sign_ends(end.head, end.trimmed, end.chain)}
    connection.execute(_NEW_PROVED_STATE, {**values, **proof})


def mended(connection: Connection, chain: int) -> ChainEnd:
    """Return the reconstructed record of the end, if it is lost or wrong; the chain goes on from there."""
    last, size = genesis(chain), 0
    for table in (mcp_tool_call_log, audit_events):
        mine = table.c.chain == chain
        newest = select(table.c.seq, table.c.digest).where(mine).order_by(table.c.seq.desc()).limit(1)
        found = connection.execute(newest).first()
        last = Head(*found) if found is not None and found.seq > last.seq else last
        size += connection.scalar(select(func.coalesce(func.sum(table.c.bytes), 0)).where(mine)) or 0
    trims = select(audit_events.c.summary, audit_events.c.details).where(
        audit_events.c.kind == TRIMMED, audit_events.c.chain == 0
    )
    newest_trim = connection.execute(trims.order_by(audit_events.c.seq.desc()).limit(1)).mappings().first()
    trimmed = (trimmed_by(dict(newest_trim)) if newest_trim is not None else {}).get(chain, genesis(chain))
    # If all rows of a chain were removed, it goes on there.
    last = max(last, trimmed, key=lambda head: head.seq)
    numbers = union_all(*(select(func.max(table.c.seq).label("seq")) for table in (mcp_tool_call_log, audit_events)))
    newest_number = connection.scalar(select(func.max(numbers.subquery().c.seq))) or 0
    events = (_mend_event(last),) if last.seq else ()
    return ChainEnd(chain, last, size, trimmed, max(newest_number, last.seq), 0, events)


def next_numbers(connection: Connection, end: ChainEnd, count: int, *, anew: bool = False) -> Sequence[int]:
    """Return the numbers of so many rows after the end of a chain, in order.

    `anew`: the next numbers are already taken by rows.
    """
    if connection.dialect.name == "sqlite":
        return range(end.newest + 1, end.newest + 1 + count)
    numbers = [] if anew else _taken(connection, count)
    if not numbers or numbers[0] <= end.head.seq:
        # The database was put back from a copy without the counter. Others may take numbers at this moment.
        upto = max(end.newest, end.head.seq) + _APART
        connection.execute(_SET_COUNTER, {"upto": upto})
        numbers = _taken(connection, count)
    return numbers


def _taken(connection: Connection, count: int) -> list[int]:
    return sorted(connection.scalars(_NEXT, {"count": count}))


def _state(connection: Connection, chain: int) -> Row[Any] | None:
    """Return the record of a chain, locked if the database has locks on rows."""
    return connection.execute(_THE_STATE, {"of_chain": chain}).first()


def _columns(end: ChainEnd) -> dict[str, Any]:
    return {
        "seq": end.head.seq,
        "digest": end.head.digest,
        "trimmed_seq": end.trimmed.seq,
        "trimmed_digest": end.trimmed.digest,
        "bytes": end.size,
    }


def _mend_event(head: Head) -> ChainEntry:
    summary = f"The record of the end of the log did not fit; rows behind number {head.seq} may have been cut off."
    return entry(MENDED, {"at": round(time.time(), 6), "summary": summary})


def _whole(value: object) -> int:
    """Return a number of the database; 0 for what another program wrote in its place."""
    return int(value) if isinstance(value, int | Decimal) else 0
