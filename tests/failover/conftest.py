"""The product's own patience, shortened for every test here, as in `tests/faults`."""

from tests.faults.conftest import impatience

__all__ = ["impatience"]
