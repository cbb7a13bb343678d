"""The chain of the audit log: a row's digest covers the row, its number and the digest of the row before it.

Rule: what is digested is the row as it is stored without its empty columns: a column added later changes no digest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

# What stands for the digest before the first row.
GENESIS: Final = "0" * 64
CALL: Final = "call"
# These columns are seconds, kept to the microsecond.
TIMES: Final = ("started", "ended", "duration", "queued", "upstream_seconds", "at")
MICRO: Final = 1_000_000

_encoder: Final = msgspec.json.Encoder(order="sorted")


class Head(NamedTuple):
    """The newest row of a chain; `Head(0, GENESIS)` is that of an empty one."""

    seq: int
    digest: str


class Entry(NamedTuple):
    """A row that has no place in the chain yet: `kind` is `call` or that of an event.

    `values` are its columns without the empty ones, `content` is their digest and `size` their length in bytes.
    """

    kind: str
    values: Mapping[str, Any]
    content: str
    size: int


@dataclass(slots=True)
class Batch:
    """Rows that are written together. `tried` is where the last of them would have stood, had the last try worked.

    `once` names the batch where it may have been written before, by another process.
    """

    entries: Sequence[Entry]
    tried: Head | None = None
    once: str | None = None


def entry(kind: str, values: Mapping[str, Any]) -> Entry:
    """The row of these columns. Times are floats, all else texts and whole numbers.

    Raises:
        TypeError, ValueError, OverflowError: something else.
    """
    given = {name: value for name, value in values.items() if value is not None}
    content, size = digested(kind, given)
    return Entry(kind, given, content, size)


def digested(kind: str, values: Mapping[str, Any]) -> tuple[str, int]:
    """SHA-256 and length of the row's JSON: names sorted, no spaces, times in whole microseconds.

    Raises:
        TypeError, ValueError, OverflowError: something that no row of ours holds.
    """
    whole = {**values, "kind": kind}
    for name in TIMES:
        if name in whole:
            whole[name] = round(whole[name] * MICRO)
    text = _encoder.encode(whole)
    return sha256(text).hexdigest(), len(text)


def link(previous: str, seq: int, content: str) -> str:
    """The digest of row `seq`, of which `content` is the digest of its columns."""
    return sha256(f"{previous}\n{seq}\n{content}".encode()).hexdigest()
