"""Errors of edits."""

from aggregator.domain.errors import OperatorError


class EditError(OperatorError):
    """A file that cannot be read, is not in its format, cannot be edited safely, or changed in the meantime."""
