"""The errors of backups, by what the operator can do about them. No message holds a value from a row but its key."""

from aggregator.domain.errors import OperatorError


class BackupError(OperatorError):
    """A backup cannot be made, or cannot be restored."""


class ArchiveBroken(BackupError):
    """An archive is not one of ours, or not as it was when it was written."""


class TargetInUse(BackupError):
    """Processes use the database that is to be filled or copied."""


class TargetNotEmpty(BackupError):
    """The database that is to be filled has rows in it."""
