"""One digest for one set of arguments, however they were written down (RFC 8785, JSON Canonicalization Scheme).

It differs from the RFC in one point: whole numbers beyond 2**53 keep every digit, where the RFC would round them.
Two calls that an upstream could tell apart never share a digest.
"""

import json
import math
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec

from aggregator.domain.bounds.small import CHARACTERS, VALUES, is_small

_EXACT: Final = 2**53
_encoder: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
# Ten times as fast. It spells fractions in another way, and sorts names by code point.
_fast: Final = msgspec.json.Encoder(order="sorted")
_SCALARS: Final = frozenset({int, bool, type(None)})


def argument_digest(arguments: Mapping[str, Any] | None) -> str:
    """Return the SHA-256 of the canonical JSON, in hexadecimal. No arguments are the same as an empty object.

    Raises:
        ValueError: the arguments are not JSON, or nested too deeply.
    """
    return sha256(canonical_json(arguments or {})).hexdigest()


def canonical_json(value: Any) -> bytes:
    """Return JSON with sorted names, no spaces and one spelling per number.

    Raises:
        ValueError: the value is not JSON, or nested too deeply.
    """
    if _is_simple(value):
        try:
            return _fast.encode(value)
        except UnicodeEncodeError:  # half a character
            pass
    small = is_small(value)
    try:
        plain = _canonical(value)
        # `encode` is faster, and keeps the interpreter to itself until all is written.
        text = _encoder.encode(plain) if small else "".join(_encoder.iterencode(plain))
    except RecursionError:
        raise ValueError("The arguments are nested too deeply.") from None
    # A JSON escape can produce a lone surrogate; it must keep its own value.
    return text.encode("utf-8", "surrogatepass")


def _is_simple(value: Any) -> bool:
    """Return whether a value is a small object in which texts and whole numbers stand under ASCII names."""
    if type(value) is not dict:
        return False
    waiting: list[Any] = [value]
    seen = 1
    for one in waiting:
        seen += len(one)
        if seen > VALUES:
            return False
        items = one
        if type(one) is dict:
            for name in one:
                if type(name) is not str or not name.isascii():
                    return False
            items = one.values()
        for item in items:
            kind = type(item)
            if kind is str:
                if len(item) > CHARACTERS:
                    return False
            elif kind is dict or kind is list:
                waiting.append(item)
            elif kind not in _SCALARS:
                return False
    return True


def _canonical(value: Any) -> Any:
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise ValueError("The names in a JSON object are texts.")
        return {name: _canonical(value[name]) for name in sorted(value, key=_utf16)}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("JSON has no such number.")
        return int(value) if value.is_integer() and abs(value) < _EXACT else value
    if value is None or isinstance(value, str | int):
        return value
    raise ValueError(f"JSON has no {type(value).__name__}.")


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")
