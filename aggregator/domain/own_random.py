"""Chance of our own: whoever else draws in this process draws what it would without us."""

from random import Random
from typing import Final

_DICE: Final = Random()  # noqa: S311


def roll() -> float:
    """Uniform in [0, 1); for spreading things out, never for secrets."""
    return _DICE.random()
