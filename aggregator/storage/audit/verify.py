"""The proof that the audit log is whole: every row unchanged, none missing, none added by another program.

Law: a program that can write the database and knows the key, if there is one, can also make a whole new chain; one that
has an older state of the database can put that back. Only what was noted elsewhere shows either.
"""

import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from aggregator.storage.audit.chain import (
    GENESIS,
    TIMES,
    TRIMMED,
    ChainKey,
    Head,
    digested,
    link,
    trimmed_by,
    with_first_names,
)
from aggregator.storage.audit.read import AuditReader, LogBounds, LogRow, ends, next_rows
from aggregator.storage.errors import StorageError

# More than a person reads; the rest is counted.
FAULTS_AT_MOST: Final = 100
# No row of the gateway has such a number; a row that was written by others may.
_LEAST: Final = -(2**63)
_NO_KEY: Final = (
    "This log is chained with a key: without it nothing is proven. Run this with the configuration that has it as "
    "`audit.chain_key`."
)


class ChainFault(NamedTuple):
    """A fault of the chain, at a row, or before it, or behind it."""

    seq: int
    what: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a verification. `trimmed` is the newest row that was removed for its age or the size of the log.

    `keyed_from` is the first row that only a holder of the key can have made. `anchors_found` are rows noted elsewhere
    that are there; those of `anchors_removed` can no longer be.
    """

    rows: int
    head: Head
    trimmed: Head
    faults: tuple[ChainFault, ...]
    fault_count: int
    keyed_from: int | None = None
    anchors_found: int = 0
    anchors_removed: int = 0


class Verifier:
    """The comparison of every row with the one before it: call `see` with each, in order, and `end` for the verdict."""

    def __init__(
        self,
        record: LogBounds | None,
        expected: str | None = None,
        anchors: Sequence[Head] = (),
        key: ChainKey | None = None,
    ) -> None:
        self._record = record
        self._trimmed = Head(0, GENESIS) if record is None else record.trimmed
        self._trimmed_by_event: Head | None = None
        self._last = self._trimmed
        self._last_changed = False
        self._expected = expected
        self._met = expected in (None, self._trimmed.digest)
        self._anchors: dict[int, list[str]] = {}
        for seq, digest in anchors:
            self._anchors.setdefault(seq, []).append(digest)
        self._anchors_found = 0
        self._key = key
        self._keyed_from: int | None = None
        self._rows = 0
        self._faults: list[ChainFault] = []
        self._fault_count = 0

    def see(self, row: LogRow) -> None:
        """Compare a row with the one before it."""
        self._rows += 1
        last = self._last
        if row.seq <= last.seq:
            twice = "There are two rows of this number." if row.seq == last.seq else "It should have been removed."
            self._fault(row.seq, twice)
            return
        gap = row.seq > last.seq + 1
        if gap:
            self._missing(last.seq + 1, row.seq - 1)
        changed = self._changed(row)
        if changed:
            self._fault(row.seq, "It was changed.")
        elif not gap and row.previous != last.digest and not self._last_changed:
            before = "the record of what was removed" if last.seq == self._trimmed.seq else f"row {last.seq}"
            self._fault(row.seq, f"It does not follow {before}: one of the two was replaced.")
        if row.kind == TRIMMED:
            self._trimmed_by_event = trimmed_by(row.values)
        self._met = self._met or row.digest == self._expected
        self._hold_against_anchors(Head(row.seq, row.digest))
        self._last, self._last_changed = Head(row.seq, row.digest), changed

    def end(self) -> Verdict:
        """Return what was found, once every row was seen."""
        record, last = self._record, self._last
        if record is None:
            self._fault(last.seq, "The record of where the log ends is missing: rows may be missing behind this one.")
        elif record.head.seq > last.seq:
            self._missing(last.seq + 1, record.head.seq, " at the end")
        elif record.head.seq < last.seq:
            self._fault(record.head.seq + 1, "From here on rows were added, or the record of the end was changed.")
        elif record.head.digest != last.digest and not self._last_changed:
            self._fault(
                last.seq, "It is not the row that the log ended with: it or the record of the end was replaced."
            )
        if record is not None and record.trimmed != (self._trimmed_by_event or Head(0, GENESIS)):
            self._fault(
                record.trimmed.seq,
                "No event of the log says that the rows up to this one were removed for their age: they were cut off.",
            )
        if record is not None and self._key is not None:
            self._hold_against_key(record, self._key)
        removed = self._end_of_anchors()
        if not self._met:
            self._fault(last.seq, f"No row has the expected digest {self._expected}: the log was cut or made anew.")
        return Verdict(
            self._rows,
            last,
            self._trimmed,
            tuple(self._faults),
            self._fault_count,
            self._keyed_from,
            self._anchors_found,
            removed,
        )

    def _changed(self, row: LogRow) -> bool:
        """Return whether a row is not what its digest says, under its present names or its first ones."""
        return not any(self._fits(row, content) for content in _contents(row))

    def _fits(self, row: LogRow, content: str) -> bool:
        """Return whether the digest of a row is that of this content in its place."""
        if self._key is not None and link(row.previous, row.seq, content, self._key) == row.digest:
            if self._keyed_from is None:
                self._keyed_from = row.seq
            return True
        if link(row.previous, row.seq, content) != row.digest:
            return False
        if self._keyed_from is not None:
            self._fault(row.seq, "It was made without the key.")
        return True

    def _hold_against_key(self, record: LogBounds, key: ChainKey) -> None:
        if self._keyed_from is None:
            self._fault(
                self._last.seq, "No row was made with the key: the log was made anew, or has had no key so far."
            )
        elif not hmac.compare_digest(str(record.mac), key.sign_ends(record.head, record.trimmed)):
            self._fault(record.head.seq, "The record of where the log ends was made without the key.")

    def _hold_against_anchors(self, row: Head) -> None:
        for digest in self._anchors.get(row.seq, ()):
            if digest == row.digest:
                self._anchors_found += 1
            else:
                self._fault(row.seq, "It is not the row that an anchor notes: the log was made anew.")

    def _end_of_anchors(self) -> int:
        """Return how many anchors are of rows that were removed."""
        cut = [seq for seq in self._anchors if seq > self._last.seq]
        for seq in sorted(cut):
            self._fault(seq, "An anchor notes this row: the log was cut, or an older state of it was put back.")
        removed = sum(len(digests) for seq, digests in self._anchors.items() if seq <= self._trimmed.seq)
        if removed and removed == sum(map(len, self._anchors.values())):
            self._fault(self._trimmed.seq, "All anchors are of rows that were removed: they prove nothing any more.")
        return removed

    def _missing(self, first: int, last: int, where: str = "") -> None:
        rows = f"Row {first} is" if first == last else f"Rows {first} to {last} are"
        self._fault(first, f"{rows} missing{where}.")

    def _fault(self, seq: int, what: str) -> None:
        self._fault_count += 1
        if len(self._faults) < FAULTS_AT_MOST:
            self._faults.append(ChainFault(seq, what))


async def verify(
    reader: AuditReader, expected: str | None = None, anchors: Sequence[Head] = (), key: ChainKey | None = None
) -> Verdict:
    """Read the whole log as it is now. `expected` is the digest of a row noted elsewhere; `anchors` are such rows.

    Raises:
        StorageError: the database cannot be read, or its chain has a key that is not `key`.
    """
    async with reader.frozen() as connection:
        record = await ends(connection)
        if record is not None and record.key_id is not None and (key is None or key.id != record.key_id):
            raise StorageError(_NO_KEY)
        verifier = Verifier(record, expected, anchors, key)
        last = _LEAST
        while rows := await next_rows(connection, last):
            for row in rows:
                verifier.see(row)
            last = rows[-1].seq
    return verifier.end()


def _contents(row: LogRow) -> Iterator[str]:
    """Yield the digests that the columns of a row may have; none where the gateway writes no such row."""
    try:
        for name, value in row.values.items():
            if isinstance(value, bytes) or (name in TIMES and round(value, 6) != value):
                return  # digested as something else, which the value may have been
        for values in (row.values, with_first_names(row.values)):
            content, size = digested(row.kind, values)
            if size == row.size:
                yield content
    except (TypeError, ValueError, OverflowError):
        return  # a value that no row of the gateway holds
