"""Set the wall clock of a program off by `$CHAOS_SKEW` seconds: Python imports this by itself from its path."""

import os
import time

_skew = float(os.environ.get("CHAOS_SKEW", "0"))
_true = time.time


def _skewed() -> float:
    return _true() + _skew


time.time = _skewed
