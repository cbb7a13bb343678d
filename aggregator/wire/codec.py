"""JSON in and out of plain Python objects, losing nothing a peer may send.

msgspec keeps integers of any size; what it refuses (NaN, lone surrogates, which real servers do emit) goes through
the standard library.
"""

import json
import logging
import re
from collections.abc import Callable, Mapping
from functools import partial
from math import inf, isfinite
from typing import Any, Final

import msgspec

from aggregator.wire.values import VALUES_AT_MOST, check_count

log = logging.getLogger(__name__)

Raw = msgspec.Raw
"""Bytes that already are JSON, placed as they are inside what is encoded."""

_decoder: Final = msgspec.json.Decoder()
_encoder: Final = msgspec.json.Encoder()
_sorting: Final = msgspec.json.Encoder(order="sorted")
# Servers that were told of for sending what is no JSON.
_told: Final[set[str]] = set()
# What nesting consists of; a string that has no end takes the rest, so that every scan is linear.
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)


class TooDeep(ValueError):
    """The value nests deeper than can be read or written here."""


def decode(data: bytes | bytearray | memoryview, most: float = VALUES_AT_MOST) -> Any:
    """The value of one JSON text, of `most` values at most.

    Raises:
        ValueError: it is not JSON, or holds a number that cannot be passed on; `TooDeep` or `TooManyValues` when only
            that is in the way.
    """
    check_count(data, most)
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return _decode_slowly(data, _refused)


def decode_heard(data: bytes, server: str, most: float = VALUES_AT_MOST) -> Any:
    """The value of what an upstream sent. NaN, infinity and numbers too large for any reader are not finite in it, and
    null once they are written: of that the log is told once for each server.

    Raises:
        ValueError: it is not JSON; `TooDeep` or `TooManyValues` when only that is in the way.
    """
    check_count(data, most)
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return _decode_slowly(data, partial(_told_of, server))


def decode_cut(data: bytes, levels: int, server: str) -> Any:
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
    return decode_heard(b"".join((*kept, data[start:])), server, inf)


def _decode_slowly(data: bytes | bytearray | memoryview, not_finite: Callable[[str], float]) -> Any:
    """`not_finite` is asked what becomes of a number that is none, or too large."""

    def fraction(text: str) -> float:
        value = float(text)
        return value if isfinite(value) else not_finite(text)

    def integer(digits: str) -> int | float:
        try:
            return int(digits)
        except ValueError:
            return not_finite(digits)

    try:
        return json.loads(bytes(data), parse_float=fraction, parse_int=integer, parse_constant=not_finite)
    except RecursionError:
        raise TooDeep("nested too deeply") from None


def _refused(number: str) -> float:
    raise ValueError(f"{number:.40} is no number that JSON can carry")


def _told_of(server: str, number: str) -> float:
    if server not in _told:
        _told.add(server)
        log.warning("%s sends %.40s, which hosts could not read: they get null in its place", server, number)
    return float(number)


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
