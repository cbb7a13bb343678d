"""JSON in and out of plain Python objects, losing nothing a peer may send.

msgspec keeps integers of any size; what it refuses (NaN, lone surrogates, which real servers do emit) goes through
the standard library.
"""

import json
import re
from collections.abc import Callable, Mapping
from math import inf, isfinite
from typing import Any, Final

import msgspec

from aggregator.wire.values import VALUES_AT_MOST, check_count

Raw = msgspec.Raw
"""Bytes that already are JSON, placed as they are inside what is encoded."""

_decoder: Final = msgspec.json.Decoder()
_encoder: Final = msgspec.json.Encoder()
_sorting: Final = msgspec.json.Encoder(order="sorted")
# What nesting consists of; a string that has no end takes the rest, so that every scan is linear.
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)


class TooDeep(ValueError):
    """The value nests deeper than can be read or written here."""


def decode(data: bytes | bytearray | memoryview, most: float = VALUES_AT_MOST) -> Any:
    """The value of one JSON text, of `most` values at most.

    Raises:
        ValueError: it is not JSON; `TooDeep` or `TooManyValues` when only that is in the way.
    """
    check_count(data, most)
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return _decode_slowly(data)


def decode_heard(data: bytes, most: float = VALUES_AT_MOST) -> Any:
    """The same for what upstreams send: an integer of thousands of digits is infinite, as 1e999 is to every reader."""
    check_count(data, most)
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        try:
            return _decode_slowly(data)
        except (json.JSONDecodeError, TooDeep):
            raise
        except ValueError:
            return _decode_slowly(data, _integer)


def decode_cut(data: bytes, levels: int) -> Any:
    """The value with null for whatever is nested more than `levels` deep: one pass, no recursion.

    Raises:
        ValueError: it is not JSON.
    """
    kept: list[bytes] = []
    start = depth = 0
    for token in _TOKEN.finditer(data):
        character = data[token.start()]
        if character in b"[{":
            if depth == levels:
                kept += data[start : token.start()], b"null"
            depth += 1
        elif character in b"]}":
            depth -= 1
            if depth == levels:
                start = token.end()
    return decode_heard(b"".join((*kept, data[start:])), inf)


def _decode_slowly(data: bytes | bytearray | memoryview, parse_int: Callable[[str], Any] | None = None) -> Any:
    try:
        return json.loads(bytes(data), parse_int=parse_int)
    except RecursionError:
        raise TooDeep("nested too deeply") from None


def _integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def encode(value: Any) -> bytes:
    """One JSON text without line breaks; what is no number there (NaN, infinity) is null.

    Raises:
        TooDeep: it is nested too deeply.
    """
    try:
        return _encoder.encode(value)
    except (UnicodeEncodeError, RecursionError):
        return _encode_slowly(value)


def encode_sorted(value: Any) -> bytes:
    """The same with the names of every object in order: equal bytes for what differs in that order alone.

    Raises:
        TooDeep: it is nested too deeply.
    """
    try:
        return _sorting.encode(value)
    except (UnicodeEncodeError, RecursionError):
        return _encode_slowly(value, sort_keys=True)


def _encode_slowly(value: Any, *, sort_keys: bool = False) -> bytes:
    try:
        return json.dumps(_plain(value), separators=(",", ":"), sort_keys=sort_keys).encode()
    except RecursionError:
        raise TooDeep("nested too deeply") from None


def _plain(value: Any) -> Any:
    """The value in what the standard library writes as msgspec would."""
    if isinstance(value, Raw):
        return json.loads(bytes(value))
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value
