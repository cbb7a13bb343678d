"""The errors of the database, by the operator's remedy. No message contains a value from a row."""

from aggregator.domain.errors import AggregatorError, OperatorError


class StorageError(OperatorError):
    """The database cannot fulfil a request."""


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


class StorageTooOld(StorageError):
    """A version from before the first release made the database, and it cannot be upgraded."""


class NoSuchRow(OperatorError):
    """The row does not exist in the database, or its state no longer allows the request."""


class AlreadyAgreed(OperatorError):
    """Several users have to agree to a call, and this one already has."""


class QueueFull(AggregatorError):
    """An agent has as many unanswered approvals as it may have."""


class ValueTooLong(AggregatorError):
    """A server's catalog exceeds its share of space."""
