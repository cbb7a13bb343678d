"""Whether the audit log is whole: every row unchanged, none missing, none added behind the log's back.

Law: whoever can write the database can also make a whole new chain; only a digest noted elsewhere shows that.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from aggregator.storage.audit_chain import GENESIS, TIMES, Head, digested, link
from aggregator.storage.audit_read import AuditReader, Ends, LogRow, ends, next_rows

# More than a person reads; the rest is counted.
FAULTS_AT_MOST: Final = 100
# No row of ours has such a number; one of somebody else's may.
_LEAST: Final = -(2**63)


class Fault(NamedTuple):
    """What is wrong, at which row, or before it, or behind it."""

    seq: int
    what: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found. `trimmed` is the newest row that was removed for its age or the size of the log."""

    rows: int
    head: Head
    trimmed: Head
    faults: tuple[Fault, ...]
    fault_count: int


class Verifier:
    """Sees every row once, in order, and says at the end what is wrong."""

    def __init__(self, record: Ends | None, expected: str | None = None) -> None:
        self._record = record
        self._trimmed = Head(0, GENESIS) if record is None else Head(record.trimmed_seq, record.trimmed_digest)
        self._last = self._trimmed
        self._last_changed = False
        self._expected = expected
        self._met = expected in (None, self._trimmed.digest)
        self._rows = 0
        self._faults: list[Fault] = []
        self._fault_count = 0

    def see(self, row: LogRow) -> None:
        """Hold a row against the one before it."""
        self._rows += 1
        last = self._last
        if row.seq <= last.seq:
            twice = "There are two rows of this number." if row.seq == last.seq else "It should have been removed."
            self._fault(row.seq, twice)
            return
        gap = row.seq > last.seq + 1
        if gap:
            self._missing(last.seq + 1, row.seq - 1)
        changed = _changed(row)
        if changed:
            self._fault(row.seq, "It was changed.")
        elif not gap and row.previous != last.digest and not self._last_changed:
            before = "the record of what was removed" if last.seq == self._trimmed.seq else f"row {last.seq}"
            self._fault(row.seq, f"It does not follow {before}: one of the two was replaced.")
        self._met = self._met or row.digest == self._expected
        self._last, self._last_changed = Head(row.seq, row.digest), changed

    def end(self) -> Verdict:
        """What was found, once every row was seen."""
        record, last = self._record, self._last
        if record is None:
            self._fault(last.seq, "The record of where the log ends is missing: rows may be missing behind this one.")
        elif record.seq > last.seq:
            self._missing(last.seq + 1, record.seq, " at the end")
        elif record.seq < last.seq:
            self._fault(record.seq + 1, "From here on rows were added, or the record of the end was changed.")
        elif record.digest != last.digest and not self._last_changed:
            self._fault(
                last.seq, "It is not the row that the log ended with: it or the record of the end was replaced."
            )
        if not self._met:
            self._fault(last.seq, f"No row has the expected digest {self._expected}: the log was cut or made anew.")
        return Verdict(self._rows, last, self._trimmed, tuple(self._faults), self._fault_count)

    def _missing(self, first: int, last: int, where: str = "") -> None:
        rows = f"Row {first} is" if first == last else f"Rows {first} to {last} are"
        self._fault(first, f"{rows} missing{where}.")

    def _fault(self, seq: int, what: str) -> None:
        self._fault_count += 1
        if len(self._faults) < FAULTS_AT_MOST:
            self._faults.append(Fault(seq, what))


async def verify(reader: AuditReader, expected: str | None = None) -> Verdict:
    """Read the whole log as it is now. `expected` is the digest of a row that was noted elsewhere.

    Raises:
        StorageError: the database cannot be read.
    """
    async with reader.frozen() as connection:
        verifier = Verifier(await ends(connection), expected)
        last = _LEAST
        while rows := await next_rows(connection, last):
            for row in rows:
                verifier.see(row)
            last = rows[-1].seq
    return verifier.end()


def _changed(row: LogRow) -> bool:
    try:
        for name, value in row.values.items():
            if isinstance(value, bytes) or (name in TIMES and round(value, 6) != value):
                return True  # it is digested as something else, which it may have been
        content, size = digested(row.kind, row.values)
        return size != row.size or link(row.previous, row.seq, content) != row.digest
    except (TypeError, ValueError, OverflowError):
        return True  # something that no row of ours holds
