"""A process that makes checks which may take long, so that it can be killed while it makes one.

Run as `python -m aggregator.schemas.workers.worker`, by `workers` alone. Frames on stdin and stdout are a length in
eight bytes and JSON of that length. A job is `[key, seconds]` and the value in a frame of its own; after the answer
`"unknown"` comes the list of schemas that the key stands for. Every other answer is `{"faults": [...]}` or
`{"unusable": why}`.
"""

import os
import signal
import sys
from contextlib import suppress
from math import inf
from typing import Any, BinaryIO, Final

if sys.platform != "win32":
    import resource

from aggregator.domain.bounds.lru import LruCache
from aggregator.schemas.check import SchemaCheck, compile_check
from aggregator.schemas.fault import UnusableSchema
from aggregator.wire.codec import decode, encode

UNKNOWN: Final = "unknown"
READY: Final = "ready"
HEADER: Final = 8
# The parent kills this process in time; if the parent is gone, the system does so this many seconds later.
_GRACE: Final = 1.0
_KEPT: Final = 256
_MEMORY: Final = 4 * 2**30
_NICENESS: Final = 5


def main() -> None:
    """Make checks until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        os.nice(_NICENESS)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    orders, answers = sys.stdin.buffer, sys.stdout.buffer
    checks: LruCache[str, SchemaCheck | str] = LruCache(_KEPT)
    _write(answers, READY)
    while (order := _read(orders)) is not None:
        key, seconds = order
        value = _read(orders)
        _die_in(seconds + _GRACE)
        check = checks.get(key)
        if check is None:
            _write(answers, UNKNOWN)
            check = _compiled(_read(orders))
            checks.put(key, check)
        if isinstance(check, str):
            _write(answers, {"unusable": check})
        else:
            faults = [[one.pointer, one.expected, one.got, one.keyword] for one in check.faults(value, killable=True)]
            _write(answers, {"faults": faults})
        _die_in(0)


def _die_in(seconds: float) -> None:
    """Set the system's limit on this process's life in seconds; with 0, none."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _compiled(schemas: list[Any]) -> SchemaCheck | str:
    try:
        return compile_check(*schemas)
    except UnusableSchema as problem:
        return str(problem)


def _read(stream: BinaryIO) -> Any:
    """Return the next frame; None at the end."""
    header = stream.read(HEADER)
    size = int.from_bytes(header)
    data = stream.read(size) if len(header) == HEADER else b""
    return decode(data, inf) if data and len(data) == size else None


def _write(stream: BinaryIO, answer: Any) -> None:
    data = encode(answer)
    stream.write(len(data).to_bytes(HEADER) + data)
    stream.flush()


if __name__ == "__main__":
    main()
