"""The part of a process in its group, as the packages above this one use it."""

from typing import TYPE_CHECKING, Protocol

from aggregator.replicas.changes_tail import ChangesTail
from aggregator.replicas.clock import GroupClock
from aggregator.replicas.hop_client import HopClient
from aggregator.replicas.membership import Membership
from aggregator.replicas.shared_key import SharedKey

if TYPE_CHECKING:
    from aggregator.storage.opening import Database


class GroupPart(Protocol):
    """A process as one of its group (`app/replication.py`).

    `enabled`: it is one of several, or may be. `stored`: there is a database. `awaited`: the key of the group cannot be
    read yet, so that ids made by others are not known for what they are.
    """

    @property
    def enabled(self) -> bool: ...
    @property
    def stored(self) -> bool: ...
    @property
    def awaited(self) -> bool: ...
    @property
    def key(self) -> SharedKey: ...
    @property
    def clock(self) -> GroupClock: ...
    @property
    def membership(self) -> Membership: ...
    @property
    def changes(self) -> ChangesTail: ...
    @property
    def hop_client(self) -> HopClient: ...

    async def entered(self, within: float) -> bool:
        """Wait until the key of the group is known, at most so many seconds; return whether it is."""
        ...

    async def database(self) -> "Database":
        """Return the database.

        Raises:
            StorageError: there is none, or it cannot be used now.
        """
        ...
