"""JSON values that are decoded one level at a time, so that a path into a large text costs little memory."""

import json
from typing import Any, Final

import msgspec

from aggregator.wire.codec import decode, encode

# Texts that need the standard library (NaN, lone surrogates) are decoded whole, and take several times the memory.
_WHOLE_AT_MOST: Final = 16_000_000
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY: Final = msgspec.json.Decoder(list[msgspec.Raw])


class NoValue(ValueError):
    """A text that is no JSON, or none that can be decoded."""


def opened(value: Any) -> Any:
    """Return a value; the items of an array or object may still be JSON text (`msgspec.Raw`).

    Raises:
        NoValue: the text is not JSON.
    """
    if not isinstance(value, msgspec.Raw):
        return value
    data = memoryview(value)
    first = bytes(data[:1])
    try:
        if first == b"{":
            return _OBJECT.decode(data)
        if first == b"[":
            return _ARRAY.decode(data)
        return decode(data)
    except (ValueError, RecursionError):
        return _whole(data)


def text_of_value(value: Any) -> str:
    """Return the display text of a value: a string unchanged, any other as JSON; an undecoded text as sent.

    Raises:
        NoValue: a string in quotes is not closed.
    """
    if isinstance(value, msgspec.Raw) and bytes(memoryview(value)[:1]) == b'"':
        value = opened(value)
    return value if isinstance(value, str) else _written(value)


def text_of_values(values: list[Any]) -> str:
    """Return the values as a JSON array with a line for each."""
    return "[" + ",\n ".join(map(_written, values)) + "]"


def _written(value: Any) -> str:
    # As it was sent: the encoder refuses texts with half a character in them.
    raw = bytes(value) if isinstance(value, msgspec.Raw) else encode(value)
    return raw.decode("utf-8", "surrogatepass")


def _whole(data: memoryview) -> Any:
    if len(data) > _WHOLE_AT_MOST:
        raise NoValue("this JSON is not as the standard has it, and too large to be read by paths")
    try:
        return json.loads(bytes(data).decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        raise NoValue("this text is not JSON") from None
