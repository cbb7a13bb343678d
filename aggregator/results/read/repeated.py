"""Whether the texts of a result say what its structured result says."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import inf
from typing import Any, Final

from aggregator.wire.codec import TooDeep, decode, encode, encode_sorted

# A larger JSON text is compared with the structured result by its beginning: as a value it takes much memory.
COMPARED_WHOLE: Final = 4_000_000
BOM: Final = "\ufeff"
_BEGINNING: Final = 2_000
_ESCAPE: Final = re.compile(r"\\u[0-9a-fA-F]{4}|[^\x21-\x7e]|\\/")
# Values that are looked for in the texts, and characters that are read again for those in another order.
_MOST_VALUES: Final = 2_000
_MOST_READ: Final = 1_000_000


def repeats(texts: Sequence[str], structured: Any) -> bool:
    """Return True if texts repeat a structured result: as JSON, or with each of its texts and numbers.

    Raises:
        TooDeep: the structured result is nested too deeply to be written.
    """
    return path_said(texts, structured) is not None or _has_values("\n".join(texts), structured)


def _has_values(text: str, structured: Any) -> bool:
    at, left = 0, _MOST_READ
    for number, value in enumerate(islice(_values(structured), _MOST_VALUES + 1)):
        found = _find(text, value, at, len(text))
        if found < 0:
            left -= at
            found = _find(text, value, 0, at + len(value)) if left > 0 else -1
        if found < 0 or number == _MOST_VALUES:
            return False
        at = found
    return True


def _find(text: str, value: str, at: int, end: int) -> int:
    """Return where a value begins, which is no part of a longer number; -1 if it is not there."""
    while (found := text.find(value, at, end)) >= 0:
        before, after = text[max(0, found - 2) : found], text[found + len(value) : found + len(value) + 2]
        inside = value[0].isdigit() and (before[-1:].isdigit() or (before[-1:] == "." and before[:1].isdigit()))
        goes_on = value[-1].isdigit() and (after[:1].isdigit() or (after[:1] == "." and after[1:].isdigit()))
        if not inside and not goes_on:
            return found
        at = found + 1
    return -1


def _values(value: Any) -> Iterator[str]:
    """Yield the texts and numbers of a value, in order."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            waiting.extend(reversed(list(one.values())))
        elif isinstance(one, list):
            waiting.extend(reversed(one))
        elif isinstance(one, str):
            if one.strip():
                yield one.strip()
        elif isinstance(one, int | float) and not isinstance(one, bool):
            yield encode(one).decode()


def path_said(texts: Sequence[str], structured: Any) -> str | None:
    """Return the path to the part of the structured result that the text blocks repeat; None if they do not repeat all
    of it.

    Servers wrap a value that is no object as `{"result": ...}`, and give each item of an array its own block.
    """
    if _says_one(texts, structured):
        return ""
    if not isinstance(structured, Mapping) or structured.keys() != {"result"}:
        return None
    value = structured["result"]
    if _says_one(texts, value):
        return "result"
    is_each = isinstance(value, list) and value and len(value) == len(texts)
    return "result[#]" if is_each and all(map(_says_one, ((text,) for text in texts), value)) else None


def _says_one(texts: Sequence[str], value: Any) -> bool:
    if isinstance(value, str) and value in texts:
        return True
    written = encode(value).decode()
    # No form of JSON is much shorter than this one: only numbers may be.
    long = [text for text in texts if len(text) >= 0.8 * len(written)]
    if not long:
        return False
    if max(len(written), *map(len, long)) > COMPARED_WHOLE:
        return any(_squeezed(text) == _squeezed(written) for text in long)
    known = encode_sorted(value)
    return any(_sorted(text) == known for text in long)


def _sorted(text: str) -> bytes | None:
    try:
        return encode_sorted(decode(text.lstrip(BOM).encode("utf-8", "surrogatepass"), inf))
    except (ValueError, TooDeep):
        return None


def _squeezed(text: str) -> str:
    """Return the beginning of a JSON text without blanks and characters that may be escaped."""
    return _ESCAPE.sub("", text.lstrip(BOM)[: 8 * _BEGINNING])[:_BEGINNING]
