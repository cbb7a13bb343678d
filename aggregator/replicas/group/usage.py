"""The usage of one limit: by this replica, and by the others as far as it knows.

Rule: nothing here waits or asks; times are those of the event loop, in seconds.

`unknown` is how many of this replica's calls the others may not know of. All replicas together are beyond a limit by
the largest `unknown` of all but one of them at most (docs/limits.md#limits-of-policies-with-replicas): for that, a
replica must never take what it wrote to be known before the database said so.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

MINUTE: Final = 60.0
# Reports of a window have at most about so many pairs of a moment and a number.
_SPANS: Final = 64


class CountedCalls(NamedTuple):
    """A number of calls, and until when they count: the end of their minute, or of their report."""

    until: float
    calls: int


class Usage(ABC):
    """The usage of one counter, which all replicas call `key`; None if one process is alone."""

    __slots__ = ("_others", "_others_calls", "key")

    # Whether calls stop counting at times known before.
    foreseen = False
    # Whether it must be reported again and again while there is something to count.
    leased = False
    # Seconds for which a report counts.
    lease = MINUTE

    def __init__(self, key: str | None = None) -> None:
        self.key = key
        self._others: deque[CountedCalls] = deque()
        self._others_calls = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.key}, {self._others_calls} by others>"

    @abstractmethod
    def own(self, now: float) -> int:
        """Return how many calls of this replica count now."""

    @abstractmethod
    def add(self, now: float, most: int) -> None:
        """Charge one call to a limit of `most`."""

    @abstractmethod
    def unknown(self, now: float) -> int:
        """Return how many calls of this replica the others may not know of."""

    @abstractmethod
    def send(self, now: float) -> tuple[int, tuple[CountedCalls, ...] | None]:
        """Return the report for the others: how many calls count, and, if that changes by itself, until when."""

    @abstractmethod
    def acknowledge(self, now: float, others: Iterable[CountedCalls]) -> None:
        """Record that the last `send` was written at `now` or later, and the usage of the others after that."""

    def used(self, now: float) -> int:
        """Return how many calls of all replicas count now, as far as this one knows."""
        others = self._others
        while others and others[0].until <= now:
            self._others_calls -= others.popleft().calls
        return self.own(now) + self._others_calls

    def free_at(self, now: float, most: int) -> float:
        """Return when less than `most` calls will count, if none is added; `now` if that is unknown."""
        return now

    @property
    def stale(self) -> bool:
        """True if the count differs from the last report in a way that the report did not foresee."""
        return False

    def expires_before(self, when: float) -> bool:
        """Return whether the reported usage has expired at `when`, although there is usage to count."""
        return False

    def _learn(self, others: Iterable[CountedCalls]) -> None:
        self._others = deque(sorted(others))
        self._others_calls = sum(one.calls for one in self._others)


class UsageWindow(Usage):
    """The calls of the last minute."""

    __slots__ = ("_known", "_made", "_sent", "_spans", "_times")

    foreseen = True

    def __init__(self, key: str | None = None) -> None:
        super().__init__(key)
        self._times: deque[float] = deque()
        # The same in little detail, for reports: [time of the first, time of the last, how many].
        self._spans: deque[list[float]] = deque()
        self._made = self._sent = self._known = 0

    def own(self, now: float) -> int:
        """Return the number of this replica's calls in the last minute."""
        times = self._times
        while times and times[0] <= now - MINUTE:
            times.popleft()
        return len(times)

    def add(self, now: float, most: int) -> None:
        """Charge one call."""
        self._times.append(now)
        if self.key is None:
            return
        self._made += 1
        spans = self._spans
        if most > _SPANS and spans and now - spans[-1][0] < MINUTE / _SPANS:
            spans[-1][1] = now
            spans[-1][2] += 1
        else:
            spans.append([now, now, 1])
            while spans[0][1] <= now - MINUTE:
                spans.popleft()

    def unknown(self, now: float) -> int:
        """Return the number of calls since the last report that the database surely has."""
        return self._made - self._known

    def send(self, now: float) -> tuple[int, tuple[CountedCalls, ...]]:
        """Return the calls of the last minute."""
        self._sent = self._made
        found = self._counted(now)
        return sum(one.calls for one in found), found

    def acknowledge(self, now: float, others: Iterable[CountedCalls]) -> None:
        """Take in what the others have used."""
        self._known = self._sent
        self._learn(others)

    def free_at(self, now: float, most: int) -> float:
        """Return when so many calls have expired that less than `most` are left."""
        if most <= 0:
            return now + MINUTE
        times = self._times
        if not self._others:
            return times[len(times) - most] + MINUTE if len(times) >= most else now
        left = self.used(now)
        for until, calls in sorted([*self._others, *self._counted(now)]):
            left -= calls
            if left < most:
                return until
        return now

    def _counted(self, now: float) -> tuple[CountedCalls, ...]:
        return tuple(CountedCalls(last + MINUTE, int(calls)) for _, last, calls in self._spans if last > now - MINUTE)


class UsageLevel(Usage):
    """A number that goes up and down: calls in flight, or the calls of a conversation.

    A report counts for `lease` seconds, unless the replica writes a new one.
    """

    __slots__ = ("_lowest", "_sent", "_sent_at", "_until", "calls", "lease", "leased")

    def __init__(self, key: str | None = None, lease: float = 0.0, *, leased: bool = False) -> None:
        super().__init__(key)
        self.leased = leased
        self.calls = 0
        self.lease = lease
        self._sent = self._lowest = 0
        self._sent_at = self._until = 0.0

    def own(self, now: float) -> int:
        """Return the number of this replica."""
        return self.calls

    def add(self, now: float, most: int) -> None:
        """Count one more call."""
        self.calls += 1

    def remove(self) -> None:
        """Count one call less."""
        self.calls -= 1

    def unknown(self, now: float) -> int:
        """Return how far the number is above the lowest that the others may believe."""
        return self.calls - (self._lowest if now < self._until else 0)

    @property
    def stale(self) -> bool:
        """True if the last report has another number."""
        return self.calls != self._sent

    def expires_before(self, when: float) -> bool:
        """Return whether the reported usage has expired at `when`, although there is usage to count."""
        return self.calls > 0 and self._until < when

    def send(self, now: float) -> tuple[int, None]:
        """Return the number."""
        self._sent, self._sent_at = self.calls, now
        # From here on the others may know the new number, or the old one.
        self._lowest = min(self._lowest, self.calls)
        return self.calls, None

    def acknowledge(self, now: float, others: Iterable[CountedCalls]) -> None:
        """Take in what the others have used."""
        self._lowest, self._until = self._sent, self._sent_at + self.lease
        self._learn(others)
