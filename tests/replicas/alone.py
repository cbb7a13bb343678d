"""A process that is no replica, and its limits."""

from aggregator.replicas.config import ReplicasConfig
from aggregator.replicas.group.clock import GroupClock
from aggregator.replicas.group.membership import Membership
from aggregator.replicas.group.replication import Replication
from aggregator.replicas.group.shared_usage import SharedUsage
from aggregator.storage.lazy_database import LazyDatabase


def alone() -> SharedUsage:
    """Return limits that this process keeps by itself."""
    clock = GroupClock()
    return SharedUsage("main", Membership(clock, 6.0), clock)


def group_of_one() -> Replication:
    """Return a group without a database, of which this process is the only part."""
    return Replication(ReplicasConfig(), LazyDatabase(None, None))
