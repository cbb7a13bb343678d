"""Decide whether a schema is small enough to be compiled on the event loop."""

from collections.abc import Mapping
from typing import Any, Final

# Of 1,508 real schemas one is larger.
_MODEST_VALUES: Final = 2_000
_MODEST_CHARACTERS: Final = 100_000
_MODEST_PATTERNS: Final = 50


def is_small_enough(schema: Any) -> bool:
    """Tell whether compiling takes milliseconds, but for its patterns. Looks at a bounded part of the schema."""
    values = characters = patterns = 0
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        values += 1
        if isinstance(part, Mapping):
            if values + len(waiting) + len(part) > _MODEST_VALUES:
                return False
            characters += sum(map(len, part))
            patterns += ("pattern" in part) + _count(part.get("patternProperties"))
            waiting += part.values()
        elif isinstance(part, list | tuple):
            if values + len(waiting) + len(part) > _MODEST_VALUES:
                return False
            waiting += part
        elif isinstance(part, str):
            characters += len(part)
        if characters > _MODEST_CHARACTERS or patterns > _MODEST_PATTERNS:
            return False
    return True


def _count(value: Any) -> int:
    return len(value) if isinstance(value, Mapping) else 0
