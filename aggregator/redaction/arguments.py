"""Remove the arguments of a call from messages of upstreams: they are stored only if the configuration allows it.

Rule: only unencoded values are found; short values stay, since half of every sentence consists of them.
"""

from collections.abc import Iterator
from typing import Any, Final

_INSTEAD: Final = "[argument]"
_SHORTEST: Final = 4
# The search stops here, however long the arguments or the message. The end of a longer text is dropped anyway.
_VALUES: Final = 200
_LONGEST: Final = 16 * 1024
_DIGITS: Final = 1 << 256


def without_arguments(text: str, arguments: Any) -> str:
    """Return the text without the texts and numbers that `arguments`, any JSON value, consist of."""
    said = text[:_LONGEST]
    for value in sorted(set(_values(arguments, len(said))), key=len, reverse=True):
        said = said.replace(value, _INSTEAD)
    return said


def _values(arguments: Any, longest: int) -> Iterator[str]:
    waiting = [arguments]
    for _ in range(_VALUES):
        if not waiting:
            return
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str | float) or (type(value) is int and abs(value) < _DIGITS):
            written = str(value)
            if _SHORTEST <= len(written) <= longest:
                yield written
