"""Lengths of time and sizes as people write them: `"30s"`, `"1m30s"`, `"4MiB"`, or plain numbers."""

import math
import re

_SECONDS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = "(?a)" + "".join(rf"(?:(\d+(?:\.\d+)?){unit})?" for unit in _SECONDS)
_BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_SIZE = r"(?a)(\d+(?:\.\d+)?)\s*([A-Za-z]*)"
_LONGEST_TEXT = 40

DURATION_PATTERN = r"^\s*(\d+(\.\d+)?|(?=\d)" + "".join(rf"(\d+(\.\d+)?{unit})?" for unit in _SECONDS) + r")\s*$"
SIZE_PATTERN = r"^\s*\d+(\.\d+)?\s*([bB]|[kKmMgG]([iI])?[bB])?\s*$"


def parse_duration(value: object) -> float:
    """Return a duration in seconds, more than 0. Raises ValueError whose text does not repeat the value."""
    seconds = _number(value) if not isinstance(value, str) else _spelled_seconds(value.strip())
    if seconds is None:
        raise ValueError('expected a number of seconds or a text like "30s" or "1m30s"')
    if not 0 < seconds < math.inf:
        raise ValueError("expected a length of time above zero")
    return seconds


def format_duration(seconds: float) -> str:
    """Return the shortest text that `parse_duration` reads as this time, to the millisecond."""
    rest = round(seconds * 1000)
    parts: list[str] = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def parse_size(value: object) -> int:
    """Return a size in bytes, at least 1. Raises ValueError whose text does not repeat the value."""
    size = _number(value) if not isinstance(value, str) else _spelled_bytes(value.strip())
    if size is None:
        raise ValueError('expected a number of bytes or a text like "4MiB"')
    if not 1 <= size < math.inf:
        raise ValueError("expected a size of at least one byte")
    return int(size)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _spelled_seconds(text: str) -> float | None:
    if not text or len(text) > _LONGEST_TEXT:
        return None
    if found := re.fullmatch(_DURATION, text):
        return sum(float(n) * size for n, size in zip(found.groups(), _SECONDS.values(), strict=True) if n)
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII) else None


def _spelled_bytes(text: str) -> float | None:
    found = re.fullmatch(_SIZE, text) if len(text) <= _LONGEST_TEXT else None
    unit = _BYTES.get(found[2].upper()) if found else None
    return float(found[1]) * unit if found and unit else None
