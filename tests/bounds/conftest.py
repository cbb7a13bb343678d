"""Shortened waiting times, as in `tests/faults`."""

from tests.faults.conftest import impatience

__all__ = ["impatience"]
