"""Characters that no database, file or log takes: halves of a surrogate pair, which UTF-8 cannot carry, and NUL.

Rule: a name or value that is compared is refused if it has one; in a text to read, U+FFFD stands in its place. NUL in a
value is harmless, since JSON writes it as an escape.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

_HALF: Final = re.compile("[\ud800-\udfff]")
_UNSTORABLE: Final = re.compile("[\ud800-\udfff\0]")
# How JSON writes halves; whole pairs, which are harmless, are written in the same way by some.
_ESCAPED: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_DEEPEST: Final = 250


def may_be_halved(encoded: bytes) -> bool:
    """Return whether a JSON text may hold half of a pair; False is certain, and found quickly."""
    return _ESCAPED.search(encoded) is not None


def halved(texts: Iterable[str]) -> str | None:
    """Return the first half of a pair in texts, as `U+D83D`; None if there is none."""
    return _first(_HALF, texts)


def unstorable(texts: Iterable[str]) -> str | None:
    """Return the first character in texts that cannot be stored, as `U+D83D` or `U+0000`; None if there is none."""
    return _first(_UNSTORABLE, texts)


def storable(text: str) -> str:
    """Return the text with U+FFFD in place of such characters; the same object if it has none."""
    return text if text.isprintable() else _UNSTORABLE.sub("\ufffd", text)


def storable_value(value: Any, depth: int = 0) -> Any:
    """Return a JSON value with every text made storable, the names of members too; itself if nothing changes."""
    if isinstance(value, str):
        return storable(value)
    if not isinstance(value, dict | list):
        return value
    if depth == _DEEPEST:
        return None
    if isinstance(value, dict):
        members = {storable(name): storable_value(item, depth + 1) for name, item in value.items()}
        same = members.keys() == value.keys() and all(members[name] is item for name, item in value.items())
        return value if same else members
    items = [storable_value(item, depth + 1) for item in value]
    return value if all(one is other for one, other in zip(items, value, strict=True)) else items


def _first(pattern: re.Pattern[str], texts: Iterable[str]) -> str | None:
    for text in texts:
        found = None if text.isprintable() else pattern.search(text)
        if found is not None:
            return f"U+{ord(found[0]):04X}"
    return None
