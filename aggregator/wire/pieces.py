"""The JSON text of a value, in pieces if it is large: no piece holds the interpreter lock for long."""

from collections.abc import Iterator
from typing import Any, Final

from aggregator.domain.bounds.small import CHARACTERS, is_small
from aggregator.wire.codec import TooDeep, encode

# Items of a long list in one piece.
_ITEMS: Final = 64
# Characters to give to a log line that cuts a value: more than it looks through for secrets.
_BRIEF: Final = 16 * 1024 + 1


def encode_in_pieces(value: Any) -> bytes:
    """Return the JSON text of a value, for a thread beside the event loop.

    Raises:
        ValueError, TypeError, RecursionError: it is nested too deeply, or nothing that JSON has.
    """
    return b"".join(pieces(value))


def pieces(value: Any) -> Iterator[bytes]:
    """Yield the JSON text of the value in its parts.

    Raises:
        ValueError, TypeError, RecursionError: it is nested too deeply, or nothing that JSON has.
    """
    if is_small(value):
        yield encode(value)
    elif isinstance(value, str):
        yield b'"'
        for start in range(0, len(value), CHARACTERS):
            yield encode(value[start : start + CHARACTERS])[1:-1]
        yield b'"'
    elif isinstance(value, list | tuple):
        yield b"["
        for start in range(0, len(value), _ITEMS):
            if start:
                yield b","
            yield from _some(value[start : start + _ITEMS])
        yield b"]"
    elif isinstance(value, dict) and all(isinstance(name, str) for name in value):
        comma = b""
        yield b"{"
        for name, item in value.items():
            yield comma + encode(name) + b":"
            yield from pieces(item)
            comma = b","
        yield b"}"
    else:
        yield encode(value)


def _some(items: Any) -> Iterator[bytes]:
    """Yield the items of a list with the commas between them; the items are assumed to be of similar size."""
    if len(items) == _ITEMS and is_small(items[0]):
        yield encode(items)[1:-1]
        return
    for at, item in enumerate(items):
        if at:
            yield b","
        yield from pieces(item)


def brief(value: Any, most: int = _BRIEF) -> str:
    """Return at most `most` characters of a peer's value, for display; takes no longer for a large or deep one.

    By default it is long enough for a log line that cuts it (`%.500s`) after secrets were taken out.
    """
    if isinstance(value, str):
        return value[:most]
    try:
        return encode(value).decode("utf-8", "replace")[:most] if is_small(value) else "(too large to be shown)"
    except TooDeep:
        return "(too deep to be shown)"
