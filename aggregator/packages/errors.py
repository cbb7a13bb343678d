"""Faults of packages, of their descriptions and of registries."""

from aggregator.domain.errors import OperatorError


class PackageError(OperatorError):
    """A source that cannot become a server; the message contains the reason and the fix."""
