"""A gateway whose agents may run programs."""

from tests.meta.conftest import open_harness

__all__ = ["open_harness"]
