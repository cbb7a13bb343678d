"""Faults of packages, of their descriptions and of registries."""

from aggregator.domain.errors import OperatorError


class PackageError(OperatorError):
    """A source that no server can be made of; the message says why, and what to do."""
