"""Shortened waiting times for every test, as in `tests/faults`."""

from tests.faults.conftest import impatience

__all__ = ["impatience"]
