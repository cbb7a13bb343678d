"""The chains of the audit log: a row's digest covers the row, its number and the digest of the row before it.

Numbers are those of the whole log. Chain 0 always exists; each replica writes the chain of its slot.

Rule: the digest covers the stored row without its empty columns, so that a column added later changes no digest.
"""

import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

# What stands for the digest before the first row.
GENESIS: Final = "0" * 64
CALL: Final = "call"
# Events about the log itself.
BEGUN: Final = "call_begun"
TRIMMED: Final = "log_trimmed"
RECOVERED: Final = "log_recovered"
MENDED: Final = "log_mended"
CHAIN_BEGUN: Final = "chain_begun"
# The end of a call that another process gave up and wrote a row for.
LATE: Final = "call_ended_late"
# These columns are seconds, kept to the microsecond.
TIMES: Final = ("started", "ended", "duration", "queued", "upstream_seconds", "at")
MICRO: Final = 1_000_000

_encoder: Final = msgspec.json.Encoder(order="sorted")


class Head(NamedTuple):
    """The newest row of a chain; `Head(0, GENESIS)` for an empty one."""

    seq: int
    digest: str


class ChainKey:
    """A secret without which no row can be added to the chain unnoticed. `id` tells keys apart and reveals nothing."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self.id = self.sign("aggregator audit chain key")[:16]

    def __repr__(self) -> str:
        return f"<ChainKey {self.id}>"

    def sign(self, text: str) -> str:
        """Return the HMAC-SHA256 of `text`, in hexadecimal."""
        return hmac.digest(self._secret, text.encode(), "sha256").hex()

    def sign_ends(self, head: Head, trimmed: Head, chain: int = 0) -> str:
        """Return the proof that a chain ends with `head`, and that rows up to `trimmed` were removed for their age."""
        which = f"ends of chain {chain}" if chain else "ends"
        return self.sign(f"{which}\n{head.seq}\n{head.digest}\n{trimmed.seq}\n{trimmed.digest}")


class ChainEntry(NamedTuple):
    """A row without a place in the chain yet: `kind` is `call` or the kind of an event.

    `values` are its columns without the empty ones, `content` is their digest and `size` their length in bytes.
    """

    kind: str
    values: Mapping[str, Any]
    content: str
    size: int


@dataclass(slots=True)
class ChainBatch:
    """Rows that are written together. `tried` is the place that the last row would have, had the last try worked.

    `once` names the batch if another process may have written it before.
    """

    entries: Sequence[ChainEntry]
    tried: Head | None = None
    once: str | None = None


def entry(kind: str, values: Mapping[str, Any]) -> ChainEntry:
    """Return the row of these columns. Times are floats, all else texts and whole numbers.

    Raises:
        TypeError, ValueError, OverflowError: something else.
    """
    given = {name: value for name, value in values.items() if value is not None}
    content, size = digested(kind, given)
    return ChainEntry(kind, given, content, size)


def call_entry(values: dict[str, Any], started: int, duration: int, queued: int, upstream: int) -> ChainEntry:
    """Return the row of a call as `entry` does, and quicker: `values`, which become the row's own, have neither times
    nor empty columns. The times are in whole microseconds.

    Raises:
        TypeError, ValueError, OverflowError: something that no row of ours holds.
    """
    values["kind"] = CALL
    values["started"], values["ended"], values["duration"] = started, started + duration, duration
    values["queued"], values["upstream_seconds"] = queued, upstream
    text = _encoder.encode(values)
    del values["kind"]
    values["started"], values["ended"] = started / MICRO, (started + duration) / MICRO
    values["duration"], values["queued"] = duration / MICRO, queued / MICRO
    values["upstream_seconds"] = upstream / MICRO
    # Quicker than its constructor, which is written in Python.
    return tuple.__new__(ChainEntry, (CALL, values, sha256(text).hexdigest(), len(text)))


def digested(kind: str, values: Mapping[str, Any]) -> tuple[str, int]:
    """Return SHA-256 and length of the row's JSON: names sorted, no spaces, times in whole microseconds.

    Raises:
        TypeError, ValueError, OverflowError: something that no row of ours holds.
    """
    whole = {**values, "kind": kind}
    for name in TIMES:
        if (seconds := whole.get(name)) is not None:
            whole[name] = round(seconds * MICRO)
    text = _encoder.encode(whole)
    return sha256(text).hexdigest(), len(text)


def link(previous: str, seq: int, content: str, key: ChainKey | None = None) -> str:
    """Return the digest of row `seq`, of which `content` is the digest of its columns; with a key, an HMAC."""
    text = f"{previous}\n{seq}\n{content}"
    return sha256(text.encode()).hexdigest() if key is None else key.sign(text)


def genesis(chain: int) -> Head:
    """Return what stands for the row before the first one of a chain; it differs, so that none passes for another."""
    return Head(0, sha256(f"chain {chain}".encode()).hexdigest() if chain else GENESIS)


def trim_entry(removed: int, upto: int, trimmed: Mapping[int, Head], now: float) -> ChainEntry:
    """Return the event that proves a trim: `removed` rows, up to number `upto`; `trimmed` has the newest removed row of
    each chain, and so names all chains.
    """
    summary = f"{removed} rows were removed for their age or the size of the log, up to number {upto}."
    told: dict[str, Any] = trimmed[0]._asdict()
    if len(trimmed) > 1:
        told["chains"] = {str(chain): trimmed[chain]._asdict() for chain in sorted(trimmed) if chain}
    return entry(TRIMMED, {"at": round(now, 6), "summary": summary, "details": json.dumps(told)})


def trimmed_by(values: Mapping[str, Any]) -> dict[int, Head]:
    """Return the newest row that was removed of each chain, by the columns of a `log_trimmed` event; none if they do
    not say.
    """
    try:
        told = json.loads(values["details"])
        # Events of the first versions have the number in their sentence only.
        seq = told["seq"] if "seq" in told else values["summary"].rstrip(".").rpartition(" ")[2]
        others = {int(name): Head(int(one["seq"]), str(one["digest"])) for name, one in told.get("chains", {}).items()}
        return {0: Head(int(seq), str(told["digest"])), **others}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}


def begun_entry(chain: int, now: float) -> ChainEntry:
    """Return the event of chain 0 that records the beginning of another, so that no chain can be removed whole."""
    summary = f"Chain {chain} of the log begins: another replica writes it."
    return entry(CHAIN_BEGUN, {"at": round(now, 6), "summary": summary, "details": json.dumps({"chain": chain})})


def begun_by(values: Mapping[str, Any]) -> int | None:
    """Return which chain begins, by the columns of a `chain_begun` event; None if they do not say."""
    try:
        chain = json.loads(values["details"])["chain"]
    except (KeyError, TypeError, ValueError):
        return None
    return chain if type(chain) is int and chain > 0 else None
