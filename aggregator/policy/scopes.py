"""The scopes that policy rules want of an access token, and those that it lacks.

A scope of a rule may name several with `|` between: a token with one of them is enough, since a broad scope often
stands for a narrow one. The first of them is the one to ask for.
"""

from collections.abc import Iterable, Set


def lacking(wanted: Iterable[str], have: Set[str]) -> tuple[str, ...]:
    """Return the scopes to ask for besides those that a token has; empty if it has enough."""
    return tuple(dict.fromkeys(scope.partition("|")[0] for scope in wanted if have.isdisjoint(scope.split("|"))))


def together(have: Iterable[str], more: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes of one token that combines both, in a stable order."""
    return tuple(sorted({*have, *more}))
