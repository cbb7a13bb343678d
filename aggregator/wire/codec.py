"""JSON in and out of plain Python objects, losing nothing a peer may send.

msgspec keeps integers of any size; what it refuses (NaN, lone surrogates, which real servers do emit) goes through
the standard library.
"""

import json
from collections.abc import Mapping
from math import isfinite
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
    """One JSON text without line breaks; what is no number there (NaN, infinity) is null.

    Raises:
        ValueError: it is nested too deeply.
    """
    try:
        return _encoder.encode(value)
    except (UnicodeEncodeError, RecursionError):
        try:
            return json.dumps(_plain(value), separators=(",", ":")).encode()
        except RecursionError:
            raise ValueError("nested too deeply") from None


def _plain(value: Any) -> Any:
    """The value in what the standard library writes as msgspec would."""
    if isinstance(value, Raw):
        return json.loads(bytes(value))
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value
