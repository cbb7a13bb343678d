"""JSON texts to plain Python objects and back, without loss of anything that a peer may send.

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

from aggregator.domain.text.error_text import error_text
from aggregator.wire.values import NAMES_AT_MOST, VALUES_AT_MOST, TooManyValues, check_count

log = logging.getLogger(__name__)

Raw = msgspec.Raw
"""Bytes that are JSON already; `encode` copies them into its output as they are."""

_decoder: Final = msgspec.json.Decoder()
_encoder: Final = msgspec.json.Encoder()
_sorting: Final = msgspec.json.Encoder(order="sorted")
# Servers whose numbers without a JSON form were logged.
_logged: Final[set[str]] = set()
# Values, and names of fields, of a host's message that may be read by the slower reader, which calls Python for each.
_SLOWLY_AT_MOST: Final = 20_000
# The tokens that nesting consists of; a string without an end takes the rest, so that every scan is linear.
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)


class TooDeep(ValueError):
    """A value that nests deeper than can be read or written here."""


def decode(data: bytes | bytearray | memoryview, most: float = VALUES_AT_MOST) -> Any:
    """Return the value of one JSON text that holds at most `most` values.

    Raises:
        ValueError: the text is not JSON, or holds a number that cannot be passed on.
        TooDeep, TooManyValues: the text is JSON, but nests too deeply or is too large.
    """
    if len(data) > most:
        check_count(data, most)
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return _decode_slowly(data, _refused)


def decode_from_host(data: bytes | bytearray | memoryview) -> Any:
    """Return the value of a JSON text that a host sent: at most `VALUES_AT_MOST` values and `NAMES_AT_MOST` names.

    Raises:
        ValueError: the text is not JSON, holds a number that cannot be passed on, or has more than `_SLOWLY_AT_MOST`
            values and can be read by the slower reader alone.
        TooDeep, TooManyValues: the text is JSON, but nests too deeply or is too large.
    """
    if len(data) > NAMES_AT_MOST:
        check_count(data, VALUES_AT_MOST, NAMES_AT_MOST)
    try:
        return _decoder.decode(data)
    except RecursionError:
        return _decode_slowly(data, _refused)
    except msgspec.DecodeError as problem:
        if len(data) > _SLOWLY_AT_MOST:
            _check_slow(data, problem)
        return _decode_slowly(data, _refused)


def decode_received(data: bytes, server: str, most: float = VALUES_AT_MOST) -> Any:
    """Return the value of a JSON text that an upstream sent, which holds at most `most` values.

    NaN, infinity and numbers that are too large become floats that are not finite, and null when they are encoded; a
    warning is logged once for each server.

    Raises:
        ValueError: the text is not JSON.
        TooDeep, TooManyValues: the text is JSON, but nests too deeply or is too large.
    """
    if len(data) > most:
        check_count(data, most)
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return _decode_slowly(data, partial(_log_not_finite, server))


def decode_cut(data: bytes, levels: int, server: str) -> Any:
    """Return the value of a JSON text with null for all that is nested more than `levels` deep.

    One pass without recursion: takes a second for a text of many megabytes.

    Raises:
        ValueError: the text is not JSON.
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
    return decode_received(b"".join((*kept, data[start:])), server, inf)


def lenient_decoder(server: str) -> json.JSONDecoder:
    """Return a decoder for the text of an upstream that accepts raw control characters in strings."""
    fraction, integer = _numbers(not_finite := partial(_log_not_finite, server))
    return json.JSONDecoder(strict=False, parse_float=fraction, parse_int=integer, parse_constant=not_finite)


def _check_slow(data: bytes | bytearray | memoryview, problem: msgspec.DecodeError) -> None:
    """Raise the problem of the usual reader with a text that would take the slower one long.

    Raises:
        ValueError: the text holds too many values.
    """
    try:
        check_count(data, _SLOWLY_AT_MOST, _SLOWLY_AT_MOST)
    except TooManyValues as many:
        raise ValueError(f"{error_text(many)}, and is not plain JSON: {error_text(problem)}") from problem


def _decode_slowly(data: bytes | bytearray | memoryview, not_finite: Callable[[str], float]) -> Any:
    """Decode with the standard library. `not_finite` returns, or refuses, the value of a number that no float holds."""
    fraction, integer = _numbers(not_finite)
    try:
        return json.loads(bytes(data), parse_float=fraction, parse_int=integer, parse_constant=not_finite)
    except RecursionError:
        raise TooDeep("nested too deeply") from None


def _numbers(not_finite: Callable[[str], float]) -> tuple[Callable[[str], float], Callable[[str], int | float]]:
    """Return the readers of fractions and of integers."""

    def fraction(text: str) -> float:
        value = float(text)
        return value if isfinite(value) else not_finite(text)

    def integer(digits: str) -> int | float:
        try:
            return int(digits)
        except ValueError:
            return not_finite(digits)

    return fraction, integer


def _refused(number: str) -> float:
    raise ValueError(f"{number:.40} is no number that JSON can carry")


def _log_not_finite(server: str, number: str) -> float:
    if server not in _logged:
        _logged.add(server)
        log.warning("%s sends %.40s, which hosts could not read: they get null in its place", server, number)
    return float(number)


def encode(value: Any) -> bytes:
    """Return one JSON text without line breaks; NaN and infinity are null.

    Raises:
        TooDeep: the value is nested too deeply.
    """
    try:
        return _encoder.encode(value)
    except (UnicodeEncodeError, RecursionError):
        return _encode_slowly(value)


def encode_or_none(value: Any) -> bytes | None:
    """Return the result of `encode`; None for a value that is nested too deeply."""
    try:
        return encode(value)
    except TooDeep:
        return None


def encode_sorted(value: Any) -> bytes:
    """Return one JSON text with the names of every object sorted: equal objects give equal bytes.

    Raises:
        TooDeep: the value is nested too deeply.
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
    """Return the value in types that the standard library encodes as msgspec does."""
    if isinstance(value, Raw):
        return json.loads(bytes(value))
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value
