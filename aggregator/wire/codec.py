"""JSON in and out of plain Python objects, losing nothing a peer may send.

msgspec keeps integers of any size; what it refuses (NaN, lone surrogates, which real servers do emit) goes through
the standard library.
"""

import json
from typing import Any, Final

import msgspec

Raw = msgspec.Raw
"""Bytes that already are JSON, placed as they are inside what is encoded."""

_decoder: Final = msgspec.json.Decoder()
_encoder: Final = msgspec.json.Encoder()


def decode(data: bytes | bytearray | memoryview) -> Any:
    """The value of one JSON text.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        try:
            return json.loads(bytes(data))
        except RecursionError:
            raise ValueError("nested too deeply") from None


def encode(value: Any) -> bytes:
    """One JSON text without line breaks."""
    try:
        return _encoder.encode(value)
    except (UnicodeEncodeError, RecursionError):
        return json.dumps(value, separators=(",", ":"), default=_plain).encode()


def _plain(value: object) -> Any:
    if isinstance(value, msgspec.Raw):
        return json.loads(bytes(value))
    raise TypeError(f"{type(value).__name__} is not JSON")
