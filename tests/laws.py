"""How many examples Hypothesis tries of a law: a third in the short lane, all in the full lane and without a lane."""

from typing import Final

from hypothesis import settings

WHOLE: Final = 60
_SHORT: Final = 20

# How long an example takes depends on what else the machine does; a test that hangs has the time limit of pytest.
settings.register_profile("whole", deadline=None, max_examples=WHOLE)
settings.register_profile("short", deadline=None, max_examples=_SHORT)


def load_profile(*, short: bool) -> None:
    """Set how many examples a law has that does not say it."""
    settings.load_profile("short" if short else "whole")


def examples(whole: int) -> int:
    """Return how many examples this run tries of a law that says how many it needs."""
    return max(1, whole * settings().max_examples // WHOLE)
