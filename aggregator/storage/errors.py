"""The errors of the database, by what the operator can do about them. No message holds a value from a row."""

from aggregator.domain.errors import AggregatorError, OperatorError


class StorageError(OperatorError):
    """The database cannot do what was asked."""


class StorageBusy(StorageError):
    """Another process kept the database locked for longer than the wait."""


class StorageRefused(StorageError):
    """The database server lets this user not in, has no such database, or does not agree about TLS."""


class DriverMissing(StorageError):
    """The driver of the database server is not installed."""


class StorageReadOnly(StorageError):
    """The file or its folder cannot be written."""


class StorageFull(StorageError):
    """The disk has no room left."""


class StorageDamaged(StorageError):
    """The file is no database, or a broken one."""


class StorageTooNew(StorageError):
    """A newer version of the program has changed the schema."""


class NoSuchRow(OperatorError):
    """The row that was named is not in the database, or no longer in a state that allows what was asked."""


class AlreadyAgreed(OperatorError):
    """Several people have to agree to a call, and this one has."""


class QueueFull(AggregatorError):
    """An agent has as many unanswered approvals as it may have."""


class ValueTooLong(AggregatorError):
    """A server's catalog takes more room than one is given."""
