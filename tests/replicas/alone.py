"""Limits of a process that is no replica."""

from aggregator.replicas.clock import GroupClock
from aggregator.replicas.membership import Membership
from aggregator.replicas.shared_usage import SharedUsage


def alone() -> SharedUsage:
    """Return limits that this process keeps by itself."""
    clock = GroupClock()
    return SharedUsage("main", Membership(clock, 6.0), clock)
