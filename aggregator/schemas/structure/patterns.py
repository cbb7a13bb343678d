"""Regular expressions that run in linear time: the cost of each per character, and matching.

Law: only the engine without backtracking is used (docs/checks.md, Patterns); an expression it cannot run is not used.
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
# A shorter expression can only compile to a large program by its counts.
_SHORT: Final = 200
_COUNTS: Final = re.compile(r"\{\d+(?:,\d*)?\}")

OPTIONS: Final = RegexOptions(size_limit=_LADDER[-1][0])


@lru_cache(maxsize=2_048)
def weight(pattern: str, *, heavy: bool = True) -> int | None:
    """Return the nanoseconds per character at the worst.

    None for an invalid expression, or one that needs backtracking. `heavy`: accept an expression that costs more than
    `HEAVY`, which is slow even to compile.
    """
    if len(pattern) > LENGTH_LIMIT:
        return None
    return next((cost for size, cost in _LADDER if (heavy or cost <= HEAVY) and _compiles(pattern, size)), None)


class PatternWeigher(Protocol):
    """Find the weight of a pattern."""

    def __call__(self, pattern: str, *, heavy: bool) -> int | None: ...


class Costly(Exception):
    """The pattern may take long to compile."""


@lru_cache(maxsize=2_048)
def light_weight(pattern: str, *, heavy: bool = True) -> int | None:
    """Return the result of `weight`, in a millisecond or two.

    Raises:
        Costly: the weight takes longer to compute.
    """
    if len(pattern) > LENGTH_LIMIT:
        return None
    cost = weight(pattern, heavy=False)
    if cost is not None:
        return cost
    # Without its counts every valid expression makes a small program: one refused even so is no expression.
    plain = _COUNTS.sub("{1}", pattern)
    if len(pattern) > _SHORT or _compiles(plain, _LADDER[-2][0]):
        raise Costly
    return None


def matches(pattern: str, text: str) -> bool:
    """Tell whether a weighed pattern matches anywhere in the text."""
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
