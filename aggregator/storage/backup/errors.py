"""The errors of backups, by the operator's remedy. No message contains a value from a row except its key."""

from aggregator.domain.errors import OperatorError


class BackupError(OperatorError):
    """A backup cannot be written or restored."""


class ArchiveBroken(BackupError):
    """An archive is not one of ours, or has changed since it was written."""


class TargetInUse(BackupError):
    """Processes use the database that is to be filled or copied."""


class TargetNotEmpty(BackupError):
    """The database that is to be filled has rows in it."""
