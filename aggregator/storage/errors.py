"""What goes wrong with a database, by what the operator can do about it. No message holds a value from a row."""

from aggregator.domain.errors import AggregatorError, OperatorError


class StorageError(OperatorError):
    """The database cannot do what was asked."""


class StorageBusy(StorageError):
    """Another process kept it locked for longer than we wait."""


class StorageReadOnly(StorageError):
    """The file or its folder cannot be written."""


class StorageFull(StorageError):
    """There is no room left on the disk."""


class StorageDamaged(StorageError):
    """The file is no database, or a broken one."""


class StorageTooNew(StorageError):
    """A newer version of the program has changed the schema."""


class NoSuchRow(OperatorError):
    """What was named is not in the database, or no longer in a state that allows what was asked."""


class QueueFull(AggregatorError):
    """An agent has as many unanswered approvals as it may have."""


class ValueTooLong(AggregatorError):
    """A server's catalog takes more room than one is given."""
