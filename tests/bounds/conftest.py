"""Waits that are seconds in the product are fractions of one here, as in the tests of faults."""

from tests.faults.conftest import impatience

__all__ = ["impatience"]
