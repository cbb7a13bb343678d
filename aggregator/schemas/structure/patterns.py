"""Regular expressions that run in linear time: what each costs per character, and whether a text matches.

Law: only the engine without backtracking is used (docs/checks.md, Patterns); what it cannot do is not done.
"""

import re
from functools import lru_cache
from typing import Final, Protocol

from jsonschema_rs import Draft202012Validator, RegexOptions

_KIB: Final = 1024
# Size of the compiled program -> the most nanoseconds a character took in the worst patterns of that size.
_LADDER: Final = ((4 * _KIB, 100), (64 * _KIB, 1_000), (1024 * _KIB, 45_000), (10 * 1024 * _KIB, 70_000))
HEAVY: Final = 1_000
LENGTH_LIMIT: Final = 8_192
# An expression of which so little is written can only be large by its counts.
_SHORT: Final = 200
_COUNTS: Final = re.compile(r"\{\d+(?:,\d*)?\}")

OPTIONS: Final = RegexOptions(size_limit=_LADDER[-1][0])


@lru_cache(maxsize=2_048)
def weight(pattern: str, *, heavy: bool = True) -> int | None:
    """Nanoseconds per character at the worst; None for what is no expression, or none that linear time can match.

    `heavy`: whether one is taken that costs more than `HEAVY`, which is slow even to compile.
    """
    if len(pattern) > LENGTH_LIMIT:
        return None
    return next((cost for size, cost in _LADDER if (heavy or cost <= HEAVY) and _compiles(pattern, size)), None)


class Weigh(Protocol):
    """Finds the weight of a pattern."""

    def __call__(self, pattern: str, *, heavy: bool) -> int | None: ...


class Costly(Exception):
    """The pattern may take long to compile."""


@lru_cache(maxsize=2_048)
def light_weight(pattern: str, *, heavy: bool = True) -> int | None:
    """Return what `weight` does, in a millisecond or two.

    Raises:
        Costly: that cannot be told so soon.
    """
    if len(pattern) > LENGTH_LIMIT:
        return None
    cost = weight(pattern, heavy=False)
    if cost is not None:
        return cost
    # Without its counts every expression makes a small program: one that is refused even so is none of ours.
    plain = _COUNTS.sub("{1}", pattern)
    if len(pattern) > _SHORT or _compiles(plain, _LADDER[-2][0]):
        raise Costly
    return None


def matches(pattern: str, text: str) -> bool:
    """Whether it is found anywhere in the text; `pattern` has a weight."""
    return _compiled(pattern).is_valid(text)


@lru_cache(maxsize=1_024)
def _compiled(pattern: str) -> Draft202012Validator:
    return Draft202012Validator({"pattern": pattern}, pattern_options=OPTIONS, offline=True)


def _compiles(pattern: str, size: int) -> bool:
    try:
        Draft202012Validator({"pattern": pattern}, pattern_options=RegexOptions(size_limit=size), offline=True)
    except ValueError:
        return False
    return True
