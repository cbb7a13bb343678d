"""The proof that the audit log is whole: every row unchanged, none missing, none added by another program, and no chain
removed.

Law: a program that can write the database and knows the key, if there is one, can also make a whole new chain; a
program with an older state of the database can restore it. Only notes kept elsewhere reveal either.
"""

import hmac
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from aggregator.storage.audit.anchor import Anchor
from aggregator.storage.audit.chain import (
    CHAIN_BEGUN,
    TIMES,
    TRIMMED,
    ChainKey,
    Head,
    begun_by,
    digested,
    genesis,
    link,
    trimmed_by,
)
from aggregator.storage.audit.read import AuditReader, LogBounds, LogRow, ends, next_rows
from aggregator.storage.errors import StorageError

# More than an operator reads; the rest is counted.
FAULTS_AT_MOST: Final = 100
# No row of the gateway has such a number; a row that was written by others may.
_LEAST: Final = -(2**63)
_NO_KEY: Final = (
    "This log is chained with a key: without it nothing is proven. Run this with the configuration that has it as "
    "`audit.chain_key`."
)


class ChainFault(NamedTuple):
    """A fault of a chain, at a row, or before it, or behind it."""

    seq: int
    what: str
    chain: int = 0


class ChainVerdict(NamedTuple):
    """The result for one chain. `trimmed` is its newest row that was removed for its age or the size of the log.

    `keyed_from` is the first row that only a holder of the key can have made.
    """

    chain: int
    rows: int
    head: Head
    trimmed: Head
    keyed_from: int | None
    fault_count: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a verification. `head` is the newest row of any chain.

    `anchors_found` are noted rows that exist; `anchors_removed` are rows removed since.
    """

    rows: int
    head: Head
    chains: tuple[ChainVerdict, ...]
    faults: tuple[ChainFault, ...]
    fault_count: int
    anchors_found: int = 0
    anchors_removed: int = 0

    @property
    def trimmed(self) -> Head:
        """The newest row of any chain that was removed for its age or the size of the log."""
        return max((one.trimmed for one in self.chains), key=_seq_of)

    @property
    def keyed_from(self) -> int | None:
        """The first row of any chain that only a holder of the key can have made."""
        return min((one.keyed_from for one in self.chains if one.keyed_from is not None), default=None)


class Faults:
    """The faults of a log: as many as an operator reads, and the number of all by chain."""

    def __init__(self) -> None:
        self.told: list[ChainFault] = []
        self.counts: Counter[int] = Counter()

    def add(self, chain: int, seq: int, what: str) -> None:
        """Note a fault."""
        self.counts[chain] += 1
        if len(self.told) < FAULTS_AT_MOST:
            self.told.append(ChainFault(seq, what, chain))


class Verifier:
    """The comparison of every row with the one before it in its chain: call `see` with each, in the order of their
    numbers, and `end` for the verdict.
    """

    def __init__(
        self,
        records: Mapping[int, LogBounds],
        expected: str | None = None,
        anchors: Sequence[Anchor] = (),
        key: ChainKey | None = None,
    ) -> None:
        self._records = records
        self._anchors = anchors
        self._key = key
        self._faults = Faults()
        self._expected = expected
        first = records.get(0)
        self._met = expected is None or (first is not None and expected == first.trimmed.digest)
        self._chains: dict[int, _OneChain] = {}
        for chain in (0, *records, *(one.chain for one in anchors)):
            self._chain(chain)
        # What chain 0 tells of the others: the row that tells of each, and where each was trimmed last.
        self._told_in: dict[int, int] = {}
        self._trimmed: dict[int, Head] = {}
        self._rows = 0

    def see(self, row: LogRow) -> None:
        """Compare a row with the one before it in its chain."""
        self._rows += 1
        self._met = self._met or row.digest == self._expected
        self._chain(row.chain).see(row, self._rows)
        if row.chain == 0:
            self._note_chains(row)

    def end(self) -> Verdict:
        """Return the verdict, after every row was seen."""
        for chain, one in sorted(self._chains.items()):
            one.end(self._trimmed.get(chain, genesis(chain)))
            if chain and chain in self._records and chain not in self._told_in:
                self._faults.add(chain, one.last.seq, "Chain 0 does not tell of this chain: another program made it.")
        for chain, seq in self._told_in.items():
            if chain not in self._records:
                self._faults.add(0, seq, f"Chain {chain}, of which this row tells, was taken away.")
        head = max((one.last for one in self._chains.values()), key=_seq_of)
        removed = sum(one.anchors_removed for one in self._chains.values())
        if removed and removed == len(self._anchors):
            upto = max(one.trimmed.seq for one in self._chains.values())
            self._faults.add(0, upto, "All anchors are of rows that were removed: they prove nothing any more.")
        if not self._met:
            what = f"No row has the expected digest {self._expected}: the log was cut or made anew."
            self._faults.add(0, head.seq, what)
        counts = self._faults.counts
        return Verdict(
            self._rows,
            head,
            tuple(one.verdict(counts[chain]) for chain, one in sorted(self._chains.items())),
            tuple(self._faults.told),
            counts.total(),
            sum(one.anchors_found for one in self._chains.values()),
            removed,
        )

    def _chain(self, chain: int) -> "_OneChain":
        if chain not in self._chains:
            noted = (one for one in self._anchors if one.chain == chain)
            self._chains[chain] = _OneChain(chain, self._records.get(chain), noted, self._key, self._faults)
        return self._chains[chain]

    def _note_chains(self, row: LogRow) -> None:
        """Record the facts about other chains in a row of chain 0."""
        if row.kind == TRIMMED:
            self._trimmed = trimmed_by(row.values)
            self._told_in |= {chain: row.seq for chain in self._trimmed if chain}
        elif row.kind == CHAIN_BEGUN and (chain := begun_by(row.values)) is not None:
            if chain in self._told_in:
                self._faults.add(0, row.seq, f"Chain {chain} begins here a second time: the first was taken away.")
            self._told_in[chain] = row.seq


class _OneChain:
    """The comparison of the rows of one chain."""

    def __init__(
        self, chain: int, record: LogBounds | None, anchors: Iterable[Anchor], key: ChainKey | None, faults: Faults
    ) -> None:
        self.trimmed = genesis(chain) if record is None else record.trimmed
        self.last = self.trimmed
        self.anchors_found = self.anchors_removed = 0
        self._number = chain
        self._record = record
        self._last_changed = False
        # How many rows of all chains there were when the last one of this chain was seen.
        self._seen_before = 0
        self._anchors: dict[int, list[str]] = {}
        for noted in anchors:
            self._anchors.setdefault(noted.seq, []).append(noted.digest)
        self._key = key
        self._keyed_from: int | None = None
        self._rows = 0
        self._faults = faults

    def see(self, row: LogRow, seen: int) -> None:
        """Compare a row with the one before it; it is number `seen` of all rows that are there."""
        self._rows += 1
        last = self.last
        if row.seq <= last.seq:
            twice = "There are two rows of this number." if row.seq == last.seq else "It should have been removed."
            self._fault(row.seq, twice)
            return
        # Rows of other chains since then. A number without a row is missing only if the digests do not fit.
        others, self._seen_before = seen - self._seen_before - 1, seen
        follows = row.previous == last.digest
        gap = not follows and row.seq - last.seq - 1 > others
        if gap:
            self._missing(last.seq, row.seq, others)
        changed = self._changed(row)
        if changed:
            self._fault(row.seq, "It was changed.")
        elif not gap and not follows and not self._last_changed:
            where = "the record of what was removed" if last.seq == self.trimmed.seq else f"row {last.seq}"
            self._fault(row.seq, f"It does not follow {where}: one of the two was replaced.")
        self._hold_against_anchors(Head(row.seq, row.digest))
        self.last, self._last_changed = Head(row.seq, row.digest), changed

    def end(self, trimmed_by_event: Head) -> None:
        """Compare the last row with the record of the end, and the record with the log's events about removed rows."""
        record, last = self._record, self.last
        if record is None:
            which = f"of chain {self._number} " if self._number else ""
            what = f"The record of where the log {which}ends is missing: rows may be missing behind this one."
            self._fault(last.seq, what)
        elif record.head.seq > last.seq:
            self._missing_at_the_end(last.seq, record.head.seq)
        elif record.head.seq < last.seq:
            self._fault(record.head.seq + 1, "From here on rows were added, or the record of the end was changed.")
        elif record.head.digest != last.digest and not self._last_changed:
            self._fault(
                last.seq, "It is not the row that the log ended with: it or the record of the end was replaced."
            )
        if record is not None and record.trimmed != trimmed_by_event:
            self._fault(
                record.trimmed.seq,
                "No event of the log says that the rows up to this one were removed for their age: they were cut off.",
            )
        if record is not None and self._key is not None:
            self._hold_against_key(record, self._key)
        for seq in sorted(seq for seq in self._anchors if seq > self.last.seq):
            self._fault(seq, "An anchor notes this row: the log was cut, or an older state of it was put back.")
        self.anchors_removed = sum(len(digests) for seq, digests in self._anchors.items() if seq <= self.trimmed.seq)

    def verdict(self, faults: int) -> ChainVerdict:
        """Return the verdict on this chain."""
        return ChainVerdict(self._number, self._rows, self.last, self.trimmed, self._keyed_from, faults)

    def _changed(self, row: LogRow) -> bool:
        """Return whether a row is not what its digest says."""
        content = _content(row)
        return content is None or not self._fits(row, content)

    def _fits(self, row: LogRow, content: str) -> bool:
        """Tell whether the digest of a row fits this content in its place."""
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
        if self._keyed_from is None and record.mac is None:
            self._fault(self.last.seq, "No row was made with the key: the log was made anew, or has had no key so far.")
        elif not hmac.compare_digest(str(record.mac), key.sign_ends(record.head, record.trimmed, self._number)):
            self._fault(record.head.seq, "The record of where the log ends was made without the key.")

    def _hold_against_anchors(self, row: Head) -> None:
        for digest in self._anchors.get(row.seq, ()):
            if digest == row.digest:
                self.anchors_found += 1
            else:
                self._fault(row.seq, "It is not the row that an anchor notes: the log was made anew.")

    def _missing(self, last: int, row: int, others: int) -> None:
        if others:
            self._fault(last + 1, f"Rows of this chain are missing between {last} and {row}.")
        else:
            rows = f"Row {row - 1} is" if last + 2 == row else f"Rows {last + 1} to {row - 1} are"
            self._fault(last + 1, f"{rows} missing.")

    def _missing_at_the_end(self, last: int, ended: int) -> None:
        rows = f"Row {ended} is" if last + 1 == ended else f"Rows {last + 1} to {ended} are"
        if self._number:
            rows = f"Rows behind {last}, up to {ended}, are"
        self._fault(last + 1, f"{rows} missing at the end.")

    def _fault(self, seq: int, what: str) -> None:
        self._faults.add(self._number, seq, what)


async def verify(
    reader: AuditReader, expected: str | None = None, anchors: Sequence[Anchor] = (), key: ChainKey | None = None
) -> Verdict:
    """Read the whole current log. `expected` is the digest of a row noted elsewhere; `anchors` are such rows.

    Raises:
        StorageError: the database cannot be read, or the log has a key that is not `key`.
    """
    async with reader.frozen() as connection:
        records = await ends(connection)
        if any(one.key_id is not None and (key is None or key.id != one.key_id) for one in records.values()):
            raise StorageError(_NO_KEY)
        verifier = Verifier(records, expected, anchors, key)
        last = _LEAST
        while rows := await next_rows(connection, last):
            for row in rows:
                verifier.see(row)
            last = rows[-1].seq
    return verifier.end()


def _seq_of(head: Head) -> int:
    return head.seq


def _content(row: LogRow) -> str | None:
    """Return the digest of the columns of a row; None if the gateway writes no such row."""
    try:
        for name, value in row.values.items():
            if isinstance(value, bytes) or (name in TIMES and round(value, 6) != value):
                return None  # digested as something else, which the value may have been
        content, size = digested(row.kind, row.values)
    except (TypeError, ValueError, OverflowError):
        return None  # a value that no row of the gateway holds
    return content if size == row.size else None
